package desired

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// OneLine writes JSON so that it stays as it is in a line of a commit or a note, where white space
// counts for nothing, and shows all that it says.
func OneLine(text []byte) string {
	var compact bytes.Buffer
	compact.Grow(len(text))
	if json.Compact(&compact, text) != nil {
		return ""
	}
	if oneLined(compact.Bytes()) { // as most is
		return compact.String()
	}
	var b strings.Builder
	space := false
	for _, c := range compact.String() { // what is left of white space and of control characters stands in texts
		if c == ' ' && !space || c != ' ' && unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			for _, unit := range utf16.AppendRune(nil, c) {
				fmt.Fprintf(&b, "\\u%04x", unit)
			}
		}
		space = c == ' '
	}
	return b.String()
}

// oneLined reports whether a text is printable ASCII in which no two spaces stand together.
func oneLined(text []byte) bool {
	for i, c := range text {
		if c < ' ' || c > '~' || c == ' ' && i > 0 && text[i-1] == ' ' {
			return false
		}
	}
	return true
}
