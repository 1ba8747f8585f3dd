package secret_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

func TestParametersAreRevealedWhereverAReferenceStands(t *testing.T) {
	outside := t.TempDir()
	k := reaching(t, outside)
	sealed, err := k.For(secret.ForVIMs()).Encrypt("hunter2")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("JIBE_TEST_SECRET", "from-env")
	file := filepath.Join(outside, "password")
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
	got, err := k.For(secret.ForVIMs()).Reveal(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if fmt.Sprint(in) != before {
		t.Error("the argument was changed")
	}
	if none, err := k.For(secret.ForVIMs()).Reveal(nil); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

func TestWhatCantBeRevealedIsNamed(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	secrets := filepath.Join(dir, secret.DefaultDir)
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../"+secret.IdentityFile, filepath.Join(secrets, "link")); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"env:JIBE_SECRET_UNSET":     secret.ErrMissing.Error(),
		"file:" + secrets + "/none": secret.ErrMissing.Error(),
		"env:HOME":                  "the environment variable HOME isn't one",
		"file:/nonexistent/x":       "the file /nonexistent/x is outside",
		"file:" + filepath.Join(dir, secret.IdentityFile):      "is outside of what references may name, " + secrets + " (what else is in Jibe's data directory is its own: put the secret into a file of ",
		"file:" + secrets + "/../" + secret.IdentityFile:       "is outside",
		"file:" + secrets + "/link":                            "leads out of " + secrets + " by a symbolic link",
		"file:" + secrets + "/../../" + filepath.Base(dir)[1:]: "is outside",
	} {
		got, err := k.For(secret.ForVIMs()).Reveal(map[string]any{"a": []any{map[string]any{"b": ref}}})
		if got != nil || err == nil || !strings.HasPrefix(err.Error(), "a[0].b: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", ref, got, err, want)
		}
	}
}
