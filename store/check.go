package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxKey is the longest key, in bytes.
	MaxKey = 512
	// Digits is the width of the number that completes a key.
	Digits = 20
)

// Completed says whether the store completes the record's key, when it is put.
func (r Record) Completed() bool { return strings.HasSuffix(r.Key, "/") }

// Check refuses records that no store could keep; each store asks it before a Put.
func Check(recs []Record) error {
	seen := make(map[string]bool, len(recs))
	for _, r := range recs {
		switch {
		case r.Key == "" || len(r.Key) > MaxKey || strings.ContainsRune(r.Key, 0) || !utf8.ValidString(r.Key):
			return fmt.Errorf("key %.64q: keys are UTF-8 without NUL, 1 to %d bytes long", r.Key, MaxKey)
		case r.Completed():
			if r.Version != 0 || r.Delete {
				return fmt.Errorf("key %q: a key that the store completes makes a new record", r.Key)
			}
			if len(r.Key)+Digits > MaxKey {
				return fmt.Errorf("key %.64q: too long to be completed", r.Key)
			}
		case seen[r.Key]:
			return fmt.Errorf("key %q: twice in one Put", r.Key)
		}
		seen[r.Key] = true
	}
	return nil
}
