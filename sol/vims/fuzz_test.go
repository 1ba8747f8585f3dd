package vims

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// FuzzRequest shows that whatever is sent is refused as the client's fault, or makes a file that
// can be read, changes nothing but what it names, and holds no credential in clear.
func FuzzRequest(f *testing.F) {
	const file = "# ours\ntype: openstack\nid: a\nendpoint: https://192.0.2.1/v3 # Keystone\nproject: nfv\ncredentials: {username: u, password: 'env:JIBE_P'}\n"
	for _, s := range []string{
		`{"vim":{"name":"x","type":"kubernetes","auth_url":"https://192.0.2.1:6443","vim_project":{"name":"default"},"auth_cred":{"bearer_token":"s3cr3t-in-clear"}}}`,
		`{"vim":{"name":"x","type":"openstack","auth_url":"http://h:5000/v3","vim_project":{"name":"nfv","project_domain_name":"Default"},"auth_cred":{"username":"u","password":"s3cr3t-in-clear","cert_verify":"False"},"is_default":true}}`,
		`{"vim":{"description":"a: \"b\"\n- c #","auth_cred":{"password":"s3cr3t-in-clear"}}}`,
		`{"vim":{"name":"../x","auth_cred":{"cert_verify":{}}}}`,
		`{"vim":{"type":"sim","auth_cred":{"ssl_ca_cert":"-----BEGIN CERTIFICATE-----\n"}}}`,
		`{"vim":null}`,
	} {
		f.Add(s)
	}
	keep := func(string, string) (string, error) { return "age:c2VhbGVk", nil }
	f.Fuzz(func(t *testing.T, text string) {
		req, err := read(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1.0/vims", strings.NewReader(text)))
		if err != nil {
			var invalid *rest.InvalidError
			if !errors.As(err, &invalid) || invalid.Status < 400 || invalid.Status > 499 {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		was, err := desired.ParseVIM(desired.VIMFile("x"), []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			v   *desired.VIM
			now []byte
		}{{&desired.VIM{Name: "x", ID: "made"}, nil}, {was, []byte(file)}} {
			next, err := req.apply(c.v, keep)
			var out []byte
			if err == nil {
				out, err = desired.EditVIM(next, c.now)
			}
			if err != nil {
				var invalid *rest.InvalidError
				var unfit *desired.InvalidError
				if !errors.As(err, &invalid) && !errors.As(err, &unfit) {
					t.Fatalf("refused with %v", err)
				}
				continue
			}
			back, err := desired.ParseVIM(desired.VIMFile("x"), out)
			if err != nil || !reflect.DeepEqual(back, next) {
				t.Fatalf("%s\nis read as %+v, %v, and not as %+v", out, back, err, next)
			}
			if c.now != nil && !strings.Contains(string(out), "# ours") {
				t.Fatalf("lost a comment:\n%s", out)
			}
			shown, err := json.Marshal(body(back, reachable))
			if err != nil || strings.Contains(string(shown), "age:") || strings.Contains(string(shown), "env:JIBE_P") {
				t.Fatalf("shown as %s, %v", shown, err)
			}
			if cred := req.AuthCred; cred != nil {
				for _, secret := range []string{cred.Password, cred.Token} {
					// A short text may well be a part of another word.
					if len(secret) > 8 && strings.Contains(string(out), secret) && !strings.Contains(file, secret) && !named(req, secret) {
						t.Fatalf("in clear:\n%s", out)
					}
				}
			}
		}
	})
}

// named says whether the client has written the text in a place that is shown, too.
func named(r *request, text string) bool {
	open := *r
	cred := *r.AuthCred
	cred.Password, cred.Token = "", ""
	open.AuthCred = &cred
	b, err := json.Marshal(open)
	return err == nil && strings.Contains(string(b), text)
}
