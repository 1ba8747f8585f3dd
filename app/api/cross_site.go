package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/ui"
)

// refuseCrossSite refuses requests that another site has had a browser send: a browser shows a client certificate, and
// credentials that a person once typed in, to any page that has a form sent here. The page judges its own requests by the same
// rule, and answers with a page. Only GET, HEAD and OPTIONS, which change nothing, and requests with a token in a header,
// which no foreign page can set without being asked for it first, come from anywhere.
func (s *API) refuseCrossSite(next http.Handler) (http.Handler, error) {
	protection := http.NewCrossOriginProtection()
	base, err := url.Parse(s.BaseURL)
	if err != nil {
		return nil, err
	}
	if base.Host != "" {
		if err := protection.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
			return nil, err
		}
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.InsecureDev && !ownHost(r.Host, base.Host) {
			audit.Note(r.Context(), func(r *audit.Record) { r.Reason = "a name that isn't this machine's" })
			answer.Problem(w, http.StatusForbidden, fmt.Sprintf("with --insecure-dev, only requests to this machine's own names are answered, and %q isn't one: use http://127.0.0.1 or http://localhost, or name it with --base-url", r.Host))
			return
		}
		page := r.URL.Path == ui.Root || strings.HasPrefix(r.URL.Path, ui.Root+"/")
		if page || hasTokenHeader(r) {
			next.ServeHTTP(w, r)
			return
		}
		if err := protection.Check(r); err != nil {
			audit.Note(r.Context(), func(r *audit.Record) { r.Reason = "another site had a browser send it" })
			answer.Problem(w, http.StatusForbidden, "another site had a browser send this request ("+err.Error()+"): send it with a token in the header Authorization or X-Auth-Token, or from Jibe's own address")
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// ownHost reports whether a request to this host was meant for this machine. A foreign page can have its own name point
// here for a moment (DNS rebinding), and is then of the same site for a browser; an address has no such name.
func ownHost(host, base string) bool {
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))

	return err == nil || host == base || strings.EqualFold(name, "localhost")
}

// hasTokenHeader reports whether the request has a token in a header. Basic credentials don't count: a browser that
// knows some adds them by itself.
func hasTokenHeader(r *http.Request) bool {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") || r.Header.Get("X-Auth-Token") != ""
}
