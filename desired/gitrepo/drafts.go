package gitrepo

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// draftOwner is who brought a branch next to the desired one. The seal proves that this server wrote it down: a commit's author is
// what its maker says.
type draftOwner struct {
	Owner string `json:"owner"`
	// Commit is the last that the owner brought. A branch that stands at another one is a different branch of that name, or has
	// commits of other callers.
	Commit string `json:"commit"`
	Seal   string `json:"seal"`
}

// draftOwners is the file of the owners of drafts, by ref.
type draftOwners struct {
	mu sync.Mutex
}

// mostDrafts is how many owners are kept before those of branches that are gone are dropped.
const mostDrafts = 1000

// DraftMoved notes what git took of a push by its owner to a draft: the caller who brings a branch owns it until it is deleted.
func (r *Repo) DraftMoved(u check.RefUpdate, by string, rewritten bool) error {
	if !r.check.IsDraft(u.Ref) {
		return nil
	}
	r.drafts.mu.Lock()
	defer r.drafts.mu.Unlock()
	owners, err := r.readDrafts()
	if err != nil {
		return err
	}

	was, known := owners[u.Ref]
	switch {
	case u.New == "" && !known:
		return nil
	case u.New == "":
		delete(owners, u.Ref)
	case u.Old == "", known && was.Owner == by && (rewritten || was.Commit == u.Old):
		owners[u.Ref] = draftOwner{Owner: by, Commit: u.New, Seal: r.seal("draft", u.Ref, by, u.New)}
	default:
		return nil
	}
	if len(owners) > mostDrafts {
		for ref := range owners {
			if now, err := git.ReadRef(r.opt.Dir, ref); err == nil && now == "" {
				delete(owners, ref)
			}
		}
	}
	return r.writeDrafts(owners)
}

// DraftOwner returns who brought all of a draft that stands at a commit, "" where that can't be proved: what others have put on
// top isn't the owner's to remove.
func (r *Repo) DraftOwner(ctx context.Context, ref, at string) (string, error) {
	r.drafts.mu.Lock()
	owners, err := r.readDrafts()
	r.drafts.mu.Unlock()
	if err != nil {
		return "", err
	}

	o := owners[ref]
	if len(r.opt.Key) == 0 || !git.IsHash(o.Commit) || !git.IsHash(at) || !hmac.Equal([]byte(o.Seal), []byte(r.seal("draft", ref, o.Owner, o.Commit))) {
		return "", nil
	}
	if o.Commit != at {
		return "", nil
	}
	return o.Owner, nil
}

func (r *Repo) draftsFile() string { return filepath.Join(objects.OwnDir(r.opt.Dir), "drafts") }

func (r *Repo) readDrafts() (map[string]draftOwner, error) {
	data, err := os.ReadFile(r.draftsFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: read who brought drafts: %w", desired.ErrUnavailable, err)
	}
	owners := map[string]draftOwner{}
	if len(data) > 0 && json.Unmarshal(data, &owners) != nil {
		owners = map[string]draftOwner{} // administrators delete what has no owner
	}
	return owners, nil
}

func (r *Repo) writeDrafts(owners map[string]draftOwner) error {
	data, err := json.Marshal(owners)
	tmp := filepath.Join(objects.OwnDir(r.opt.Dir), git.TmpPrefix+"drafts")
	if err == nil {
		err = git.WriteSynced(tmp, data)
	}
	if err == nil {
		err = os.Rename(tmp, r.draftsFile())
	}
	if err == nil {
		err = git.SyncDir(objects.OwnDir(r.opt.Dir))
	}
	if err != nil {
		return fmt.Errorf("%w: write down who brought drafts: %w", desired.ErrUnavailable, err)
	}
	return nil
}
