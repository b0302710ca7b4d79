package template

import (
	"strings"
	"unicode"
)

// Blank reports whether a text shows nothing: it is empty or holds only white
// space, control and format characters (zero-width space and joiner, BOM, soft
// hyphen), variation selectors, or fillers that are drawn as nothing.
func Blank(text string) bool { return strings.IndexFunc(text, visible) < 0 }

func visible(r rune) bool { return !blank(r) }

func blank(r rune) bool {
	switch r {
	case '\u034f', // combining grapheme joiner
		'\u115f', '\u1160', '\u3164', '\uffa0', // Hangul fillers
		'\u17b4', '\u17b5', // Khmer inherent vowels
		'\u2800': // braille pattern without dots
		return true
	}
	return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Variation_Selector)
}
