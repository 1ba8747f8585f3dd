package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
)

// issued is a token of the cloud's user.
func issued(t *testing.T, cloud *openstacktest.Cloud) string {
	t.Helper()
	vim := cloud.VIM()
	body := fmt.Sprintf(`{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": %q, "password": %q, "domain": {"name": "Default"}}}},
		"scope": {"project": {"name": %q, "domain": {"name": "Default"}}}}}`, vim.Username, vim.Password, vim.Project)
	resp, err := http.Post(strings.TrimSuffix(strings.TrimRight(vim.Endpoint, "/"), "/v3")+"/v3/auth/tokens", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status)
	}
	return resp.Header.Get("X-Subject-Token")
}

// with is a request with the token in X-Auth-Token.
func with(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Auth-Token", token)
	return r
}

func configured(t *testing.T, c KeystoneConfig) *Keystone {
	t.Helper()
	if c.Roles == nil {
		c.Roles = map[string][]Permission{"reader": {{Role: Viewer}}, "member": {{Role: Operator}}}
	}
	if c.Projects == nil {
		c.Projects = []string{"*"}
	}
	k, err := NewKeystone(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestATokenOfKeystoneIsValidatedThereAndGetsWhatItsRolesAllow(t *testing.T) {
	cloud := openstacktest.New(t, openstacktest.Options{})
	vim := cloud.VIM()
	token := issued(t, cloud)
	for what, c := range map[string]struct {
		roles    []string
		projects []string
		want     Role
	}{
		"several roles":      {nil, nil, Operator},
		"one role":           {[]string{"reader=read"}, []string{vim.Project + "@Default"}, Viewer},
		"no role":            {[]string{"operator=admin"}, nil, ""},
		"another project":    {nil, []string{"other@Default", vim.Project, vim.Project + "@other"}, ""},
		"the project's name": {nil, []string{vim.Project + "@Default"}, Operator},
	} {
		config := KeystoneConfig{URL: vim.Endpoint, Projects: c.projects}
		if c.roles != nil {
			var err error
			if config.Roles, err = ParseMapping(c.roles); err != nil {
				t.Fatal(err)
			}
		}
		k := configured(t, config)
		who, err := k.Authenticate(with(token))
		if err != nil || who.May(c.want, "") != (c.want != "") || who.MayAnywhere(Admin) || who.Issuer != IssuerKeystone || who.Name != vim.Username+"@Default" {
			t.Errorf("%s: %+v, %v; want role %q", what, who, err, c.want)
		}
	}
	k := configured(t, KeystoneConfig{URL: vim.Endpoint})
	for _, bad := range []string{"gAAAAAnever", token + "x", "", "with blank", strings.Repeat("x", 9<<10), "müll"} {
		if who, err := k.Authenticate(with(bad)); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%.20q: %+v, %v", bad, who, err)
		}
	}
}

func TestOneAnswerOfKeystoneServesManyRequestsAndEndsWithTheToken(t *testing.T) {
	var asked atomic.Int32
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	expires := now.Add(90 * time.Second)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		time.Sleep(10 * time.Millisecond) // so that several ask at once
		if r.Header.Get("X-Subject-Token") != "good" || r.Header.Get("X-Auth-Token") != "good" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"token": {"expires_at": %q, "user": {"id": "u", "name": "ann", "domain": {"id": "d", "name": "noc"}}, "project": {"id": "p", "name": "vnf"}, "roles": [{"name": "member"}]}}`, expires.Format("2006-01-02T15:04:05.000000Z"))
	}))
	defer s.Close()
	k := configured(t, KeystoneConfig{URL: s.URL + "/v3/"})
	k.now = func() time.Time { return now }
	try := func(token string, want int32, valid bool) {
		t.Helper()
		asked.Store(0)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if who, err := k.Authenticate(with(token)); (err == nil) != valid || valid && (who.Name != "ann@noc" || !who.May(Operator, "")) {
					t.Errorf("%+v, %v", who, err)
				}
			})
		}
		all.Wait()
		if n := asked.Load(); n != want {
			t.Errorf("Keystone was asked %d times, want %d", n, want)
		}
	}
	try("good", 1, true)
	try("good", 0, true)
	try("bad", 1, false)
	try("bad", 0, false)
	now = now.Add(61 * time.Second) // a minute is long enough, the token has half of one left
	try("good", 1, true)
	now = now.Add(29 * time.Second)
	try("good", 1, false)
}

func TestAKeystoneThatIsAwayOrOutOfItsMindIsNoReasonToRefuseAToken(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the token was sent elsewhere: %v", r.Header)
	}))
	defer elsewhere.Close()
	for what, answer := range map[string]http.HandlerFunc{
		"503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"429": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"403": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"a redirection": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"nobody":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"token": {}}`) },
		"no end": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"token": {"user": {"name": "a"}}}`)
		},
		"gigabytes": func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		},
		"half an answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"token": {"user"`)
		},
		"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		s := httptest.NewServer(answer)
		k := configured(t, KeystoneConfig{URL: s.URL, Timeout: 300 * time.Millisecond})
		_, err := k.Authenticate(with("token"))
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnauthenticated) || strings.Contains(err.Error(), s.URL) {
			t.Errorf("%s: %v", what, err)
		}
		s.Close()
		if _, err := k.Authenticate(with("token")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after %s, with nobody there: %v", what, err)
		}
	}
}

func TestACallerWhoLeavesWaitsForNobody(t *testing.T) {
	begun := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	}))
	defer s.Close()
	k := configured(t, KeystoneConfig{URL: s.URL, Timeout: 5 * time.Second})
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-begun; leave() }()
	if _, err := k.Authenticate(with("token").WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAStaticTokenIsNeverSentToKeystone(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer s.Close()
	either := &Callers{Identities: identities(t, "tokens: [{name: nfvo, role: operate, token: 0123456789abcdef}]"), Keystone: configured(t, KeystoneConfig{URL: s.URL})}
	if who, err := either.Authenticate(with("0123456789abcdef")); err != nil || who.Name != "nfvo" {
		t.Errorf("%+v, %v", who, err)
	}
	basic := httptest.NewRequest(http.MethodGet, "/", nil)
	basic.SetBasicAuth("ann", "a-password-of-hers")
	bearer := httptest.NewRequest(http.MethodGet, "/", nil)
	bearer.Header.Set("Authorization", "Bearer 0123456789abcdeg")
	for _, r := range []*http.Request{basic, bearer, httptest.NewRequest(http.MethodGet, "/", nil)} {
		if who, err := either.Authenticate(r); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%+v, %v", who, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("Keystone was asked %d times", n)
	}
	if _, err := either.Authenticate(with("another")); !errors.Is(err, ErrUnauthenticated) || asked.Load() != 1 {
		t.Errorf("%v after %d questions", err, asked.Load())
	}
}

func TestAKeystoneThatNobodyCouldUseIsRefusedAtTheStart(t *testing.T) {
	good := func() KeystoneConfig {
		return KeystoneConfig{URL: "https://keystone:5000/v3", Roles: map[string][]Permission{"member": {{Role: Operator}}}, Projects: []string{"*"}}
	}
	for want, spoil := range map[string]func(*KeystoneConfig){
		"http(s) URL":                    func(c *KeystoneConfig) { c.URL = "keystone:5000" },
		"without credentials":            func(c *KeystoneConfig) { c.URL = "https://u:p@keystone" },
		"no role of Keystone's is given": func(c *KeystoneConfig) { c.Roles = nil },
		"none of viewer, planner, operator, packager, admin": func(c *KeystoneConfig) { c.Roles["boss"] = []Permission{{Role: "boss"}} },
		"no project is given":                                func(c *KeystoneConfig) { c.Projects = nil },
		"no certificate in PEM":                              func(c *KeystoneConfig) { c.CACert = []byte("x") },
	} {
		c := good()
		spoil(&c)
		if _, err := NewKeystone(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if k, err := NewKeystone(good()); err != nil || k.url != "https://keystone:5000/v3/auth/tokens?nocatalog=1" {
		t.Errorf("%v, %v", k, err)
	}
}

func TestUsersOfTwoDomainsAreTwoCallers(t *testing.T) {
	k := configured(t, KeystoneConfig{URL: "https://keystone"})
	who := func(user, id, domain, domainID, project string) Identity {
		t.Helper()
		v, err := k.judge(fmt.Appendf(nil, `{"token": {"expires_at": "9999-12-31T23:59:59Z", "user": {"id": %q, "name": %q, "domain": {"id": %q, "name": %q}}, "project": {"id": "p", "name": %q}, "roles": [{"name": "member"}]}}`,
			id, user, domainID, domain, project))
		if err != nil || !v.valid {
			t.Fatalf("%+v, %v", v, err)
		}
		return v.who
	}
	alice := who("alice", "1", "A", "a", "vnf")
	for what, other := range map[string]Identity{
		"of another domain":           who("alice", "2", "B", "b", "vnf"),
		"with a domain in her name":   who("alice@A", "3", "A", "a", "vnf"),
		"whose id comes in a domain":  who("alice", "1", "B", "b", "vnf"),
		"who is named as she was":     {Name: alice.Name, ID: "9@a", Issuer: IssuerKeystone},
		"of an earlier version":       {Name: "alice@A", Issuer: IssuerKeystone},
		"of another issuer":           {Name: alice.Name, ID: alice.ID, Issuer: "https://sso.example"},
		"with a token of tokens.yaml": {Name: alice.Name, Issuer: IssuerTokens},
	} {
		if alice.Is(other) || other.Is(alice) || what != "who is named as she was" && what != "of an earlier version" && alice.String() == other.String() {
			t.Errorf("alice and the one %s are one caller: %+v, %+v", what, alice, other)
		}
	}
	if one, two := who("alice@B", "4", "A", "a", "vnf"), who("alice", "5", "B@A", "ba", "vnf"); one.Name == two.Name {
		t.Errorf("both are %s", one.Name)
	}
	if same := who("alice", "1", "A", "a", "other"); !alice.Is(same) || same.Name != alice.Name {
		t.Errorf("with a token of another project she is %+v", same)
	}
	if renamed := who("bob", "1", "A", "a", "vnf"); !alice.Is(renamed) {
		t.Errorf("with another name she is %+v", renamed)
	}
	for _, answer := range []string{
		`{"token": {"expires_at": "9999-12-31T23:59:59Z", "user": {"id": "1", "name": "alice"}}}`,
		`{"token": {"expires_at": "9999-12-31T23:59:59Z", "user": {"name": "alice", "domain": {"id": "a", "name": "A"}}}}`,
	} {
		if v, err := k.judge([]byte(answer)); err == nil {
			t.Errorf("%s: %+v", answer, v)
		}
	}
}

func FuzzTheAnswerOfKeystoneIsReadOrRefused(f *testing.F) {
	f.Add(`{"token": {"expires_at": "2026-01-02T03:04:05.000000Z", "user": {"id": "u", "name": "ann", "domain": {"id": "d", "name": "Default"}}, "project": {"id": "p", "name": "vnf", "domain": {"name": "Default"}}, "roles": [{"name": "member"}]}}`)
	f.Add(`{"token": {"user": {"name": "a\n<b>"}, "expires_at": "9999-12-31T23:59:59Z"}}`)
	k, err := NewKeystone(KeystoneConfig{URL: "https://k", Roles: map[string][]Permission{"member": {{Role: Operator}}}, Projects: []string{"vnf@Default"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		v, err := k.judge([]byte(answer))
		if err != nil {
			return
		}
		if strings.ContainsAny(v.who.Name, "<>\n\r\x00") {
			t.Errorf("%q can't be the author of a commit", v.who.Name)
		}
		if v.who.MayAnywhere(Admin) {
			t.Errorf("%s", v.who.Describe())
		}
	})
}
