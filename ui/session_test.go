package ui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
)

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func person(name string) auth.Identity {
	return auth.Identity{Name: name, Issuer: auth.IssuerTokens, Permissions: []auth.Permission{{Role: auth.Viewer}}}
}

func TestASessionEndsWhenItIsIdleOrOld(t *testing.T) {
	c := newClock()
	s := newSessions(3*time.Hour, time.Hour, c.now)
	id, _ := s.open(person("a"), Credential{})
	c.at = c.at.Add(50 * time.Minute)
	if _, ok := s.get(id, false); !ok {
		t.Fatal("it has ended before its time")
	}
	c.at = c.at.Add(20 * time.Minute)
	if _, ok := s.get(id, false); ok {
		t.Error("what the page asked by itself kept it from getting idle")
	}
	id, _ = s.open(person("a"), Credential{})
	for range 4 {
		c.at = c.at.Add(50 * time.Minute)
		_, ok := s.get(id, true)
		if old := c.at.Sub(newClock().at) > 70*time.Minute+3*time.Hour; ok == old {
			t.Errorf("at %s: %v", c.at, ok)
		}
	}
	if _, ok := s.get("somebody else's", true); ok {
		t.Error("an id that was never given is a session")
	}
}

func TestTheSessionThatWasUsedLongestAgoGivesWay(t *testing.T) {
	c := newClock()
	s := newSessions(time.Hour, time.Hour, c.now)
	first, _ := s.open(person("a"), Credential{})
	other, _ := s.open(person("b"), Credential{})
	for range sessionsEach {
		c.at = c.at.Add(time.Second)
		s.open(person("a"), Credential{})
	}
	if _, ok := s.get(first, true); ok {
		t.Error("one caller has more sessions than they may")
	}
	if _, ok := s.get(other, true); !ok {
		t.Error("the session of somebody else gave way")
	}
	for i := range 2 * mostSessions {
		s.open(person(strings.Repeat("x", i%100)+string(rune('a'+i%26))), Credential{})
	}
	if len(s.of) > mostSessions {
		t.Errorf("there are %d sessions", len(s.of))
	}
	for range 2 * mostCodes {
		s.newCode(person("a"), Credential{})
	}
	if len(s.codes) > mostCodes {
		t.Errorf("there are %d login links", len(s.codes))
	}
}

func TestALoginLinkIsGoodOnceAndSoon(t *testing.T) {
	c := newClock()
	s := newSessions(time.Hour, time.Hour, c.now)
	text := s.newCode(person("a"), Credential{"Authorization", "Bearer x"})
	if got, ok := s.take(text); !ok || got.credential.Value != "Bearer x" {
		t.Errorf("the first time: %+v, %v", got, ok)
	}
	if _, ok := s.take(text); ok {
		t.Error("it is good twice")
	}
	text = s.newCode(person("a"), Credential{})
	c.at = c.at.Add(codeLife + time.Second)
	if _, ok := s.take(text); ok {
		t.Error("it is good after its time")
	}
}

func TestAFormIsTakenFromItsOwnBrowserAlone(t *testing.T) {
	s := &Service{sessions: newSessions(time.Hour, time.Hour, time.Now)}
	v := &visitor{Service: s, who: person("a"), cookie: "one"}
	send := func(to *visitor, token string) error {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/logout", strings.NewReader(url.Values{"csrf": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return to.checkForm(httptest.NewRecorder(), r)
	}
	token := v.formToken()
	if token == v.formToken() {
		t.Error("the token is the same each time, which sizes of compressed pages tell")
	}
	if err := send(v, token); err != nil {
		t.Error(err)
	}
	for name, to := range map[string]*visitor{
		"another browser": {Service: s, who: person("a"), cookie: "two"},
		"somebody else":   {Service: s, who: person("b"), cookie: "one"},
	} {
		if err := send(to, token); err == nil {
			t.Errorf("it is taken from %s", name)
		}
	}
	for _, bad := range []string{"", "x", token[:len(token)-1], token + "AA", strings.Repeat("A", len(token))} {
		if err := send(v, bad); err == nil {
			t.Errorf("the token %q is taken", bad)
		}
	}
}

func TestALoginLeadsToPagesHereAlone(t *testing.T) {
	for _, to := range []string{"", "https://elsewhere.example", "//elsewhere.example", "/jibe/v1/accept", "/ui", `/ui/\elsewhere`, "javascript:alert(1)", "/ui/\nx", "/ui/../../x", "/ui/%2e%2e/x", "/ui//x"} {
		if got := localPath(to); got != Root+"/" {
			t.Errorf("%q leads to %q", to, got)
		}
	}
	if got := localPath("/ui/instances/x?y=z"); got != "/ui/instances/x?y=z" {
		t.Errorf("a page leads to %q", got)
	}
}
