package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// maxPush bounds the body of a request, in bytes; receive.maxInputSize bounds
// what it unpacks to.
const maxPush = 256 << 20

// HTTPHandler is [ServeHTTP] for the desired repository.
func (r *Repo) HTTPHandler() http.Handler { return ServeHTTP(r.opt.Dir, r.log) }

// ServeHTTP serves git clone, fetch and push of a bare repository over HTTP, by
// real git (git http-backend). The request's path is below the repository
// ("/info/refs"): the caller strips what stands before it, and admits only whom
// it knows: nobody is refused here.
func ServeHTTP(dir string, log *slog.Logger) http.Handler {
	env := append(git.Runner{Dir: dir}.Environ(), "GIT_PROJECT_ROOT="+dir, "GIT_HTTP_EXPORT_ALL=1")
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		backend, err := httpBackend()
		if err != nil {
			log.Error("serve git", "error", err)
			http.Error(w, "git http-backend isn't installed on the server", http.StatusInternalServerError)
			return
		}
		if !gitPath(req.URL.Path) {
			http.NotFound(w, req)
			return
		}
		done, err := spool(w, req)
		defer done()
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			http.Error(w, fmt.Sprintf("the push is larger than %d bytes", maxPush), http.StatusRequestEntityTooLarge)
			return
		} else if err != nil {
			http.Error(w, "the request's body can't be read", http.StatusBadRequest)
			return
		}
		(&cgi.Handler{
			Path:   backend,
			Env:    env,
			Logger: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
			Stderr: io.Discard,
		}).ServeHTTP(w, req)
	})
}

// gitPath accepts what git's smart protocol asks for. Without it http-backend
// would serve any file of the repository.
func gitPath(p string) bool {
	return p == "/info/refs" || p == "/git-upload-pack" || p == "/git-receive-pack"
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

// spool puts the body into a temporary file: CGI wants to know its length, which git
// doesn't say of large pushes, and http-backend would wait in a busy loop, for ever, for
// the rest of one whose sender, or whose server, has died. The file has no name any more,
// so nothing is left of it; done closes it.
func spool(w http.ResponseWriter, req *http.Request) (done func(), err error) {
	done = func() {}
	if req.Body == nil || req.Body == http.NoBody {
		return done, nil
	}
	if req.ContentLength > maxPush {
		return done, &http.MaxBytesError{Limit: maxPush}
	}
	f, err := os.CreateTemp("", "jibe-push-")
	if err != nil {
		return done, err
	}
	done = func() { _ = f.Close() }
	if err := os.Remove(f.Name()); err != nil {
		return done, err
	}
	n, err := io.Copy(f, http.MaxBytesReader(w, req.Body, maxPush))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return done, err
	}
	req.Body, req.ContentLength, req.TransferEncoding = f, n, nil
	return done, nil
}
