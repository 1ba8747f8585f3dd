package imports

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostSleeps is how many tests may sleep.
const mostSleeps = 20

// A sleep makes a test slow where it is too long, and fail by chance where it is too short.
func TestFewTestsSleepAndEachSaysWhy(t *testing.T) {
	const sleep = "time." + "Sleep("
	n := 0

	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 {
			return fs.SkipDir
		}

		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}

		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		for i, line := range strings.Split(string(text), "\n") {
			if !strings.Contains(line, sleep) {
				continue
			}

			n++
			if _, why, _ := strings.Cut(line, " // "); why == "" {
				t.Errorf("%s:%d sleeps without a reason: wait with kit.Eventually, let a bubble's time pass with kit.Pass, or say why behind it", path, i+1)
			}
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if n > mostSleeps {
		t.Errorf("%d tests sleep, of which there may be %d", n, mostSleeps)
	}
}
