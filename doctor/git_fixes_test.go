package doctor

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAGitWithoutSecurityFixesIsTold(t *testing.T) {
	t.Parallel()
	for version, lacks := range map[string]string{
		"git version 2.36.0":                  "has none any more",
		"git version 2.38.5":                  "has none any more",
		"git version 2.39.4":                  "from 2.39.5 on",
		"git version 2.39.5":                  "",
		"git version 2.39.5 (Apple Git-154)":  "",
		"git version 2.40.4":                  "has none any more",
		"git version 2.42.0":                  "has none any more",
		"git version 2.43.0":                  "from 2.43.7 on",
		"git version 2.43.7":                  "",
		"git version 2.44.3":                  "from 2.44.4 on",
		"git version 2.45.4":                  "",
		"git version 2.46.3":                  "from 2.46.4 on",
		"git version 2.47.2":                  "from 2.47.3 on",
		"git version 2.47.3":                  "",
		"git version 2.48.1":                  "from 2.48.2 on",
		"git version 2.49.0":                  "from 2.49.1 on",
		"git version 2.50.0.windows.2":        "from 2.50.1 on",
		"git version 2.50":                    "from 2.50.1 on",
		"git version 2.50.1":                  "",
		"git version 2.51.0":                  "",
		"git version 2.51.0.rc0.20.gabcdef01": "",
		"git version 3.0.0":                   "",
		"git version unknown":                 "",
	} {
		got := gitUnfixed(version)
		if (got == "") != (lacks == "") || !strings.Contains(got, lacks) {
			t.Errorf("%s: %q, want %q", version, got, lacks)
		}
	}
}

func TestAPackageWithTheFixesIsNoWarning(t *testing.T) {
	t.Parallel()
	const fixed = "git (1:2.43.0-1ubuntu7.3) noble-security\n\n  * SECURITY UPDATE: arbitrary code execution\n    - CVE-2025-48384\n"
	for name, c := range map[string]struct {
		changelog, programs string
		want                bool
	}{
		"the distribution's, with the fixes":    {fixed, "usr/lib/git-core", true},
		"the distribution's, without":           {"git (1:2.43.0-1ubuntu7) noble\n", "usr/lib/git-core", false},
		"without a changelog":                   {"", "usr/lib/git-core", false},
		"another one beside the distribution's": {fixed, "usr/local/libexec/git-core", false},
		"one in a folder with a longer name":    {fixed, "usr/lib64/git-core", false},
	} {
		root := t.TempDir()
		if c.changelog != "" {
			file := filepath.Join(root, filepath.FromSlash(debianChangelog))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			packed(t, file, c.changelog)
		}

		if got := gitBackported(root, filepath.Join(root, filepath.FromSlash(c.programs))); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func packed(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := gzip.NewWriter(f)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
