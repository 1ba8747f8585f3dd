package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
)

// ThrottledError is returned for who has been wrong too often: nothing was judged.
type ThrottledError struct{ Wait time.Duration }

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many wrong credentials came from this address, or for this name: try again in %d s", max(1, int(e.Wait.Seconds()+1)))
}

// loginPage is what the login's template shows.
type loginPage struct {
	// Back is where the login leads to.
	Back string
	// Wrong says what was wrong with the last try, Remedy what to do.
	Wrong, Remedy string
	// Code is that of a login link which another site has led to.
	Code     string
	Keystone bool
}

// askLogin leads to the login, and from there back to the page that was asked for.
func (s *Service) askLogin(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet || r.Header.Get(liveHeader) != "" || r.URL.Path == Root+"/events" {
		return &Failure{Status: http.StatusUnauthorized, Title: "You are not logged in", Detail: "The session has ended. Nothing was changed.", Remedy: "Log in and try again."}
	}
	to := Root + "/login"
	if back := r.URL.RequestURI(); back != Root+"/" {
		to += "?" + url.Values{"back": {back}}.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// showLogin shows the form, or takes a login link. A link is used up at once where the browser
// says that a person has opened it; where another site has led to it, or a program looks ahead,
// a button is needed.
func (s *Service) showLogin(w http.ResponseWriter, r *http.Request) error {
	p := loginPage{Back: localPath(r.FormValue("back")), Keystone: s.Keystone}
	text := r.FormValue("code")
	if text == "" {
		return s.renderStatus(w, r, http.StatusOK, "login", p)
	}
	if r.Header.Get("Sec-Fetch-Site") == "none" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Purpose") == "" {
		return s.byCode(w, r, text, p)
	}
	p.Code = text
	return s.renderStatus(w, r, http.StatusOK, "login", p)
}

// login opens a session for who sends a good credential, or the code of a login link. It needs
// no form token: there is no session yet that another site could abuse, and what it sends is
// refused by its origin.
func (s *Service) login(w http.ResponseWriter, r *http.Request) error {
	audit.Note(r.Context(), func(rec *audit.Record) { rec.Action = "login" })
	if err := parseForm(w, r); err != nil {
		return err
	}
	p := loginPage{Back: localPath(r.PostForm.Get("back")), Keystone: s.Keystone}
	if text := r.PostForm.Get("code"); text != "" {
		return s.byCode(w, r, text, p)
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 127 }) {
		p.Wrong, p.Remedy = "The token is empty, or has characters that no token has.", "Copy it whole: it is one line without spaces."
		refuse(r, "no token, or one that can't be one")
		return s.renderStatus(w, r, http.StatusBadRequest, "login", p)
	}
	c := Credential{"Authorization", "Bearer " + token}
	if s.Keystone && r.PostForm.Get("kind") == "keystone" {
		c = Credential{"X-Auth-Token", token}
	}
	who, err := s.Gate.Login(r, c)
	if errors.Is(err, auth.ErrUnauthenticated) {
		p.Wrong, p.Remedy = "The token isn't known here, or counts no more.",
			"Check that it is whole and of this server. On the server's machine, tokens.yaml in the data directory has the tokens, and “jibe ui” makes a link that logs in."
		refuse(r, "wrong credentials for the web page")
		return s.renderStatus(w, r, http.StatusUnauthorized, "login", p)
	}
	if err != nil {
		return err
	}
	return s.admit(w, r, who, c, p)
}

// byCode opens the session of a login link.
func (s *Service) byCode(w http.ResponseWriter, r *http.Request, text string, p loginPage) error {
	c, ok := s.sessions.take(text)
	if !ok {
		p.Wrong, p.Remedy = "The link was used already, or is too old.", "Make another one with “jibe ui”: each is good for one login within two minutes."
		refuse(r, "a login link that was used already, or is too old")
		return s.renderStatus(w, r, http.StatusUnauthorized, "login", p)
	}
	who, err := s.Gate.Again(r, c.credential)
	if err != nil {
		return err
	}
	return s.admit(w, r, who, c.credential, p)
}

// admit opens a session, unless the page isn't for the caller.
func (s *Service) admit(w http.ResponseWriter, r *http.Request, who auth.Identity, c Credential, p loginPage) error {
	audit.Note(r.Context(), func(rec *audit.Record) {
		rec.Action, rec.Identity, rec.Issuer = "login", who.Name, who.Issuer
	})
	if who.Interface == auth.SOL002 || who.EM != "" {
		p.Wrong, p.Remedy = "This token is an element manager's or a VNF's, which the page is not for.", "Log in with the token of a person."
		refuse(r, who.String()+" is confined to the interface of SOL002, which has no web page")
		return s.renderStatus(w, r, http.StatusForbidden, "login", p)
	}
	if !who.MayAnywhere(auth.Viewer) {
		p.Wrong, p.Remedy = "You may see nothing here: "+who.String()+" has no role.", "Ask an administrator for one."
		refuse(r, who.String()+" may do: "+who.Describe())
		return s.renderStatus(w, r, http.StatusForbidden, "login", p)
	}
	if old, err := r.Cookie(s.cookieName("session")); err == nil { // of somebody else, maybe
		if x, ok := s.sessions.get(old.Value, false); ok {
			s.sessions.end(x)
		}
	}
	id, _ := s.sessions.open(who, c)
	s.setCookie(w, "session", id)
	http.Redirect(w, r, p.Back, http.StatusSeeOther)
	return nil
}

// logout ends the session. Who has none is logged out already.
func (s *Service) logout(w http.ResponseWriter, r *http.Request) error {
	audit.Note(r.Context(), func(rec *audit.Record) { rec.Action = "logout" })
	v, err := s.visitor(r)
	switch {
	case errors.Is(err, auth.ErrUnauthenticated): // nothing to end
	case err != nil:
		return err
	default:
		if err := v.checkForm(w, r); err != nil {
			return err
		}
		if v.session != nil {
			s.sessions.end(v.session)
		}
	}
	s.setCookie(w, "session", "")
	http.Redirect(w, r, Root+"/login", http.StatusSeeOther)
	return nil
}

// Link is the answer to a request for a login link.
type Link struct {
	// Path leads to the page, and logs in, once.
	Path string `json:"path"`
	// Seconds are how long the link is good; 0 is for ever, where no login is needed.
	Seconds int `json:"seconds"`
}

// ErrNoLink is returned where a caller's credential can't be handed to a browser.
var ErrNoLink = errors.New("a certificate can't be handed to a browser: import it there and open the page, or use a token")

// Link makes a login link for the caller of an API's request, who is who: it opens a session
// with the credential of that request.
func (s *Service) Link(r *http.Request, who auth.Identity) (Link, error) {
	for _, name := range []string{"Authorization", "X-Auth-Token"} {
		if value := r.Header.Get(name); value != "" {
			text := s.sessions.newCode(who, Credential{name, value})
			return Link{Path: Root + "/login?" + url.Values{"code": {text}}.Encode(), Seconds: int(codeLife.Seconds())}, nil
		}
	}
	if who.Issuer == auth.IssuerNone {
		return Link{Path: Root + "/"}, nil
	}
	return Link{}, ErrNoLink
}
