package tracing

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHeadersForTheCollectorAreReadWholeOrRefusedWithoutBeingQuoted(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{"": "map[]", "# none\n\n": "map[]", "Authorization: Bearer s3cret\nX-Tenant: a\n": "map[Authorization:[Bearer s3cret] X-Tenant:[a]]"} {
		if got, err := readHeaders(written(t, text)); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q is read as %v: %v", text, got, err)
		}
	}
	for _, bad := range []string{"s3cret", "Two Words: s3cret", ": s3cret", "Name:", "A: b\x01s3cret", "A: ok\ns3cret\n"} {
		if _, err := readHeaders(written(t, bad)); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := readHeaders("/nowhere/at/all"); err == nil {
		t.Error("a file that isn't there is taken")
	}
}

// written is a file with the text.
func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
