package forge

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/forges"
)

// fake is a server with the API of a forge, in the words of this package.
type fake struct {
	*forges.Forge
	t *testing.T
}

func newFake(t *testing.T, kind forges.Kind) fake {
	t.Helper()
	f := fake{forges.New(t, kind, forges.Limits{}), t}
	for i, name := range []string{"main", "change-1", "change-2"} {
		f.Branches[name] = strings.Repeat(strconv.Itoa(i+1), 40)
	}
	return f
}

func (f fake) commit(_ *testing.T, branch string) string { return f.Branches[branch] }

func (f fake) statuses(_ *testing.T, commit, context string) (all []Status) {
	for _, s := range f.Statuses(commit, context) {
		all = append(all, Status{s.Context, State(s.State), s.Description, s.Link})
	}
	return all
}

func (f fake) comments(_ *testing.T, number int64) []string { return f.Comments(number) }

func (f fake) merge(_ *testing.T, number int64) { f.Merge(number, strings.Repeat("9", 40)) }

func (f fake) comment(_ *testing.T, number int64, text string) { f.Comment(number, text) }

// fakes are the two, and which of them each is.
func fakes(t *testing.T) map[Kind]fake {
	t.Helper()
	return map[Kind]fake{GitHub: newFakeGitHub(t).fake, GitLab: newFakeGitLab(t).fake}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
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
			f.Refuse = func(w http.ResponseWriter, _ *http.Request) {
				asked++
				for i := 0; i < len(test.headers); i += 2 {
					w.Header().Set(test.headers[i], test.headers[i+1])
				}
				answer(w, test.status, map[string]any{"message": "no"})
			}
			c, err := New(Settings{Kind: kind, URL: f.URL, Repository: "noc/vnfs", Token: forges.Token, Transport: transport(t)})
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
		c, err := New(Settings{Kind: kind, URL: gone.URL, Repository: "noc/vnfs", Token: forges.Token, Transport: transport(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(t.Context()); !errors.Is(err, ErrAway) || strings.Contains(err.Error(), forges.Token) {
			t.Errorf("%s: %v", kind, err)
		}
		_ = f
	}
}

func TestTheTokenGoesNoWhereElseThanToTheForge(t *testing.T) {
	for kind, f := range fakes(t) {
		elsewhere := 0
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
		f.Refuse = func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
		c, err := New(Settings{Kind: kind, URL: f.URL, Repository: "noc/vnfs", Token: forges.Token, Transport: transport(t)})
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
	good := Settings{Kind: GitLab, URL: "https://git.example.org", Repository: "noc/tokyo/vnfs", Token: forges.Token, Transport: http.DefaultTransport}
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
		if _, err := New(s); err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), forges.Token) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
