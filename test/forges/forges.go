// Package forges is a forge for tests: the API of GitHub or GitLab as their documentation has it, a
// repository that real git serves over HTTP, and the limits that forges have, enforced by both and
// counted. It keeps everything in memory but for the repository.
package forges

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Token is the only token that the API takes.
const Token = "glpat-of-the-fake-forge"

// The users of the forge.
const JibeID, otherID = 7, 8

// Kind is whose API it has.
type Kind string

// The kinds.
const (
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
)

// Status is a commit's, in the words of the forge.
type Status struct{ Context, State, Description, Link string }

type status struct {
	id     int64
	commit string
	Status
}

type pullRequest struct {
	number       int64
	branch, base string
	open         bool
	merged       string // the commit that it was merged as
}

type comment struct {
	id, pull, author int64
	text             string
}

// Forge is one repository on a forge.
type Forge struct {
	// URL is the forge's, and Remote that of the repository for git, "" before [Forge.Serve].
	URL, Remote string
	// Dir is the bare repository, "" before [Forge.Serve].
	Dir string
	// Branches are where branches are while there is no repository.
	Branches map[string]string
	// ReadOnly says that the token's user may not write.
	ReadOnly bool
	// Refuse answers in place of the API where it isn't nil.
	Refuse http.HandlerFunc

	root   string // of the repository
	kind   Kind
	limits Limits
	meter  meter
	git    http.Handler

	mu  sync.Mutex
	all struct {
		statuses []status
		pulls    []*pullRequest
		comments []*comment
	}
}

// New serves a forge until the test ends.
func New(t testing.TB, kind Kind, limits Limits) *Forge {
	t.Helper()
	// The folder is there before the server, so that it goes after it: a push that was taken is carried out.
	f := &Forge{kind: kind, limits: limits, Branches: map[string]string{}, root: t.TempDir()}
	mux := http.NewServeMux()
	switch kind {
	case GitHub:
		githubRoutes(f, mux)
	case GitLab:
		gitlabRoutes(f, mux)
	default:
		t.Fatalf("no forge is called %q", kind)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.git != nil && strings.HasPrefix(r.URL.Path, gitPath) {
			f.git.ServeHTTP(w, r)
			return
		}
		if !f.meter.request(f, w, r) {
			return
		}
		defer f.meter.answered()
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case f.Refuse != nil:
			f.Refuse(w, r)
		case f.token(r) != Token:
			answer(w, http.StatusUnauthorized, map[string]any{"message": "401 Unauthorized"})
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	f.URL = server.URL
	return f
}

// Repository is the path of the repository on the forge.
func (f *Forge) Repository() string {
	if f.kind == GitLab {
		return "noc/tokyo/vnfs"
	}
	return "noc/vnfs"
}

func (f *Forge) token(r *http.Request) string {
	if f.kind == GitLab {
		return r.Header.Get("Private-Token")
	}
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// Statuses are all that the commit was ever given in a context, the oldest first.
func (f *Forge) Statuses(commit, context string) (all []Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.all.statuses {
		if s.commit == commit && s.Context == context {
			all = append(all, s.Status)
		}
	}
	return all
}

// Comments are all on a pull request, the oldest first.
func (f *Forge) Comments(number int64) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.all.comments {
		if c.pull == number {
			all = append(all, c.text)
		}
	}
	return all
}

// Comment is a comment of somebody else.
func (f *Forge) Comment(number int64, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(number, otherID, text)
}

// Open opens a pull request as a person does, and returns its number.
func (f *Forge) Open(t testing.TB, branch, base string) int64 {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	p, why := f.propose(branch, base)
	if p == nil {
		t.Fatalf("the pull request of %s: %s", branch, why)
	}
	return p.number
}

// Merge marks a pull request as merged by a commit.
func (f *Forge) Merge(number int64, commit string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.all.pulls[number-1]
	p.open, p.merged = false, commit
	f.Branches[p.base] = commit
}

func (f *Forge) add(pull, author int64, text string) *comment {
	c := &comment{int64(len(f.all.comments) + 1), pull, author, text}
	f.all.comments = append(f.all.comments, c)
	return c
}

// pull returns one by its number, nil if there is none.
func (f *Forge) pull(r *http.Request) *pullRequest {
	n, _ := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if i := slices.IndexFunc(f.all.pulls, func(p *pullRequest) bool { return p.number == n }); i >= 0 {
		return f.all.pulls[i]
	}
	return nil
}

// propose opens a pull request, or says why not.
func (f *Forge) propose(branch, base string) (*pullRequest, string) {
	if f.branch(branch) == "" || f.branch(base) == "" {
		return nil, "invalid"
	}
	open := 0
	for _, p := range f.all.pulls {
		if p.open && p.branch == branch && p.base == base {
			return nil, "already exists"
		}
		if p.open && p.base == base {
			open++
		}
	}
	if f.limits.PullRequests > 0 && open >= f.limits.PullRequests {
		f.meter.refuse("pull requests")
		return nil, "too many are open"
	}
	p := &pullRequest{number: int64(len(f.all.pulls) + 1), branch: branch, base: base, open: true}
	f.all.pulls = append(f.all.pulls, p)
	return p, ""
}

// page is a page of what is listed, with per_page of the request at most of the documented hundred.
func page[T any](r *http.Request, all []T) (part []T, next int) {
	per, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	if per <= 0 || per > 100 {
		per = 20
	}
	per = min(per, 20) // so that a hundred is more than a page
	n := max(1, func() int { n, _ := strconv.Atoi(r.URL.Query().Get("page")); return n }())
	from := min((n-1)*per, len(all))
	to := min(from+per, len(all))
	if to < len(all) {
		next = n + 1
	}
	return all[from:to], next
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func body(r *http.Request) (in map[string]string) {
	var any map[string]any
	_ = json.NewDecoder(r.Body).Decode(&any)
	in = map[string]string{}
	for k, v := range any {
		in[k] = fmt.Sprint(v)
	}
	return in
}
