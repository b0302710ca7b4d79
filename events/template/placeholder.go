package template

import (
	"regexp"
	"strings"
)

// placeholderPattern is {{name}}, with blanks allowed inside and numbers allowed
// as names, as customers of WhatsApp templates write them.
var placeholderPattern = regexp.MustCompile(`\{\{[ \t]*([A-Za-z0-9_]+)[ \t]*\}\}`)

var bracedPattern = regexp.MustCompile(`\{\{[^{}]*\}\}`)

// placeholder is where a placeholder stands in a text, in bytes, and its name.
type placeholder struct {
	start, end int
	name       string
}

func placeholders(text string) []placeholder {
	var found []placeholder
	for _, at := range placeholderPattern.FindAllStringSubmatchIndex(text, -1) {
		found = append(found, placeholder{start: at[0], end: at[1], name: text[at[2]:at[3]]})
	}
	return found
}

// expand puts values in the place of placeholders in one pass: what a value holds
// is copied and never looked at again.
func expand(text string, value func(name string) string) string {
	var out strings.Builder
	from := 0
	for _, p := range placeholders(text) {
		out.WriteString(text[from:p.start])
		out.WriteString(value(p.name))
		from = p.end
	}
	out.WriteString(text[from:])
	return out.String()
}

// malformed reports whether text has double braces that look like a placeholder
// but hold no name: they would reach the recipient as they are.
func malformed(text string) bool {
	for _, braced := range bracedPattern.FindAllString(text, -1) {
		if !placeholderPattern.MatchString(braced) {
			return true
		}
	}
	return false
}
