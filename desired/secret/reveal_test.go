package secret_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

func TestParametersAreRevealedWhereverAReferenceStands(t *testing.T) {
	k := open(t, t.TempDir())
	sealed, err := k.Encrypt("hunter2")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("JIBE_TEST_SECRET", "from-env")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := map[string]any{
		"vdu_params": []any{map[string]any{"vdu_id": "vdu1", "new_vnfc_param": map[string]any{"username": "admin", "password": sealed}}},
		"lb":         map[string]string{"password": "file:" + file, "ip": "10.0.0.1"},
		"list":       []string{"env:JIBE_TEST_SECRET", "plain"},
		"maps":       []map[string]any{{"a": "env:JIBE_TEST_SECRET"}},
		"url":        "https://x", "relative": "file:below", "count": 3, "on": true, "nothing": nil,
	}
	before := fmt.Sprint(in)
	want := map[string]any{
		"vdu_params": []any{map[string]any{"vdu_id": "vdu1", "new_vnfc_param": map[string]any{"username": "admin", "password": "hunter2"}}},
		"lb":         map[string]string{"password": "from-file", "ip": "10.0.0.1"},
		"list":       []any{"from-env", "plain"},
		"maps":       []any{map[string]any{"a": "from-env"}},
		"url":        "https://x", "relative": "file:below", "count": 3, "on": true, "nothing": nil,
	}
	got, err := k.Reveal(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if fmt.Sprint(in) != before {
		t.Error("the argument was changed")
	}
	if none, err := k.Reveal(nil); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

func TestWhatCantBeRevealedIsNamed(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, secret.IdentityFile), link); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{
		"env:JIBE_TEST_UNSET", "file:/nonexistent/x", "file:" + filepath.Join(dir, secret.IdentityFile), "file:" + link,
		"file:" + filepath.Join(dir, "..", filepath.Base(dir), "tokens.yaml"),
	} {
		got, err := k.Reveal(map[string]any{"a": []any{map[string]any{"b": ref}}})
		if got != nil || !errors.Is(err, secret.ErrMissing) || !strings.HasPrefix(err.Error(), "a[0].b: ") {
			t.Errorf("%s: %v, %v", ref, got, err)
		}
	}
}
