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
	env := append(gitCLI{dir: dir}.environ(), "GIT_PROJECT_ROOT="+dir, "GIT_HTTP_EXPORT_ALL=1")
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
		done, err := lengthKnown(w, req)
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

// lengthKnown puts a body of unknown length (git sends large pushes in chunks,
// CGI wants a length) into a temporary file. done removes it.
func lengthKnown(w http.ResponseWriter, req *http.Request) (done func(), err error) {
	done = func() {}
	if req.Body == nil || req.Body == http.NoBody {
		return done, nil
	}
	req.Body = http.MaxBytesReader(w, req.Body, maxPush)
	if req.ContentLength >= 0 {
		if req.ContentLength > maxPush {
			return done, &http.MaxBytesError{Limit: maxPush}
		}
		return done, nil
	}
	f, err := os.CreateTemp("", "jibe-push-")
	if err != nil {
		return done, err
	}
	done = func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	n, err := io.Copy(f, req.Body)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return done, err
	}
	req.Body, req.ContentLength, req.TransferEncoding = f, n, nil
	return done, nil
}
