package notify

import (
	"encoding/json"
	"errors"
	"net/url"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// FuzzRequest shows that no request that is accepted makes Jibe call anything but
// http and https, or panic when its filter is asked.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"callbackUri":"http://nfvo.example/cb"}`,
		`{"callbackUri":"https://[::1]:8443/cb?x=1","verbosity":"SHORT","filter":{"operationTypes":["SCALE"]}}`,
		`{"callbackUri":"file:///etc/passwd"}`,
		`{"callbackUri":"http://u:p@h/","authentication":{"authType":["BASIC"],"paramsBasic":{"userName":"u","password":"p"}}}`,
		`{"callbackUri":"HTTP://H","authentication":{"authType":["OAUTH2_CLIENT_CREDENTIALS"],"paramsOauth2ClientCredentials":{"clientId":"c","tokenEndpoint":"gopher://x"}}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var req Request
		if json.Unmarshal([]byte(body), &req) != nil {
			return
		}
		w, err := req.wanted()
		if err == nil {
			err = w.validate(nil)
		}
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		uris := []string{req.CallbackURI}
		if a := req.Authentication; a != nil && a.ClientCredentials != nil && a.AuthType[0] == ClientCredentials {
			uris = append(uris, a.ClientCredentials.TokenEndpoint)
		}
		for _, uri := range uris {
			u, err := url.Parse(uri)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
				t.Fatalf("accepted %q", uri)
			}
		}
		if w.Filter != nil {
			w.Filter.Match(oplog.Event{Type: oplog.CreatedEvent, Instance: "amf"})
		}
	})
}
