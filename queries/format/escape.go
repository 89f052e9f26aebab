package format

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns the text with every character that could change the display of a terminal made visible:
// control characters (C0, DEL and C1) as \n, \t, \r or \x1b, invisible format characters such as
// the marks that reverse the direction of writing as \u202e, bytes that are not UTF-8 as \xff.
// Values in the lake come from traces, which anybody may have written.
func Escape(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !hidden(r), r == utf8.RuneError && strings.HasPrefix(s[i:], "\uFFFD"):
			b.WriteRune(r)
		case r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// hidden reports whether a character has no glyph of its own, or is RuneError, which stands for bytes that
// are not UTF-8.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError
}
