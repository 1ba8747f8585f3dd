// Package reference reads what flags refer to: files and variables of the environment with secrets, which no
// flag should hold itself.
package reference

import (
	"fmt"
	"os"
	"strings"
)

// Read reads what a reference names. It isn't shown where it is no reference: it may be the
// password itself.
func Read(flag, reference string) (string, error) {
	kind, name, _ := strings.Cut(reference, ":")
	switch {
	case reference == "":
		return "", nil
	case kind == "env":
		if v, ok := os.LookupEnv(name); ok {
			return v, nil
		}
		return "", fmt.Errorf("%s: the environment has no %s", flag, name)
	case kind == "file":
		text, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	return "", fmt.Errorf("%s: want file:PATH or env:NAME", flag)
}
