package vnfpkgm

import (
	"archive/zip"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// opened returns the content of the package that the path names. There is none before it is
// onboarded (409).
func (e edition) opened(r *http.Request) (*vnfd.Package, error) {
	o, err := e.find(r)
	if err != nil {
		return nil, err
	}
	if state := e.state(&o); state != onboarded {
		return nil, rest.Problem(http.StatusConflict, "VNF package %s has no content: its onboardingState is %s, and not %s", o.ID, state, onboarded)
	}
	return e.Catalogue.Open(r.Context(), o.Entry.Tree)
}

// checksum is the SHA-256 of what [edition.content] answers.
func (s *Service) checksum(pkg *vnfd.Package) ([]byte, error) {
	if sum, ok := s.sums.Load(pkg.Tree); ok {
		return sum.([]byte), nil
	}
	sum := sha256.New()
	if err := csar.BuildStored(pkg.Files, sum); err != nil {
		return nil, err
	}
	s.sums.Store(pkg.Tree, sum.Sum(nil))
	return sum.Sum(nil), nil
}

// content is GET package_content (SOL003 clause 10.4.5.3.2): an archive of the same files as
// the one that was uploaded, with the same bytes each time.
func (e edition) content(w http.ResponseWriter, r *http.Request) error {
	pkg, err := e.opened(r)
	if err != nil {
		return err
	}
	return e.archive(w, r, pkg.Tree, func(to io.Writer) error { return csar.BuildStored(pkg.Files, to) })
}

// archive answers with an archive that build writes; tag is another one for another archive.
// Only a part of it that is asked for takes space on the disk.
func (s *Service) archive(w http.ResponseWriter, r *http.Request, tag string, build func(io.Writer) error) error {
	if !takes(r, "application/zip") {
		return rest.Problem(http.StatusNotAcceptable, "Accept is %q, but the answer is application/zip", r.Header.Get("Accept"))
	}
	attach(w, "application/zip", tag)
	w.Header().Set("Accept-Ranges", "bytes")
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if r.Header.Get("Range") == "" {
		return build(w)
	}
	f, err := os.CreateTemp(s.Dir, ".content-")
	if err != nil {
		return s.noRoom(err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	if err := build(f); err != nil {
		return s.noRoom(err)
	}
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}

// attach sets the headers of content that is somebody else's: a browser is to keep it and not
// to run it.
func attach(w http.ResponseWriter, media, tag string) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", "attachment")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", `"`+tag+`"`)
}

// takes says whether the request's Accept allows the media type.
func takes(r *http.Request, media string) bool {
	given := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(given) == "" {
		return true
	}
	kind, _, _ := strings.Cut(media, "/")
	for part := range strings.SplitSeq(given, ",") {
		name, params, err := mime.ParseMediaType(part)
		q, weighed := params["q"]
		never := weighed && strings.Trim(q, "0.") == ""
		if err == nil && !never && slices.Contains([]string{media, kind + "/*", "*/*"}, name) {
			return true
		}
	}
	return false
}

// vnfd is GET vnfd (clause 10.4.4.3.2): the file itself where it is only one and the client
// takes text, else an archive of all of them.
func (e edition) vnfd(w http.ResponseWriter, r *http.Request) error {
	pkg, err := e.opened(r)
	if err != nil {
		return err
	}
	files := pkg.Definitions()
	if len(files) == 1 && takes(r, "text/plain") {
		return serveFile(w, r, pkg, files[0], "text/plain")
	}
	if !takes(r, "application/zip") {
		return rest.Problem(http.StatusNotAcceptable, "the VNFD has %d files: accept application/zip", len(files))
	}
	if _, err := fs.Stat(pkg.Files, vnfd.MetaFile); err == nil { // else the entry is the YAML at the root
		files = append(files, vnfd.MetaFile)
	}
	return e.archive(w, r, pkg.Tree+"-vnfd", func(to io.Writer) error { return zipped(to, pkg.Files, files) })
}

// manifest is GET manifest (clause 10.4.4a.3.2).
func (e edition) manifest(w http.ResponseWriter, r *http.Request) error {
	pkg, err := e.opened(r)
	if err != nil {
		return err
	}
	meta, err := vnfd.ReadMeta(pkg.Files)
	if err != nil {
		return err
	}
	if meta.Manifest == "" {
		return rest.Problem(http.StatusNotFound, "the package has no manifest: its %s names none (ETSI-Entry-Manifest)", vnfd.MetaFile)
	}
	return e.signed(w, r, pkg, meta.Manifest, "text/plain")
}

// artifacts is GET artifacts (clause 10.4.7.3.2): an archive of the additional artifacts.
func (e edition) artifacts(w http.ResponseWriter, r *http.Request) error {
	pkg, err := e.opened(r)
	if err != nil {
		return err
	}
	listed, err := additional(pkg)
	if err != nil {
		return err
	}
	var names []string
	for _, a := range listed {
		if !a.Remote() {
			names = append(names, a.Path)
		}
	}
	slices.Sort(names)
	return e.archive(w, r, pkg.Tree+"-artifacts", func(to io.Writer) error { return zipped(to, pkg.Files, names) })
}

// artifact is GET of one artifact (clause 10.4.6.3.2), which may be any file of the package.
func (e edition) artifact(w http.ResponseWriter, r *http.Request) error {
	pkg, err := e.opened(r)
	if err != nil {
		return err
	}
	name := r.PathValue("path")
	if !fs.ValidPath(name) {
		return rest.Problem(http.StatusNotFound, "the path doesn't lead to a file of the package")
	}
	media := "application/octet-stream"
	if meta, err := vnfd.ReadMeta(pkg.Files); err == nil {
		for _, a := range meta.Artifacts {
			if a.Path == name && a.ContentType != "" {
				if given, _, err := mime.ParseMediaType(a.ContentType); err == nil {
					media = given
				}
			}
		}
	}
	return e.signed(w, r, pkg, name, media)
}

// signed serves a file, or with the flag include_signature(s) an archive of it with the files
// beside it that hold its signature and certificate.
func (e edition) signed(w http.ResponseWriter, r *http.Request, pkg *vnfd.Package, name, media string) error {
	q := r.URL.Query()
	if !q.Has("include_signature") && !q.Has("include_signatures") {
		return serveFile(w, r, pkg, name, media)
	}
	names := []string{name}
	for _, ext := range []string{".sig", ".sign", ".cms", ".p7s", ".cert", ".crt", ".pem"} {
		for _, beside := range []string{name + ext, strings.TrimSuffix(name, path.Ext(name)) + ext} {
			if st, err := fs.Stat(pkg.Files, beside); err == nil && st.Mode().IsRegular() && !slices.Contains(names, beside) {
				names = append(names, beside)
			}
		}
	}
	if len(names) == 1 {
		return serveFile(w, r, pkg, name, media) // what signatures it has are in it
	}
	return e.archive(w, r, pkg.Tree+"-signed-"+path.Base(name), func(to io.Writer) error { return zipped(to, pkg.Files, names) })
}

// serveFile answers with a file of a package, or the part that is asked for.
func serveFile(w http.ResponseWriter, r *http.Request, pkg *vnfd.Package, name, media string) error {
	f, err := pkg.Files.Open(name)
	if err != nil {
		return rest.Problem(http.StatusNotFound, "there is no file %.200q in the package", name)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	content, ok := f.(io.ReadSeeker)
	if !ok || !st.Mode().IsRegular() {
		return rest.Problem(http.StatusNotFound, "%.200q is a folder of the package, and no file", name)
	}
	attach(w, media, fmt.Sprintf("%s-%x", pkg.Tree, sha256.Sum256([]byte(name))))
	http.ServeContent(w, r, "", time.Time{}, content)
	return nil
}

// zipped writes the files as an archive, each once.
func zipped(to io.Writer, files fs.FS, names []string) error {
	z := zip.NewWriter(to)
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		out, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			return err
		}
		in, err := files.Open(name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		if err = cmp.Or(err, in.Close()); err != nil {
			return fmt.Errorf("file %s of the package: %w", name, err)
		}
	}
	return z.Close()
}
