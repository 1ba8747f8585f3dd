// Package natural orders names as people do: numbers in them count as numbers, so that upf-2
// stands before upf-11. It is the only place that says so; it never parses or alters a name.
package natural

import (
	"cmp"
	"strings"
)

// Compare is negative where a stands before b, positive where it stands behind, and 0 where both
// are the same text. Digits that stand together are a number, of any length; all else goes by
// bytes, as in [strings.Compare]. Texts that say the same with other leading zeros go by bytes as
// a whole, so that the order is total: the same list always comes out in the same order.
func Compare(a, b string) int {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if !digit(a[i]) || !digit(b[j]) {
			if a[i] != b[j] {
				return cmp.Compare(a[i], b[j])
			}
			i, j = i+1, j+1
			continue
		}
		m, n := number(a[i:]), number(b[j:])
		x, y := strings.TrimLeft(a[i:i+m], "0"), strings.TrimLeft(b[j:j+n], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
			return c
		}
		i, j = i+m, j+n
	}
	return cmp.Or(cmp.Compare(len(a)-i, len(b)-j), strings.Compare(a, b))
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// number is how many digits the text begins with.
func number(text string) int {
	n := 0
	for n < len(text) && digit(text[n]) {
		n++
	}
	return n
}
