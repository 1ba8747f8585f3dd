package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// script is a hook of a package that does what the test tells it, call by call:
// the test sees the world as it is while the hook runs.
type script struct {
	b   *bench
	dir string
}

// scripted makes a script and its text, which a package has as a file.
func (b *bench) scripted() (*script, string) {
	b.Helper()
	// Not t.TempDir, whose parent nobody else may enter: hooks run as another user.
	dir, err := os.MkdirTemp("", "jibe-script-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // a hook that was killed may just be writing
	if err := os.Chmod(dir, 0o777); err != nil {
		b.Fatal(err)
	}
	return &script{b, dir}, fmt.Sprintf(`#!/bin/sh
# Reports its call, and does what the test says then.
n=1
while ! mkdir %[1]s/$n 2>/dev/null; do
  n=$((n+1))
  [ $n -lt 50 ] || { echo "no room in %[1]s" >&2; exit 9; }
done
chmod 777 %[1]s/$n
cat > %[1]s/$n/input
mv %[1]s/$n/input %[1]s/$n/input.json
while [ ! -e %[1]s/$n/answer ]; do sleep 0.02; done
. %[1]s/$n/answer
`, dir)
}

// called waits for the call n (from 1) and returns the input of the hook.
func (s *script) called(n int) object {
	s.b.Helper()
	var input object
	kit.Eventually(s.b, func() error {
		text, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprint(n), "input.json"))
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &input)
	})
	return input
}

// calls is how often the hook was called.
func (s *script) calls() int {
	s.b.Helper()
	for n := 0; ; n++ {
		_, err := os.Stat(filepath.Join(s.dir, fmt.Sprint(n+1)))
		if errors.Is(err, fs.ErrNotExist) {
			return n
		}
		if err != nil {
			s.b.Fatal(err)
		}
	}
}

// answer has the call n go on with lines of sh.
func (s *script) answer(n int, lines string) {
	s.b.Helper()
	dir := filepath.Join(s.dir, fmt.Sprint(n))
	err := os.WriteFile(filepath.Join(dir, "next"), []byte(lines+"\n"), 0o644)
	if err == nil {
		err = os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "answer"))
	}
	if err != nil {
		s.b.Fatal(err)
	}
}

// each is call and answer.
func (s *script) each(n int, lines string) object {
	s.b.Helper()
	input := s.called(n)
	s.answer(n, lines)
	return input
}

// unitsOf are the units of one side ("old", "new") of the VDU in a hook's input, by name.
func unitsOf(input object, vdu, side string) map[string]object {
	units := map[string]object{}
	for _, v := range input.list("vdus") {
		if v.text("id") == vdu {
			for _, u := range v.list(side) {
				units[u.text("name")] = u
			}
		}
	}
	return units
}

// exists says whether there is a file of that path.
func (b *bench) exists(path string) bool {
	b.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.Fatal(err)
	}
	return err == nil
}
