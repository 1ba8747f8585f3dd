package vnfpkgm_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/jibe-vnfm/jibe/admission/packagecheck"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/published"
)

const (
	operateToken = "operate-token-000"
	readToken    = "read-token-000000"
	base         = "https://vnfm.example"
)

// env is the interface over a real catalogue: real git repositories in a directory.
type env struct {
	settings desired.Settings // the projects
	testing.TB
	dir     string
	c       *packages.Catalogue
	s       *vnfpkgm.Service
	config  vnfpkgm.Config
	logged  *syncBuffer
	mu      sync.Mutex
	used    map[string]bool
	stopped func()
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// What a person has configured for git is none of the tests'.
func TestMain(m *testing.M) {
	if err := os.Setenv("GIT_CONFIG_GLOBAL", "/dev/null"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func setup(t testing.TB, change ...func(*vnfpkgm.Config)) *env {
	t.Helper()
	e := &env{TB: t, dir: t.TempDir(), logged: &syncBuffer{}, used: map[string]bool{}}
	e.git(e.dir, "init", "-q", "--bare", "desired.git")
	bare := e.packages()
	e.git(e.dir, "init", "-q", "--bare", "-b", "main", bare)
	work := filepath.Join(e.dir, "work")
	e.git(e.dir, "clone", "-q", bare, work)
	e.write("README.md", "# Packages\n")
	e.push()
	tokens, err := auth.Parse(fmt.Appendf(nil, "tokens:\n- {name: nfvo, role: packager, token: %s}\n- {name: viewer, role: read, token: %s}\n", operateToken, readToken))
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := secret.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	e.config = vnfpkgm.Config{
		Config:   rest.Config{Auth: tokens, BaseURL: base, Log: slog.New(slog.NewTextHandler(e.logged, nil))},
		Validate: packagecheck.Validate,
		Dir:      filepath.Join(e.dir, "uploads"), Secrets: keeper.For(secret.ForUploads()), Settings: func() (*desired.Settings, error) { return &e.settings, nil },
		Used: func() func(string) bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			used := maps.Clone(e.used)
			return func(id string) bool { return used[id] }
		},
	}
	for _, f := range change {
		f(&e.config)
	}
	e.start()
	t.Cleanup(func() { e.stopped() })
	return e
}

// packages is the package repository.
func (e *env) packages() string { return filepath.Join(e.dir, "packages", "packages.git") }

// start begins a process on what is on the disk.
func (e *env) start() {
	e.Helper()
	e.c = packages.New(filepath.Join(e.dir, "desired.git"), filepath.Join(e.dir, "packages"), e.config.Log)
	e.sync()
	e.config.Catalogue = e.c
	e.s = vnfpkgm.New(e.config)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.s.Run(ctx) }()
	e.stopped = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			e.Error(err)
		}
	})
}

func (e *env) sync(more ...desired.Repository) {
	e.Helper()
	repos := append([]desired.Repository{{Name: "packages", URL: "packages.git", Branch: "main"}}, more...)
	if err := e.c.Sync(e.Context(), repos); err != nil {
		e.Fatal(err)
	}
}

func (e *env) git(dir string, args ...string) string {
	e.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// write writes a file of a person's clone; push commits and pushes what is there.
func (e *env) write(name, content string) {
	e.Helper()
	name = filepath.Join(e.dir, "work", name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		e.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		e.Fatal(err)
	}
}

func (e *env) push() {
	e.Helper()
	work := filepath.Join(e.dir, "work")
	e.git(work, "add", "-A")
	e.git(work, "commit", "-q", "-m", "A person's change")
	e.git(work, "push", "-q", "origin", "HEAD:main")
}

// sample returns the files of a package.
func sample(t testing.TB, id string) map[string]string {
	t.Helper()
	ar, err := txtar.ParseFile("../../desired/packages/testdata/package.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range ar.Files {
		files[f.Name] = strings.NewReplacer("descriptor_id: ID", "descriptor_id: "+id, "VERSION", "1.0").Replace(string(f.Data))
	}
	return files
}

// zipped makes an archive of the files.
func zipped(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// answer is an answer with its body read.
type answer struct {
	*http.Response
	body []byte
}

func (a answer) field(name string) string {
	m := map[string]any{}
	_ = json.Unmarshal(a.body, &m)
	if v, ok := m[name]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

// do makes a request as the NFVO, of v2 unless the path names another, and holds the answer
// against the published definitions.
func (e *env) do(method, path string, body any, header ...string) answer {
	e.Helper()
	root := "/vnfpkgm/v2"
	if strings.HasPrefix(path, "/vnfpkgm") {
		root = ""
	}
	var content io.Reader
	media := "application/json"
	switch b := body.(type) {
	case nil:
	case []byte:
		content, media = bytes.NewReader(b), "application/zip"
	case string:
		content = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			e.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	r := httptest.NewRequest(method, root+path, content)
	r.Header.Set("Version", "2.1.0")
	r.Header.Set("Authorization", "Bearer "+operateToken)
	if body != nil {
		r.Header.Set("Content-Type", media)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Del(header[i])
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	rest.SingleSlashes(e.s).ServeHTTP(w, r)
	a := answer{w.Result(), w.Body.Bytes()}
	if below, ok := strings.CutPrefix(path, "/"); ok && root != "" && strings.HasPrefix(a.Header.Get("Content-Type"), "application/") && strings.Contains(a.Header.Get("Content-Type"), "json") {
		_, err := published.Packages.Answer("/"+below, r, published.Answer{Status: a.StatusCode, Header: a.Header, Body: a.body}, nil)
		if err != nil {
			e.Errorf("%s %s: %v\n%s", method, path, err, a.body)
		}
	}
	return a
}

// must is do for an answer of the status.
func (e *env) must(status int, method, path string, body any, header ...string) answer {
	e.Helper()
	a := e.do(method, path, body, header...)
	if a.StatusCode != status {
		e.Fatalf("%s %s: %d, not %d: %s", method, path, a.StatusCode, status, a.body)
	}
	return a
}

// create makes a place for a package and returns its path.
func (e *env) create() string {
	e.Helper()
	return "/vnf_packages/" + e.must(http.StatusCreated, "POST", "/vnf_packages", map[string]any{}).field("id")
}

// settled waits until the package is neither uploaded nor processed.
func (e *env) settled(path string) answer {
	e.Helper()
	var a answer
	kit.Eventually(e.TB, func() error {
		a = e.must(http.StatusOK, "GET", path, nil)
		if s := a.field("onboardingState"); s == "UPLOADING" || s == "PROCESSING" {
			return fmt.Errorf("it is %s", s)
		}
		return nil
	})
	return a
}

// onboard uploads an archive and returns the package's path and what is shown of it then.
func (e *env) onboard(data []byte) (string, answer) {
	e.Helper()
	path := e.create()
	e.must(http.StatusAccepted, "PUT", path+"/package_content", data)
	return path, e.settled(path)
}

// left are the files that wait for work.
func (e *env) left() []string {
	e.Helper()
	items, err := os.ReadDir(e.config.Dir)
	if err != nil && !os.IsNotExist(err) {
		e.Fatal(err)
	}
	var names []string
	for _, i := range items {
		names = append(names, i.Name())
	}
	return names
}
