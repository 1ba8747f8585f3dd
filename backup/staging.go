package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// staging gathers what goes into a backup below a folder, under the names that it has there.
type staging struct {
	data, dir string
	// limits bound how much of a file counts that may be written on, by its name; the size in
	// bytes.
	limits map[string]int64
}

// path is where an entry stands until it is written.
func (s *staging) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// file takes a file as it is; one that is gone is left out. A further name of the same file
// suffices where it is never written in place.
func (s *staging) file(name, from string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	to := s.path(name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		err := os.Link(from, to)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// Another file system, or one without further names.
	}
	return s.copied(name, from, info.Mode().Perm())
}

// text takes a small file that is written in place.
func (s *staging) text(name, from string) error {
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o700); err != nil {
		return err
	}
	err := s.copied(name, from, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *staging) copied(name, from string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(s.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// tree takes a folder of the data directory with all that is in it, but for what skip names by
// its path in the folder. A link leads to what is taken; those that a mounted volume hides behind
// are left out with the names that begin with "..".
func (s *staging) tree(name string, skip func(rel string) bool) error {
	return s.below(name, filepath.Join(s.data, filepath.FromSlash(name)), "", skip, 0)
}

// deepest is how deep folders may be: a link may lead back to where it stands.
const deepest = 40

func (s *staging) below(name, from, rel string, skip func(string) bool, depth int) error {
	if depth > deepest {
		return fmt.Errorf("%s is deeper than %d folders: does a link in it lead back?", from, deepest)
	}
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := os.MkdirAll(s.path(name), 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		at := strings.TrimPrefix(rel+"/"+e.Name(), "/")
		if strings.HasPrefix(e.Name(), "..") || skip != nil && skip(at) {
			continue
		}
		source := filepath.Join(from, e.Name())
		info, err := os.Stat(source)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went, or is a link to nothing
			continue
		case err != nil:
			return err
		case info.IsDir():
			err = s.below(name+"/"+e.Name(), source, at, skip, depth+1)
		case info.Mode().IsRegular():
			err = s.file(name+"/"+e.Name(), source)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// repository is a bare git repository.
type repository struct {
	dir, name string // name is that in the backup
	refs      []byte // as git has them in packed-refs
	symbolic  string // the branch that HEAD names
}

// readRefs reads what all refs name, which says what the repository is.
func (r *repository) readRefs(ctx context.Context) error {
	out, err := git.Runner{Dir: r.dir}.Run(ctx, "for-each-ref", "--format=%(objectname) %(refname)")
	if err != nil {
		return fmt.Errorf("refs of %s: %w", r.dir, err)
	}
	head, err := os.ReadFile(filepath.Join(r.dir, "HEAD"))
	if err != nil {
		return fmt.Errorf("refs of %s: %w", r.dir, err)
	}
	r.refs = append([]byte("# pack-refs with: sorted \n"), out...)
	r.symbolic = strings.TrimSpace(strings.TrimPrefix(string(head), "ref:"))
	return nil
}

// head is the commit of the branch that HEAD names, "" where there is none yet.
func (r *repository) head() string {
	for line := range bytes.Lines(r.refs) {
		if hash, name, _ := strings.Cut(strings.TrimSpace(string(line)), " "); name == r.symbolic && git.IsHash(hash) {
			return hash
		}
	}
	return ""
}

// loose is the folder of some loose objects; packed is a file of a pack.
var (
	loose  = regexp.MustCompile(`^[0-9a-f]{2}$`)
	object = regexp.MustCompile(`^[0-9a-f]{38}$`)
	packed = regexp.MustCompile(`^pack-[0-9a-f]{40}\.(pack|idx|rev)$`)
)

// repository takes a repository whose refs were read: whatever they name is there, and stays
// while it is taken, as nothing prunes it so soon. What nothing names is taken, too: the store may
// tell of a commit that was left behind.
func (s *staging) repository(r *repository) error {
	if text, err := os.ReadFile(filepath.Join(r.dir, "objects", "info", "alternates")); err == nil && len(bytes.TrimSpace(text)) > 0 {
		return fmt.Errorf("%s has its objects in another repository (objects/info/alternates): make it whole (git -C %s repack -a -d, then remove that file)", r.dir, r.dir)
	}
	if err := s.below(r.name, r.dir, "", func(rel string) bool {
		base := filepath.Base(rel)
		switch {
		case slices.Contains([]string{"objects", "refs", "logs", "packed-refs", "FETCH_HEAD", "gc.pid", "gc.log", "jibe/notes", "jibe/pushes"}, rel):
			return true
		case strings.HasSuffix(base, ".lock"), strings.HasPrefix(rel, "hooks/") && strings.HasSuffix(base, ".sample"), strings.HasPrefix(rel, "jibe/"+git.TmpPrefix):
			return true
		}
		return false
	}, 0); err != nil {
		return err
	}
	for _, dir := range []string{"refs/heads", "refs/tags", "objects/pack", "objects/info"} {
		if err := os.MkdirAll(s.path(r.name+"/"+dir), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.path(r.name+"/packed-refs"), r.refs, 0o600); err != nil {
		return err
	}
	return s.objects(r)
}

// objects takes loose objects before packs: an object moves from there into a pack, and from packs
// into others, and never back.
func (s *staging) objects(r *repository) error {
	from := filepath.Join(r.dir, "objects")
	folders, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if !f.IsDir() || !loose.MatchString(f.Name()) {
			continue
		}
		if err := s.matching(r.name+"/objects/"+f.Name(), filepath.Join(from, f.Name()), object); err != nil {
			return err
		}
	}
	for range 20 {
		gone, err := s.packs(r)
		if err != nil {
			return err
		}
		if !gone {
			return nil
		}
	}
	return fmt.Errorf("the packs of %s change faster than they can be copied", r.dir)
}

// matching takes the files of a folder whose names match; those that go meanwhile are left out.
func (s *staging) matching(name, from string, match *regexp.Regexp) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, e := range entries {
		if !match.MatchString(e.Name()) {
			continue
		}
		if err := s.file(name+"/"+e.Name(), filepath.Join(from, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// packs takes the packs that are listed now. gone says that one went: others have its objects, and
// may not have been listed.
func (s *staging) packs(r *repository) (gone bool, err error) {
	from := filepath.Join(r.dir, "objects", "pack")
	entries, err := os.ReadDir(from)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !packed.MatchString(e.Name()) {
			continue
		}
		name := r.name + "/objects/pack/" + e.Name()
		if datadir.Exists(s.path(name)) {
			continue
		}
		err := s.file(name, filepath.Join(from, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		gone = gone || !datadir.Exists(s.path(name))
	}
	if gone {
		return true, nil
	}
	// A pack is of use with both of its files only; the one without the other went meanwhile.
	all, err := filepath.Glob(s.path(r.name + "/objects/pack/*"))
	if err != nil {
		return false, err
	}
	for _, file := range all {
		stem := strings.TrimSuffix(file, filepath.Ext(file))
		if !datadir.Exists(stem+".pack") || !datadir.Exists(stem+".idx") {
			if err := os.Remove(file); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// packages takes the local package repositories.
func (s *staging) packages(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(s.data, "packages", "*.git"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		r := &repository{dir: dir, name: "packages/" + filepath.Base(dir)}
		if err := r.readRefs(ctx); err != nil {
			return err
		}
		if err := s.repository(r); err != nil {
			return err
		}
	}
	return s.tree("packages", func(rel string) bool {
		top, _, _ := strings.Cut(rel, "/")
		return strings.HasSuffix(top, ".git") || strings.HasPrefix(top, ".new-")
	})
}

// rest takes whatever else is in the data directory and belongs to it: keys, tokens, secrets, the
// installation's id. Where its records are is left out, as a backup has them itself.
func (s *staging) rest() error {
	entries, err := os.ReadDir(s.data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case slices.Contains([]string{"desired.git", "packages", "uploads", "programs", "lock", "lost+found", LastFile, datadir.UnfinishedFile, datadir.StorePlace, ManifestFile}, name),
			strings.HasPrefix(name, datadir.StoreFile), strings.HasPrefix(name, "."), strings.HasPrefix(name, "audit."):
			continue
		}
		info, err := os.Stat(filepath.Join(s.data, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.IsDir():
			err = s.tree(name, nil)
		case info.Mode().IsRegular():
			err = s.file(name, filepath.Join(s.data, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// audit takes the log of who changed what: first how far it goes, then at least as much of it, up
// to the end of a line.
func (s *staging) audit() error {
	if err := s.text("audit.head", filepath.Join(s.data, "audit.head")); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(s.data, "audit.jsonl*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		name := filepath.Base(file)
		if err := s.file(name, file); err != nil {
			return err
		}
		if strings.HasSuffix(name, ".gz") {
			continue
		}
		if s.limits[name], err = wholeLines(s.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// wholeLines is how many bytes of the file are whole lines.
func wholeLines(file string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	const window = 128 << 10
	from := max(0, st.Size()-window)
	tail := make([]byte, st.Size()-from)
	if _, err := io.ReadFull(io.NewSectionReader(f, from, int64(len(tail))), tail); err != nil {
		return 0, err
	}
	if end := bytes.LastIndexByte(tail, '\n'); end >= 0 {
		return from + int64(end) + 1, nil
	}
	return st.Size(), nil // one line only, or none: whoever reads it says what it is
}
