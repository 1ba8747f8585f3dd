package vnfpkgm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// spool is where the archive of one package is kept until it is in git:
//
//	<id>.part     what is being received; of no use after a crash
//	<id>.request  who brought it, or from where it is to be fetched
//	<id>.csar     the whole archive: once it has this name it is answered for
//	<id>.inner    the archive that was inside a signed one
//	<id>.scratch  what is being written for git
type spool struct{ dir, id string }

func (s *Service) spool(id string) spool { return spool{s.Dir, id} }

func (p spool) path(kind string) string { return filepath.Join(p.dir, p.id+"."+kind) }

// request is what must be remembered of an upload.
type request struct {
	By string `json:"by"` // "name <mail>"
	// Identity, Issuer and Source are By as the audit log has it.
	Identity string `json:"identity,omitempty"`
	Issuer   string `json:"issuer,omitempty"`
	Source   string `json:"source,omitempty"`
	// URI is from where the archive is to be fetched, "" for one that was sent. UserName
	// and Password, which is encrypted, are for that.
	URI      string `json:"uri,omitempty"`
	UserName string `json:"userName,omitempty"`
	Password string `json:"password,omitempty"`
}

// begin notes the request. It is durable when begin returns.
func (p spool) begin(r request) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := p.path("request.part")
	if err := git.WriteSynced(tmp, data); err != nil {
		return err
	}
	if err := os.Rename(tmp, p.path("request")); err != nil {
		return err
	}
	return git.SyncDir(p.dir)
}

// begun returns the request, and fs.ErrNotExist where there is none.
func (p spool) begun() (request, error) {
	data, err := os.ReadFile(p.path("request"))
	if err != nil {
		return request{}, err
	}
	var r request
	if err := json.Unmarshal(data, &r); err != nil {
		return request{}, fmt.Errorf("%s: %w", p.path("request"), err)
	}
	return r, nil
}

// receive writes the archive down. It is durable, and answered for, when receive returns.
func (p spool) receive(in io.Reader) (err error) {
	part := p.path("part")
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	_, err = io.Copy(f, in)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(part, p.path("csar")); err != nil {
		return err
	}
	return git.SyncDir(p.dir)
}

// received says whether the whole archive is there.
func (p spool) received() bool {
	_, err := os.Lstat(p.path("csar"))
	return err == nil
}

// clear removes all, the archive first: what is left after a crash has nothing to be done.
func (p spool) clear() error {
	var errs []error
	for _, kind := range []string{"csar", "part", "inner", "scratch", "request", "request.part"} {
		errs = append(errs, os.RemoveAll(p.path(kind)))
	}
	return errors.Join(errs...)
}

// tidy removes what a process left that was killed in the middle of its work.
func (p spool) tidy() error {
	return errors.Join(os.RemoveAll(p.path("part")), os.RemoveAll(p.path("inner")), os.RemoveAll(p.path("scratch")))
}

// recover makes the directory, removes what is incomplete, and returns the ids of what was
// answered for and isn't done.
func (s *Service) recover() ([]string, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	items, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	var todo, ids []string
	seen := map[string]bool{}
	for _, i := range items {
		id, _, _ := strings.Cut(i.Name(), ".")
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		p := s.spool(id)
		r, err := p.begun()
		switch {
		case err == nil && (p.received() || r.URI != ""):
			todo = append(todo, id)
			err = p.tidy()
		case err == nil || errors.Is(err, fs.ErrNotExist):
			err = p.clear()
		}
		if err != nil {
			return nil, err
		}
	}
	return todo, nil
}
