package ui

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
)

// How many sessions there may be, in all and of one caller, and how many login links that nobody
// has used. The one that was used longest ago gives way.
const (
	mostSessions, sessionsEach = 2000, 32
	mostCodes                  = 256
)

// codeLife is how long a login link is good.
const codeLife = 2 * time.Minute

// sessions are the browsers that have logged in. They are held in memory alone, with the
// credential that each was opened with, and end with the process.
type sessions struct {
	life, idle time.Duration
	now        func() time.Time
	key        [sha256.Size]byte // of the tokens of forms

	mu sync.Mutex
	of map[[sha256.Size]byte]*session // by the digest of their id
	// ended is called with each session that has ended, however it did.
	ended func(*session)
	codes map[[sha256.Size]byte]code
}

// session is one browser's. who and used change under the mutex of sessions.
type session struct {
	digest     [sha256.Size]byte
	credential Credential
	who        auth.Identity
	opened     time.Time
	used       time.Time
}

// code opens one session, once.
type code struct {
	credential Credential
	who        auth.Identity
	made       time.Time
}

func newSessions(life, idle time.Duration, now func() time.Time) *sessions {
	s := &sessions{life: life, idle: idle, now: now, of: map[[sha256.Size]byte]*session{}, ended: func(*session) {}, codes: map[[sha256.Size]byte]code{}}
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

// open makes a session and returns its id, which only its browser knows from then on.
func (s *sessions) open(who auth.Identity, c Credential) (string, *session) {
	id := rand.Text() + rand.Text()
	now := s.now()
	x := &session{digest: sha256.Sum256([]byte(id)), credential: c, who: who, opened: now, used: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	var own []*session
	for _, other := range s.of {
		if other.who.Is(who) {
			own = append(own, other)
		}
	}
	s.makeRoom(own, sessionsEach)
	if len(s.of) >= mostSessions {
		var all []*session
		for _, other := range s.of {
			all = append(all, other)
		}
		s.makeRoom(all, mostSessions)
	}
	s.of[x.digest] = x
	return id, x
}

// makeRoom ends those of the sessions that were used longest ago, until there are fewer than most.
func (s *sessions) makeRoom(list []*session, most int) {
	if len(list) < most {
		return
	}
	slices.SortFunc(list, func(a, b *session) int { return a.used.Compare(b.used) })
	for _, x := range list[:len(list)-most+1] {
		s.drop(x)
	}
}

// get finds a session by its id. touch says that a person has asked, and not a page by itself.
func (s *sessions) get(id string, touch bool) (*session, bool) {
	digest := sha256.Sum256([]byte(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.of[digest]
	if !ok {
		return nil, false
	}
	now := s.now()
	if s.over(x, now) {
		s.drop(x)
		return nil, false
	}
	if touch {
		x.used = now
	}
	return x, true
}

func (s *sessions) over(x *session, now time.Time) bool {
	return now.Sub(x.opened) > s.life || now.Sub(x.used) > s.idle
}

// end ends a session; ending one twice is the same as once.
func (s *sessions) end(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(x)
}

// drop takes the session out. The caller has mu.
func (s *sessions) drop(x *session) {
	if s.of[x.digest] == x {
		delete(s.of, x.digest)
		s.ended(x)
	}
}

// sweep ends what is too old. The caller has mu.
func (s *sessions) sweep(now time.Time) {
	for _, x := range s.of {
		if s.over(x, now) {
			s.drop(x)
		}
	}
	for digest, c := range s.codes {
		if now.Sub(c.made) > codeLife {
			delete(s.codes, digest)
		}
	}
}

// run ends old sessions until ctx ends, and then all.
func (s *sessions) run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			clear(s.of)
			clear(s.codes)
			s.mu.Unlock()
			return
		case <-tick.C:
			s.mu.Lock()
			s.sweep(s.now())
			s.mu.Unlock()
		}
	}
}

// newCode makes a code that opens one session.
func (s *sessions) newCode(who auth.Identity, c Credential) string {
	text := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	for len(s.codes) >= mostCodes {
		var oldest [sha256.Size]byte
		at := now
		for digest, c := range s.codes {
			if !c.made.After(at) {
				oldest, at = digest, c.made
			}
		}
		delete(s.codes, oldest)
	}
	s.codes[sha256.Sum256([]byte(text))] = code{c, who, now}
	return text
}

// take uses a code up.
func (s *sessions) take(text string) (code, bool) {
	digest := sha256.Sum256([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.codes[digest]
	delete(s.codes, digest)
	return c, ok && s.now().Sub(c.made) <= codeLife
}

// visitor is who a request is from, and what ties the forms of their pages to their browser.
type visitor struct {
	*Service
	who auth.Identity
	// session is nil for who is known by each request alone: by a certificate, a header, or as
	// everybody is let in.
	session *session
	// cookie is the value of the cookie that forms are tied to; fresh says that the browser
	// hasn't got it yet.
	cookie string
	fresh  bool
	// since is the last event before the request was answered.
	since string
}

type visitorKey struct{}

func withVisitor(ctx context.Context, v *visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

func visitorOf(ctx context.Context) *visitor {
	v, _ := ctx.Value(visitorKey{}).(*visitor)
	return v
}

// liveHeader is that of requests which the script makes by itself. They don't keep a session
// from getting idle.
const liveHeader = "Jibe-Live"

// visitor finds out who a request is from: by the header or the certificate that it comes with,
// else by the session of its cookie. An error wraps [auth.ErrUnauthenticated] for nobody.
func (s *Service) visitor(r *http.Request) (*visitor, error) {
	if r.Header.Get("Authorization") == "" && r.Header.Get("X-Auth-Token") == "" {
		c, err := r.Cookie(s.cookieName("session"))
		if err == nil {
			if v, err := s.bySession(r, c.Value); !errors.Is(err, auth.ErrUnauthenticated) {
				return v, err
			}
		}
	}
	who, err := s.Gate.Ambient(r)
	if err != nil {
		return nil, err
	}
	v := &visitor{Service: s, who: who}
	if c, err := r.Cookie(s.cookieName("form")); err == nil && len(c.Value) >= 26 {
		v.cookie = c.Value
	} else {
		v.cookie, v.fresh = rand.Text(), true
	}
	return v, nil
}

// bySession finds the session of an id, and asks again whether its credential is good: one that
// was revoked ends it.
func (s *Service) bySession(r *http.Request, id string) (*visitor, error) {
	x, ok := s.sessions.get(id, r.Header.Get(liveHeader) == "" && r.URL.Path != Root+"/events")
	if !ok {
		return nil, fmt.Errorf("%w: the session has ended", auth.ErrUnauthenticated)
	}
	who, err := s.Gate.Again(r, x.credential)
	if errors.Is(err, auth.ErrUnauthenticated) || err == nil && !who.Is(x.who) {
		s.sessions.end(x)
		return nil, fmt.Errorf("%w: the token of the session counts no more", auth.ErrUnauthenticated)
	}
	if err != nil {
		return nil, err
	}
	return &visitor{Service: s, who: who, session: x, cookie: id}, nil
}

// ensureCookie gives a browser without a session the cookie that its forms are tied to.
func (v *visitor) ensureCookie(w http.ResponseWriter) {
	if v.fresh {
		v.setCookie(w, "form", v.cookie)
	}
}

// formToken is what forms of the visitor's pages send. It differs each time, so that nobody can
// tell it from the sizes of compressed pages.
func (v *visitor) formToken() string {
	mac := v.mac()
	pad := make([]byte, len(mac))
	_, _ = rand.Read(pad) // never fails
	masked := make([]byte, len(mac))
	subtle.XORBytes(masked, mac, pad)
	return base64.RawURLEncoding.EncodeToString(append(pad, masked...))
}

func (v *visitor) mac() []byte {
	h := hmac.New(sha256.New, v.sessions.key[:])
	h.Write([]byte("form\x00" + v.cookie + "\x00" + v.who.Issuer + "\x00" + v.who.Name))
	return h.Sum(nil)
}

// mostForm bounds a form, in bytes.
const mostForm = 1 << 20

// checkForm refuses a form that doesn't come from a page of this visitor's.
func (v *visitor) checkForm(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	sent, err := base64.RawURLEncoding.DecodeString(r.PostForm.Get("csrf"))
	mac := v.mac()
	if err != nil || len(sent) != 2*len(mac) {
		sent = make([]byte, 2*len(mac))
	}
	subtle.XORBytes(sent[:len(mac)], sent[:len(mac)], sent[len(mac):])
	if !hmac.Equal(sent[:len(mac)], mac) {
		return &Failure{Status: http.StatusForbidden, Title: "The form is out of date", Detail: "It was drawn for another session. Nothing was changed.",
			Remedy: "Go back, reload the page, and send it again."}
	}
	return nil
}

func parseForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		return &Failure{Status: http.StatusBadRequest, Title: "The form can't be read", Detail: err.Error(), Remedy: "Send it again from the page. Nothing was changed."}
	}
	return nil
}

// secureCookies says whether browsers reach the page by TLS.
func (s *Service) secureCookies() bool { return strings.HasPrefix(s.BaseURL, "https://") }

// cookieName is that of a cookie here. Cookies don't know ports, so that those of two servers on
// one machine would be the same without it.
func (s *Service) cookieName(kind string) string {
	port := ""
	if u, err := url.Parse(s.BaseURL); err == nil {
		port = u.Port()
	}
	name := "jibe-" + kind + "-" + cmp.Or(port, "0")
	if s.secureCookies() {
		return "__Host-" + name
	}
	return name
}

// setCookie gives a browser a cookie until it is closed, which the server may end before; an
// empty value takes the cookie away.
func (s *Service) setCookie(w http.ResponseWriter, kind, value string) {
	c := &http.Cookie{Name: s.cookieName(kind), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secureCookies()}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
