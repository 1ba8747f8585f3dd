package vnfpkgm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// onboard brings the archive of a package into git. It may be repeated at any point: what is
// there already stays as it is.
func (s *Service) onboard(ctx context.Context, id string) (packages.Onboarded, error) {
	p := s.spool(id)
	ask, err := p.begun()
	if err != nil {
		return packages.Onboarded{}, err
	}
	if !p.received() {
		if err := s.fetch(ctx, p, ask); err != nil {
			return packages.Onboarded{}, err
		}
	}
	s.proceed(ctx, id, processing)
	a, err := s.open(p)
	if err != nil {
		return packages.Onboarded{}, err
	}
	defer a.Close()
	if err := s.check(a.files); err != nil {
		return packages.Onboarded{}, err
	}
	in, err := s.Catalogue.Import(ctx, a.files, p.path("scratch"))
	if err != nil {
		return packages.Onboarded{}, err
	}
	err = s.Catalogue.Edit(ctx, packages.Edit{
		Subject: fmt.Sprintf("Onboard %s %s", in.Package.VNFD.ID, in.Package.VNFD.Version), By: ask.By,
		Change: func(t *packages.Tip) (packages.Change, error) { return s.binding(t, id, a, in) },
	})
	if err != nil {
		return packages.Onboarded{}, err
	}
	done, err := s.bound(ctx, id, in.Tree)
	if err != nil {
		return packages.Onboarded{}, err
	}
	if err := p.clear(); err != nil {
		s.Log.WarnContext(ctx, "an archive that is in git is still there", "package", id, "error", err)
	}
	return done, nil
}

// check holds the package against every rule, as `jibe package validate` does.
func (s *Service) check(files fs.FS) error {
	problems := slices.DeleteFunc(s.Validate(files), func(p vnfd.Problem) bool { return p.Severity != vnfd.Error })
	if len(problems) > 0 {
		return &vnfd.InvalidError{Problems: problems}
	}
	return nil
}

// binding is the commit that gives a package its content.
func (s *Service) binding(t *packages.Tip, id string, a *archive, in packages.Imported) (packages.Change, error) {
	vnfdID := in.Package.VNFD.ID
	record := t.Record(id)
	if record == nil {
		return packages.Change{}, rest.Problem(http.StatusConflict, "VNF package %s was deleted, by a push, while its content was processed", id)
	}
	if record.VnfdID != "" && record.VnfdID != vnfdID {
		return packages.Change{}, rest.Problem(http.StatusConflict, "VNF package %s got other content while this was processed, with the VNFD id %s: create another package for this one", id, record.VnfdID)
	}
	if err := s.conflict(t, vnfdID, in.Tree); err != nil {
		return packages.Change{}, err
	}
	_, here := t.Folders[in.Tree]
	elsewhere := s.content(vnfdID) != nil
	if record.VnfdID == vnfdID && (here || elsewhere) {
		return packages.Change{}, nil // a former process has made the commit
	}
	known := slices.ContainsFunc(t.Records, func(r *packages.Record) bool { return r.VnfdID == vnfdID })
	record.VnfdID, record.Failure, record.SignedBy, record.Sealed = vnfdID, nil, a.signedBy, a.sealed
	c := packages.Change{Put: []*packages.Record{record}}
	switch {
	case !here && !elsewhere:
		c.Add = map[string]string{t.Folder(vnfdID): in.Tree}
	case !known:
		// The content came by git, and keeps the id that it had.
		c.Put = append(c.Put, &packages.Record{ID: packages.DerivedID(vnfdID), VnfdID: vnfdID})
	}
	return c, nil
}

// content is the content that counts for a vnfdId, nil where there is none.
func (s *Service) content(vnfdID string) *packages.Entry {
	for _, o := range s.Catalogue.Onboarded() {
		if o.Entry != nil && o.Entry.VnfdID == vnfdID {
			return o.Entry
		}
	}
	return nil
}

// conflict refuses other content for a vnfdId that is there already: a vnfdId is one package
// for ever (SOL001 clause 6.8.1.2).
func (s *Service) conflict(t *packages.Tip, vnfdID, tree string) error {
	const why = "there is a package with the VNFD id %s already, at %s, and its content is another: give this one another descriptor_id, or delete that one"
	if e := s.content(vnfdID); e != nil && e.Tree != tree {
		return rest.Problem(http.StatusConflict, why, vnfdID, path.Join(e.Repository, e.Path))
	}
	for other, folder := range t.Folders {
		if folder == t.Folder(vnfdID) && other != tree {
			return rest.Problem(http.StatusConflict, why, vnfdID, path.Join(t.Repository(), folder))
		}
	}
	return nil
}

// bound returns the package once the catalogue has its content.
func (s *Service) bound(ctx context.Context, id, tree string) (packages.Onboarded, error) {
	for again := false; ; again = true {
		o, err := s.Catalogue.Onboard(id)
		switch {
		case err == nil && o.Entry != nil && o.Problem != nil:
			return o, o.Problem
		case err == nil && o.Entry != nil && o.Entry.Tree == tree:
			return o, nil
		case again:
			return o, fmt.Errorf("package %s is committed, and isn't in the catalogue (%w)", id, errors.Join(err, errStale))
		}
		home, err := packages.Onboarding(s.Catalogue.Repositories())
		if err == nil {
			err = s.Catalogue.SyncOne(ctx, home.Name)
		}
		if err != nil {
			return o, err
		}
	}
}

// errStale is wrapped where the catalogue couldn't be brought up to date.
var errStale = errors.New("the catalogue is behind the package repository")

// archive is an archive that was opened.
type archive struct {
	files    fs.FS
	closers  []io.Closer
	signedBy string
	sealed   bool // the archive stood in another, beside its signature
}

// Close closes the files, the one opened last first.
func (a *archive) Close() {
	for _, c := range slices.Backward(a.closers) {
		_ = c.Close() // it was only read
	}
}

// open opens the archive that was received and checks its signatures.
func (s *Service) open(p spool) (*archive, error) {
	a := &archive{}
	if err := s.unseal(a, p); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (s *Service) unseal(a *archive, p spool) error {
	if err := a.add(p.path("csar"), s.Limits); err != nil {
		return err
	}
	seal, err := csar.FindSeal(a.files)
	if err != nil {
		return err
	}
	if seal != nil {
		a.sealed = true
		if a.signedBy, err = s.Trust.VerifySeal(a.files, seal); err != nil {
			return err
		}
		if err := unpack(a.files, seal.Archive, p.path("inner")); err != nil {
			return err
		}
		if err := a.add(p.path("inner"), s.Limits); err != nil {
			return err
		}
	} else if a.signedBy, err = s.Trust.VerifyManifest(a.files); err != nil {
		return err
	}
	if s.Trust.Required && a.signedBy == "" {
		return fmt.Errorf("%w: it has no signature, and this server takes only signed packages (SOL004 clause 5)", csar.ErrSignature)
	}
	return nil
}

// add opens an archive on the disk. Its errors are the archive's and name no path.
func (a *archive) add(name string, limits csar.Limits) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	a.closers = append(a.closers, f)
	st, err := f.Stat()
	if err != nil {
		return err
	}
	files, err := csar.Open(f, st.Size(), limits)
	switch {
	case err == nil:
	case errors.Is(err, csar.ErrUnsafe), errors.Is(err, csar.ErrTooLarge):
		return err
	default:
		return rest.Problem(http.StatusUnprocessableEntity, "the content is no VNF package: %v", strings.TrimPrefix(err.Error(), "read VNF package: "))
	}
	a.files = files
	return nil
}

// unpack writes one file of an archive to the disk.
func unpack(files fs.FS, name, to string) (err error) {
	in, err := files.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
