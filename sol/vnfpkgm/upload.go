package vnfpkgm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// stall is how long a client may send nothing in the middle of an archive.
const stall = time.Minute

// enqueue hands a claimed package to [Service.Run].
func (s *Service) enqueue(ctx context.Context, id, state string) {
	s.proceed(ctx, id, state)
	s.mu.Lock()
	delete(s.failed, id)
	s.queue = append(s.queue, id)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin claims a package that waits for content.
func (e edition) begin(r *http.Request) (string, error) {
	o, err := e.find(r)
	if err != nil {
		return "", err
	}
	if err := e.claim(r.Context(), o.ID, uploading); err != nil {
		return "", err
	}
	// Seen again, now that nobody else works on it.
	if o, err = e.Catalogue.Onboard(o.ID); err != nil {
		e.release(r.Context(), o.ID)
		return "", rest.Problem(http.StatusNotFound, "VNF package %.100s does not exist", r.PathValue("id"))
	}
	if o.Entry != nil || o.Record == nil {
		e.release(r.Context(), o.ID)
		return "", rest.Problem(http.StatusConflict, "VNF package %s has its content already; create another package for other content", o.ID)
	}
	return o.ID, nil
}

// upload is PUT package_content (SOL005). It answers once the archive is on the disk.
func (e edition) upload(w http.ResponseWriter, r *http.Request) error {
	id, err := e.begin(r)
	if err != nil {
		return err
	}
	if err := e.receive(w, r, id); err != nil {
		e.release(r.Context(), id)
		return err
	}
	e.enqueue(r.Context(), id, processing)
	w.WriteHeader(http.StatusAccepted)
	return nil
}

func (e edition) receive(w http.ResponseWriter, r *http.Request, id string) error {
	select {
	case e.uploads <- struct{}{}:
		defer func() { <-e.uploads }()
	default:
		return rest.Problem(http.StatusServiceUnavailable, "%d archives are received already: try again when they are done", maxUploads)
	}
	most := e.limits().MaxTotal
	if r.ContentLength > most+1<<20 {
		return tooLarge(most)
	}
	if err := e.roomFor(author(r)); err != nil {
		return err
	}
	control := http.NewResponseController(w)
	defer func() { _ = control.SetReadDeadline(time.Time{}) }() // a writer without deadlines needs none
	body := io.Reader(&patient{in: http.MaxBytesReader(w, r.Body, most+1<<20), control: control})
	if media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == "multipart/form-data" {
		if body, err = firstFile(body, params["boundary"]); err != nil {
			return err
		}
	}
	p := e.spool(id)
	// What an earlier upload left that is to be tried again gives way.
	if err := errors.Join(p.clear(), p.begin(asked(r))); err != nil {
		return e.noRoom(err)
	}
	if err := p.receive(body); err != nil {
		if cerr := p.clear(); cerr != nil {
			e.Log.WarnContext(r.Context(), "what was received of an archive is still there", "package", id, "error", cerr)
		}
		var big *http.MaxBytesError
		switch {
		case errors.As(err, &big):
			return tooLarge(most)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return rest.Problem(http.StatusRequestTimeout, "the archive came too slowly: nothing for %v", stall)
		case errors.Is(err, errBody):
			return rest.Problem(http.StatusBadRequest, "the archive broke off: send it again")
		}
		return e.noRoom(err)
	}
	return nil
}

func (s *Service) limits() csar.Limits {
	l, d := s.Limits, csar.DefaultLimits()
	if l.MaxTotal <= 0 {
		l.MaxTotal = d.MaxTotal
	}
	return l
}

func tooLarge(most int64) error {
	return rest.Problem(http.StatusRequestEntityTooLarge, "the archive has more than %d bytes: large images belong into a registry or the VIM's image store", most)
}

// noRoom says what to do about a disk that is full, without naming paths to a client.
func (s *Service) noRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		s.Log.Error("no space for an archive", "error", err)
		return rest.Problem(http.StatusServiceUnavailable, "there is no space left on the server's disk for the archive: free some in the data directory, and send it again")
	}
	return err
}

// errBody is returned for a body that can't be read to its end.
var errBody = errors.New("the body broke off")

// patient reads a body of which each part may take its time, and the whole as long as it
// needs.
type patient struct {
	in      io.Reader
	control *http.ResponseController
}

// Read implements [io.Reader].
func (p *patient) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(stall)) // a writer without deadlines needs none
	n, err := p.in.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = errors.Join(errBody, err)
	}
	return n, err
}

// firstFile is the content of the first part of a form.
func firstFile(body io.Reader, boundary string) (io.Reader, error) {
	if boundary == "" {
		return nil, rest.Problem(http.StatusBadRequest, "Content-Type multipart/form-data has no boundary")
	}
	part, err := multipart.NewReader(body, boundary).NextPart()
	if err != nil {
		return nil, rest.Problem(http.StatusBadRequest, "the form has no part with the archive")
	}
	return formPart{part}, nil
}

// formPart reads a part of a form; one that has no end is a body that broke off.
type formPart struct{ io.Reader }

// Read implements [io.Reader].
func (f formPart) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = errors.Join(errBody, err)
	}
	return n, err
}

// uploadFromURI is POST upload_from_uri (SOL005). It answers once the request is on the disk.
func (e edition) uploadFromURI(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Address  string `json:"addressInformation"`
		UserName string `json:"userName"`
		Password string `json:"password"`
	}
	if err := rest.Read(w, r, &body); err != nil {
		return err
	}
	if err := checkAddress(body.Address); err != nil {
		return err
	}
	ask := asked(r)
	ask.URI, ask.UserName = body.Address, body.UserName
	if body.Password != "" {
		sealed, err := e.Secrets.Encrypt(body.Password)
		if err != nil {
			return err
		}
		ask.Password = sealed
	}
	id, err := e.begin(r)
	if err != nil {
		return err
	}
	p := e.spool(id)
	if err := errors.Join(p.clear(), p.begin(ask)); err != nil {
		e.release(r.Context(), id)
		return e.noRoom(err)
	}
	e.enqueue(r.Context(), id, uploading)
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// checkAddress refuses what isn't a plain HTTP address.
func checkAddress(s string) error {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return rest.Problem(http.StatusBadRequest, "addressInformation is missing: name the URI of the archive")
	case err != nil, !slices.Contains([]string{"http", "https"}, u.Scheme), u.Hostname() == "", len(s) > 2048:
		return rest.Problem(http.StatusBadRequest, "addressInformation is no http:// or https:// URI of at most 2048 bytes")
	case u.User != nil:
		return rest.Problem(http.StatusBadRequest, "addressInformation holds credentials: use userName and password")
	}
	return nil
}

// tidyEvery is how often the package repository is tidied, where git finds that due.
const tidyEvery = time.Hour

// Run brings archives into git until ctx ends: those that a former process left, then those
// that are uploaded.
func (s *Service) Run(ctx context.Context) error {
	ids, err := s.recover()
	if err != nil {
		return err
	}
	for _, id := range ids {
		s.enqueue(ctx, id, processing)
	}
	s.announce(ctx)
	slots := make(chan struct{}, maxWork)
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for {
		s.mu.Lock()
		next := slices.Clone(s.queue)
		s.queue = nil
		s.mu.Unlock()
		for _, id := range next {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return drain(slots)
			}
			go func() {
				defer func() { <-slots }()
				s.work(ctx, id)
			}()
		}
		select {
		case <-s.wake:
		case <-tidy.C:
			if err := s.Catalogue.Maintain(ctx); err != nil && ctx.Err() == nil {
				s.Log.WarnContext(ctx, "the package repository can't be tidied", "error", err)
			}
		case <-ctx.Done():
			return drain(slots)
		}
	}
}

// drain waits for the work that goes on.
func drain(slots chan struct{}) error {
	for range cap(slots) {
		slots <- struct{}{}
	}
	return nil
}

// awayPause is how long an archive waits that the git server couldn't be given.
const awayPause = 5 * time.Second

// work brings one archive into git, or records why not.
func (s *Service) work(ctx context.Context, id string) {
	ask, _ := s.spool(id).begun() // without it there is an error below, too
	done, err := s.guarded(ctx, id)
	if ctx.Err() != nil {
		return // the next process goes on with it
	}
	if errors.Is(err, packages.ErrAway) {
		s.Log.WarnContext(ctx, "an archive waits for the git server of the package repository", "package", id, "error", err)
		time.AfterFunc(awayPause, func() {
			if ctx.Err() == nil {
				s.enqueue(ctx, id, processing)
			}
		})
		return
	}
	s.record(ctx, id, ask, err)
	if err == nil {
		s.Log.InfoContext(ctx, "package onboarded", "package", id, "vnfdId", done.Entry.VnfdID, "version", done.Entry.Version)
	} else {
		s.fail(ctx, id, err)
	}
	s.release(ctx, id)
	if err == nil {
		s.announce(ctx)
	}
}

// guarded is onboard for an archive that makes the server panic: one that did so at each start
// would keep it from starting.
func (s *Service) guarded(ctx context.Context, id string) (done packages.Onboarded, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.ErrorContext(ctx, "an archive made the server panic", "package", id, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return s.onboard(ctx, id)
}

// fail records why an archive was refused, and removes it. Where the server was at fault the
// archive stays, and is tried again at the next start.
func (s *Service) fail(ctx context.Context, id string, err error) {
	var invalid *rest.InvalidError
	f := &packages.Failure{Status: status(err), Detail: err.Error()}
	if errors.As(err, &invalid) {
		f = &packages.Failure{Status: invalid.Status, Detail: invalid.Detail}
	}
	s.Log.WarnContext(ctx, "package not onboarded", "package", id, "status", f.Status, "error", err)
	if f.Status == 0 || f.Status >= http.StatusInternalServerError {
		s.keepFailure(id, &packages.Failure{Status: http.StatusServiceUnavailable,
			Detail: "the server couldn't bring the archive into git, and tries again when it is restarted; see its log: " + brief(err)})
		return
	}
	rerr := s.Catalogue.Edit(ctx, packages.Edit{Subject: "Refuse what was uploaded for the package " + id, Change: func(t *packages.Tip) (packages.Change, error) {
		record := t.Record(id)
		if record == nil || record.VnfdID != "" {
			return packages.Change{}, nil // it was deleted, or has content, by a push
		}
		record.Failure = f
		return packages.Change{Put: []*packages.Record{record}}, nil
	}})
	if rerr != nil {
		s.keepFailure(id, f)
		s.Log.ErrorContext(ctx, "why a package was refused isn't in git", "package", id, "error", rerr)
		return
	}
	if err := s.spool(id).clear(); err != nil {
		s.Log.WarnContext(ctx, "an archive that was refused is still there", "package", id, "error", err)
	}
}

func (s *Service) keepFailure(id string, f *packages.Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[id] = f
}

// brief is the cause of an error of the server, as far as a client may know it.
func brief(err error) string {
	if no := syscall.Errno(0); errors.As(err, &no) {
		return no.Error()
	}
	return "an internal error"
}
