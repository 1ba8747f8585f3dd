package auth

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestName bounds the name of a caller, in bytes.
const longestName = 400

// goodName reports whether a name of a caller, a user or a project can be taken, whatever it comes from: a
// token file, a claim, Keystone. It can stand in commits and logs, and doesn't look like another one: it has
// no characters that are invisible or change the direction of what is around them.
func goodName(name string) bool {
	return name != "" && len(name) <= longestName && utf8.ValidString(name) && !strings.ContainsFunc(name, badInName) && strings.TrimSpace(name) == name
}

// badInName reports whether no name has the character.
func badInName(r rune) bool {
	switch r {
	case '<', '>', utf8.RuneError, '\u2800': // the last is a blank of Braille
		return true
	}
	// Cf has the controls of direction and the joiners and spaces without a width.
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
