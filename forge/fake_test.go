package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const fakeToken = "glpat-of-the-fake-forge"

// The users of a fake forge.
const jibeID, otherID = 7, 8

// fake is what a fake forge keeps. The handlers of github_test.go and gitlab_test.go answer as the
// documentation of GitHub's REST API (2022-11-28) and of GitLab's API v4 says.
type fake struct {
	url string

	mu         sync.Mutex
	branches   map[string]string
	allStatus  []fakeStatus
	pulls      []*fakePull
	allComment []*fakeComment
	readOnly   bool // the token's user may not write
	// refuse answers in place of the API where it isn't nil.
	refuse http.HandlerFunc
}

type fakeStatus struct {
	id     int64
	commit string
	Status
}

type fakePull struct {
	number       int64
	branch, base string
	open         bool
	merged       string // the commit that it was merged as
}

type fakeComment struct {
	id, pull, author int64
	text             string
}

// newFake serves a forge whose API is routes, for who has the token.
func newFake(t *testing.T, has func(*http.Request) string, routes func(*fake, *http.ServeMux)) *fake {
	t.Helper()
	f := &fake{branches: map[string]string{}}
	for i, name := range []string{"main", "change-1", "change-2"} {
		f.branches[name] = strings.Repeat(strconv.Itoa(i+1), 40)
	}
	mux := http.NewServeMux()
	routes(f, mux)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case f.refuse != nil:
			f.refuse(w, r)
		case has(r) != fakeToken:
			answer(w, http.StatusUnauthorized, map[string]any{"message": "401 Unauthorized"})
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *fake) commit(_ *testing.T, branch string) string { return f.branches[branch] }

func (f *fake) statuses(_ *testing.T, commit, context string) (all []Status) {
	for _, s := range f.allStatus {
		if s.commit == commit && s.Context == context {
			all = append(all, s.Status)
		}
	}
	return all
}

func (f *fake) comments(_ *testing.T, number int64) (all []string) {
	for _, c := range f.allComment {
		if c.pull == number {
			all = append(all, c.text)
		}
	}
	return all
}

func (f *fake) merge(_ *testing.T, number int64) {
	p := f.pulls[number-1]
	p.open, p.merged = false, strings.Repeat("9", 40)
	f.branches[p.base] = p.merged
}

func (f *fake) comment(_ *testing.T, number int64, text string) { f.add(number, otherID, text) }

func (f *fake) add(pull, author int64, text string) *fakeComment {
	c := &fakeComment{int64(len(f.allComment) + 1), pull, author, text}
	f.allComment = append(f.allComment, c)
	return c
}

func (f *fake) known(commit string) bool {
	for _, c := range f.branches {
		if c == commit {
			return true
		}
	}
	return false
}

// pull returns one by its number, nil if there is none.
func (f *fake) pull(r *http.Request) *fakePull {
	n, _ := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if i := slices.IndexFunc(f.pulls, func(p *fakePull) bool { return p.number == n }); i >= 0 {
		return f.pulls[i]
	}
	return nil
}

// propose opens a pull request, or says why not.
func (f *fake) propose(branch, base string) (*fakePull, string) {
	if f.branches[branch] == "" || f.branches[base] == "" {
		return nil, "invalid"
	}
	for _, p := range f.pulls {
		if p.open && p.branch == branch && p.base == base {
			return nil, "already exists"
		}
	}
	p := &fakePull{number: int64(len(f.pulls) + 1), branch: branch, base: base, open: true}
	f.pulls = append(f.pulls, p)
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
	json.NewEncoder(w).Encode(body)
}

func body(r *http.Request) (in map[string]string) {
	var any map[string]any
	json.NewDecoder(r.Body).Decode(&any)
	in = map[string]string{}
	for k, v := range any {
		in[k] = fmt.Sprint(v)
	}
	return in
}

// fakes are the two, and which of them each is.
func fakes(t *testing.T) map[Kind]*fake {
	t.Helper()
	return map[Kind]*fake{GitHub: newFakeGitHub(t).fake, GitLab: newFakeGitLab(t).fake}
}

func TestAForgeThatLimitsIsToldFromOneThatDeniesAndSaysForHowLong(t *testing.T) {
	inFiveMinutes := strconv.FormatInt(time.Now().Add(5*time.Minute).Unix(), 10)
	for name, test := range map[string]struct {
		status  int
		headers []string
		is      error
		least   time.Duration
		most    time.Duration
	}{
		"429 with Retry-After":                  {429, []string{"Retry-After", "7"}, ErrLimited, 7 * time.Second, 7 * time.Second},
		"429 that says nothing":                 {429, nil, ErrLimited, time.Minute, time.Minute},
		"GitLab's 429 with the time of its end": {429, []string{"RateLimit-Reset", inFiveMinutes}, ErrLimited, 4 * time.Minute, 5 * time.Minute},
		"GitHub's 403 with nothing left":        {403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", inFiveMinutes}, ErrLimited, 4 * time.Minute, 5 * time.Minute},
		"GitHub's secondary limit":              {403, []string{"Retry-After", "60"}, ErrLimited, time.Minute, time.Minute},
		"503 with Retry-After":                  {503, []string{"Retry-After", "1"}, ErrLimited, time.Second, time.Second},
		"a wait of years":                       {429, []string{"Retry-After", "99999999"}, ErrLimited, maxWait, maxWait},
		"403 of the token, with requests left":  {403, []string{"X-RateLimit-Remaining", "4999"}, ErrDenied, 0, 0},
		"401":                                   {401, nil, ErrDenied, 0, 0},
		"404":                                   {404, nil, ErrNotFound, 0, 0},
		"500":                                   {500, nil, ErrAway, 0, 0},
		"502, a page of a proxy":                {502, nil, ErrAway, 0, 0},
	} {
		for kind, f := range fakes(t) {
			asked := 0
			f.refuse = func(w http.ResponseWriter, _ *http.Request) {
				asked++
				for i := 0; i < len(test.headers); i += 2 {
					w.Header().Set(test.headers[i], test.headers[i+1])
				}
				answer(w, test.status, map[string]any{"message": "no"})
			}
			c, err := New(Settings{Kind: kind, URL: f.url, Repository: "noc/vnfs", Token: fakeToken, Transport: transport(t)})
			if err != nil {
				t.Fatal(err)
			}
			err = c.SetStatus(t.Context(), strings.Repeat("1", 40), Status{Context: "jibe", State: Success})
			if !errors.Is(err, test.is) || After(err) < test.least || After(err) > test.most {
				t.Errorf("%s of %s: %v, after %s", name, kind, err, After(err))
			}
			if asked != 1 {
				t.Errorf("%s of %s: asked %d times", name, kind, asked)
			}
		}
	}
}

func TestAForgeThatIsAwayIsTold(t *testing.T) {
	for kind, f := range fakes(t) {
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		c, err := New(Settings{Kind: kind, URL: gone.URL, Repository: "noc/vnfs", Token: fakeToken, Transport: transport(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(t.Context()); !errors.Is(err, ErrAway) || strings.Contains(err.Error(), fakeToken) {
			t.Errorf("%s: %v", kind, err)
		}
		_ = f
	}
}

func TestTheTokenGoesNoWhereElseThanToTheForge(t *testing.T) {
	for kind, f := range fakes(t) {
		elsewhere := 0
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
		f.refuse = func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
		c, err := New(Settings{Kind: kind, URL: f.url, Repository: "noc/vnfs", Token: fakeToken, Transport: transport(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(t.Context()); err == nil || elsewhere != 0 {
			t.Errorf("%s: a redirect was followed %d times: %v", kind, elsewhere, err)
		}
		other.Close()
	}
}

func TestSettingsThatCantBeRightAreRefused(t *testing.T) {
	good := Settings{Kind: GitLab, URL: "https://git.example.org", Repository: "noc/tokyo/vnfs", Token: fakeToken, Transport: http.DefaultTransport}
	if _, err := New(good); err != nil {
		t.Fatalf("good ones: %v", err)
	}
	for name, change := range map[string]func(*Settings){
		"no URL":                       func(s *Settings) { s.URL = "git.example.org" },
		"credentials in the URL":       func(s *Settings) { s.URL = "https://jibe:hunter2@git.example.org" },
		"a token in clear on the wire": func(s *Settings) { s.URL = "http://git.example.org" },
		"no owner":                     func(s *Settings) { s.Repository = "vnfs" },
		"two owners on GitHub":         func(s *Settings) { s.Kind = GitHub },
		"no token":                     func(s *Settings) { s.Token = "" },
		"another forge":                func(s *Settings) { s.Kind = "bitbucket" },
	} {
		s := good
		change(&s)
		if _, err := New(s); err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), fakeToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
