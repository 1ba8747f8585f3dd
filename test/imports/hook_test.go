package imports

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The program is one, so that its packages can't tell what the process of a push hook runs: the files of that command do.
func TestThePushHookReachesNothingThatWrites(t *testing.T) {
	t.Parallel()
	allowed := []string{"admission", "desired", "desired/gitrepo/check"} // of which the rules say what they reach
	for _, name := range []string{"hook.go", "hook_land.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "cmd", "jibe", name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}

		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, ok := strings.CutPrefix(path, Module+"/"); ok && !slices.Contains(allowed, own) {
				t.Errorf("cmd/jibe/%s imports %s", name, own)
			}
		}
	}
}
