package gitrepo

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

// maxPush bounds the body of a request, in bytes.
const maxPush = 256 << 20

// What git may take while it receives a push: memory in KiB, processor time in seconds. The
// push itself was measured before ([measure]), so that an honest one comes nowhere near.
const (
	receiveMemory = 2 << 20
	receiveTime   = 900
)

// Served says how a repository is served to one request.
type Served struct {
	// Dir is the bare repository.
	Dir string
	// Push is the id by which the server knows who pushes. The hook is told of it. Without one
	// the hook is told of an id that nobody has, so that the server refuses the push.
	Push string
	// OwnRefs shows the refs that are Jibe's own, such as the pins of packages, and gives any
	// object to who knows its name: a backup needs the pins. Nobody can push to them.
	OwnRefs bool
	// Drafts lets branches be deleted and rewritten: the push hook says which.
	Drafts bool
	// CatchUp is called before the refs are shown to who fetches or pushes, with a context of a second, to
	// bring a mirror to where it should be; nil for a repository that is no mirror. What goes wrong
	// with it is no reason to show nothing: whoever pushes what they made of it is refused by the
	// remote.
	CatchUp func(context.Context) error
	// Turn waits until git may be started for the request, and returns what is to be called when git has ended; nil is at once.
	// It is called when the whole request is here, so that a client that sends slowly keeps no other one waiting. Its error
	// is answered with 503.
	Turn func(ctx context.Context, push bool) (done func(), err error)
	Log  *slog.Logger
}

// busyRetry is after how many seconds a client may come again for which there was no turn.
const busyRetry = "15"

// catchUpWithin is how long a fetch waits for what other processes have pushed.
const catchUpWithin = time.Second

// HTTPHandler serves the desired repository as a client sees it who may have a backup.
func (r *Repo) HTTPHandler() http.Handler {
	return Served{Dir: r.opt.Dir, OwnRefs: true, CatchUp: r.CatchUp, Log: r.log}
}

// ServeHTTP serves git clone, fetch and push of a bare repository over HTTP, by
// real git (git http-backend). The request's path is below the repository
// ("/info/refs"): the caller strips what stands before it, and admits only whom
// it knows: nobody is refused here. A push that is larger than git should be given is refused
// before git sees any of it.
func (s Served) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	backend, err := httpBackend()
	if err != nil {
		s.Log.Error("serve git", "error", err)
		http.Error(w, "git http-backend isn't installed on the server", http.StatusInternalServerError)
		return
	}
	if !smart(req) {
		http.NotFound(w, req)
		return
	}
	if s.CatchUp != nil && req.URL.Query().Has("service") {
		ctx, cancel := context.WithTimeout(req.Context(), catchUpWithin)
		err := s.CatchUp(ctx)
		cancel()
		if err != nil {
			s.Log.Warn("refs are shown as the mirror has them", "repository", s.Dir, "error", err)
		}
	}
	body, err := spool(w, req)
	defer func() { _ = body.Close() }()
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		http.Error(w, fmt.Sprintf("the push is larger than %d bytes: push fewer commits at once", maxPush), http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		http.Error(w, "the request's body can't be read", http.StatusBadRequest)
		return
	}
	push := req.Method == http.MethodPost && req.URL.Path == "/git-receive-pack"
	if s.Turn != nil {
		done, err := s.Turn(req.Context(), push)
		if err != nil {
			s.Log.Warn("no turn for a request to git", "repository", s.Dir, "push", push, "error", err)
			w.Header().Set("Retry-After", busyRetry)
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer done()
	}
	command := []string{backend}
	if push {
		head, err := readPushHead(body)
		if err == nil && head.pack {
			err = measure(head.rest, defaultPackLimits())
		}
		if err != nil {
			s.Log.Warn("push refused", "repository", s.Dir, "error", err)
			head.refuse(w, err)
			return
		}
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			http.Error(w, "the request's body can't be read", http.StatusInternalServerError)
			return
		}
		command = []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -S -d %d && ulimit -S -t %d && exec "$0"`, receiveMemory, receiveTime), backend}
	}
	if err := s.run(w, req, command, body.File, push); err != nil {
		s.Log.Warn("serve git", "repository", s.Dir, "push", push, "error", err)
	}
}

// environ is what git is told beside its usual environment. The settings hold for every
// repository that is served, whatever its own file says, or that of the host.
func (s Served) environ() []string {
	push := s.Push
	if push == "" {
		push = "-"
	}
	settings := []string{
		"core.hooksPath=" + filepath.Join(s.Dir, "hooks"),
		"core.bigFileThreshold=16m", // larger files are never held in memory
		"http.getanyfile=false",
		"http.receivepack=true",
		"receive.advertisePushOptions=true",
		"receive.denyDeletes=" + strconv.FormatBool(!s.Drafts),
		"receive.denyNonFastForwards=" + strconv.FormatBool(!s.Drafts),
		"receive.fsckObjects=true",
		// Found in the histories of honest old repositories.
		"receive.fsck.zeroPaddedFilemode=warn",
		"receive.fsck.missingSpaceBeforeDate=warn",
		"receive.fsck.badTimezone=warn",
		"receive.maxInputSize=" + strconv.Itoa(maxPush),
		"receive.unpackLimit=1", // a pack stays as it came: nothing inflates on the disk
		"receive.hideRefs=refs/jibe",
		"receive.hideRefs=" + fetchedNotes,
		"uploadpack.allowAnySHA1InWant=" + strconv.FormatBool(s.OwnRefs), // partial clones of the oldest protocol need it
		"uploadpack.hideRefs=" + fetchedNotes,
	}
	if !s.OwnRefs {
		settings = append(settings, "uploadpack.hideRefs=refs/jibe")
	}
	env := []string{"GIT_PROJECT_ROOT=" + s.Dir, "GIT_HTTP_EXPORT_ALL=1", check.EnvPush + "=" + push, "GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings))}
	for i, kv := range settings {
		key, value, _ := strings.Cut(kv, "=")
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return env
}

// smart accepts the four requests of git's smart protocol. Whatever else http-backend knows
// are files of the repository, hidden refs among them.
func smart(req *http.Request) bool {
	switch req.URL.Path {
	case "/info/refs":
		service := req.URL.Query()["service"]
		return req.Method == http.MethodGet && len(service) == 1 && (service[0] == "git-upload-pack" || service[0] == "git-receive-pack")
	case "/git-upload-pack", "/git-receive-pack":
		return req.Method == http.MethodPost
	}
	return false
}

func httpBackend() (string, error) {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return "", fmt.Errorf("find git http-backend: %w", err)
	}
	name := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, err := os.Stat(name); err != nil {
		return "", fmt.Errorf("find git http-backend: %w", err)
	}
	return name, nil
}

// spooled is a request's body in a temporary file; one without a file is empty.
type spooled struct{ *os.File }

func (s spooled) Close() error {
	if s.File == nil {
		return nil
	}
	return s.File.Close()
}

// spool puts the body into a temporary file: CGI wants to know its length, which git
// doesn't say of large pushes, and http-backend would wait in a busy loop, for ever, for
// the rest of one whose sender, or whose server, has died. The file has no name any more,
// so nothing is left of it. What came compressed stands there as it is.
func spool(w http.ResponseWriter, req *http.Request) (spooled, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return spooled{}, nil
	}
	f, err := os.CreateTemp("", "jibe-push-")
	if err != nil {
		return spooled{}, err
	}
	s := spooled{f}
	if err := os.Remove(f.Name()); err != nil {
		return s, err
	}
	if req.ContentLength > maxPush {
		return s, &http.MaxBytesError{Limit: maxPush}
	}
	body := io.Reader(http.MaxBytesReader(w, req.Body, maxPush))
	if strings.EqualFold(req.Header.Get("Content-Encoding"), "gzip") {
		if body, err = gzip.NewReader(body); err != nil {
			return s, err
		}
		req.Header.Del("Content-Encoding")
	}
	n, err := io.Copy(f, io.LimitReader(body, maxPush+1))
	if err == nil && n > maxPush {
		err = &http.MaxBytesError{Limit: maxPush}
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return s, err
	}
	req.Body, req.ContentLength, req.TransferEncoding = f, n, nil
	return s, nil
}
