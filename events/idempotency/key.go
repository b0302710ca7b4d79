package idempotency

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"pilotstatus.dev/events"
)

// Header is the request header that names a request for its repeats.
const Header = "Idempotency-Key"

// MaxKey is the most characters of a key, quotes and escapes not counted.
const MaxKey = 255

// Rule names what is wrong with the header (docs/reference/errors.md).
type Rule string

// Rules of the header.
const (
	RuleOne        Rule = "one_value"  // more than one value: a list, or the header twice
	RuleRequired   Rule = "required"   // nothing was given
	RuleTooLong    Rule = "too_long"   // more than MaxKey characters
	RuleCharacters Rule = "characters" // something but printable ASCII, or a quoted string that does not end well
)

// ParseKey reads the values of the header, one for each time that it was sent: a quoted string (RFC 8941) or the bare key,
// which may hold everything printable but blanks, quotes, backslashes, commas and semicolons. Both forms of a key are the
// same key. No value at all is no key. A rule that is not empty says what is wrong.
func ParseKey(values []string) (key string, rule Rule) {
	switch len(values) {
	case 0:
		return "", ""
	case 1:
	default:
		return "", RuleOne
	}
	raw := strings.Trim(values[0], " \t")
	if quoted, ok := strings.CutPrefix(raw, `"`); ok {
		key, rule = unquote(quoted)
	} else {
		key, rule = bare(raw)
	}
	switch {
	case rule != "":
		return "", rule
	case key == "":
		return "", RuleRequired
	case len(key) > MaxKey:
		return "", RuleTooLong
	}
	return key, ""
}

// unquote reads a string of RFC 8941 behind its first quote.
func unquote(s string) (string, Rule) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", RuleCharacters
			}
			b.WriteByte(s[i])
		case c == '"':
			return b.String(), after(s[i+1:])
		case c < ' ' || c > '~':
			return "", RuleCharacters
		default:
			b.WriteByte(c)
		}
	}
	return "", RuleCharacters
}

// after judges what follows the end of a quoted string: nothing may.
func after(rest string) Rule {
	switch rest = strings.TrimLeft(rest, " \t"); {
	case rest == "":
		return ""
	case rest[0] == ',':
		return RuleOne
	default:
		return RuleCharacters
	}
}

func bare(s string) (string, Rule) {
	if strings.Contains(s, ",") {
		return "", RuleOne
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == ';' {
			return "", RuleCharacters
		}
	}
	return s, ""
}

// Request names one request, and one item of it where it has several.
type Request struct {
	Tenant      string
	Environment events.Environment
	Method      string
	Path        string // of the route, without the alias /api
	Key         string
	Item        string // empty for the whole request
}

// Name is the key of the request's claim: <tenant>.<environment>.<hex SHA-256 of method, path, key and item>.
func (r Request) Name() string {
	// A newline stands in none of the parts.
	sum := sha256.Sum256([]byte(strings.Join([]string{r.Method, r.Path, r.Key, r.Item}, "\n")))
	return r.Tenant + "." + string(r.Environment) + "." + hex.EncodeToString(sum[:])
}
