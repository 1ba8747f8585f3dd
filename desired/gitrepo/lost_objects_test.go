package gitrepo

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

func TestAPushToAnotherBranchBringsBackWhatWasLost(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	older := filepath.Join(t.TempDir(), "older.git")
	runGit(t, "", "clone", "-q", "--mirror", r.opt.Dir, older)
	lost, err := scale(t.Context(), r, 1, "later")
	if err != nil {
		t.Fatal(err)
	}
	back := openRepo(t, Options{Dir: older})
	if _, err := back.read.Read(t.Context(), lost); !errors.Is(err, desired.ErrNotFound) {
		t.Fatalf("what the older clone lacks is read: %v", err)
	}

	problems, err := back.check.CheckRefs(t.Context(), check.RefUpdate{Ref: "refs/heads/recovered", New: lost.Commit})
	if err != nil || len(problems) > 0 {
		t.Errorf("the push would be refused: %v, %v", problems, err)
	}
	runGit(t, r.opt.Dir, "push", "-q", older, lost.Commit+":refs/heads/recovered")

	if in, err := back.read.Read(t.Context(), lost); err != nil || in.ID != testID(1) {
		t.Errorf("read is %+v, %v", in, err)
	}
}
