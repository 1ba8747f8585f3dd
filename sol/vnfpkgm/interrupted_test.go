package vnfpkgm_test

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// A process that is killed leaves files. Each case is what is on the disk at one moment of an
// upload, and what the next process makes of it.
func TestAnUploadThatWasInterruptedIsResolvedAtTheNextStart(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	e := setup(t)
	data := zipped(t, sample(t, "amf-id"))
	put := func(dir, id, kind, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, id+"."+kind), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]string{}
	for _, moment := range []string{"receiving", "noted", "received", "scratch", "committed", "cleared", "gone"} {
		ids[moment] = path.Base(e.create())
	}
	e.must(http.StatusAccepted, "PUT", "/vnf_packages/"+ids["committed"]+"/package_content", data)
	e.settled("/vnf_packages/" + ids["committed"])
	e.stopped()
	who := `{"by": "nfvo <nfvo@jibe.invalid>"}`
	put(e.config.Dir, ids["receiving"], "request", who)
	put(e.config.Dir, ids["receiving"], "part", "half")
	put(e.config.Dir, ids["noted"], "request", who)
	put(e.config.Dir, ids["received"], "request", who)
	put(e.config.Dir, ids["received"], "csar", string(zipped(t, sample(t, "smf-id"))))
	put(e.config.Dir, ids["scratch"], "request", who)
	put(e.config.Dir, ids["scratch"], "csar", string(zipped(t, sample(t, "upf-id"))))
	if err := os.MkdirAll(filepath.Join(e.config.Dir, ids["scratch"]+".scratch", "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(e.config.Dir, ids["committed"], "request", who) // the commit was made, and the archive is still there
	put(e.config.Dir, ids["committed"], "csar", string(data))
	put(e.config.Dir, ids["cleared"], "csar", string(data)) // refused or deleted, and half cleared
	put(e.config.Dir, "deleted-by-a-push", "request", who)
	put(e.config.Dir, "deleted-by-a-push", "csar", string(zipped(t, sample(t, "nobody-id"))))
	head := e.git(e.packages(), "rev-parse", "main:amf-id")
	e.start()
	kit.Until(t, "all is done", func() bool { return len(e.left()) == 0 })
	for moment, want := range map[string]string{
		"receiving": "CREATED", "noted": "CREATED", "received": "ONBOARDED", "scratch": "ONBOARDED", "committed": "ONBOARDED", "cleared": "CREATED", "gone": "CREATED",
	} {
		if a := e.settled("/vnf_packages/" + ids[moment]); a.field("onboardingState") != want {
			t.Errorf("%s: %s", moment, a.body)
		}
	}
	if e.git(e.packages(), "rev-parse", "main:amf-id") != head {
		t.Error("what was committed was changed")
	}
	if by := e.git(e.packages(), "log", "-1", "--format=%an", "--", "smf-id"); by != "nfvo" {
		t.Errorf("the author is %q", by)
	}
	if _, err := e.c.Find("nobody-id"); err == nil {
		t.Error("what nobody wants any more was onboarded")
	}
}

func TestAnArchiveIsFetchedFromItsURI(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	data := zipped(t, sample(t, "amf-id"))
	var seen []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, "other "+r.Header.Get("Authorization"))
		_, _ = w.Write(data)
	}))
	defer other.Close()
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		seen = append(seen, user+":"+password)
		switch r.URL.Path {
		case "/amf.csar":
			_, _ = w.Write(data)
		case "/moved":
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/amf.csar", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/huge":
			w.Header().Set("Content-Length", "99999999999")
			_, _ = w.Write(data)
		case "/half":
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write(data)
		default:
			http.Error(w, "the secret of another service", http.StatusTeapot)
		}
	}))
	defer source.Close()
	e := setup(t, func(c *vnfpkgm.Config) { c.Egress = egress.Anywhere() })
	ask := func(path, uri string) answer {
		t.Helper()
		e.must(http.StatusAccepted, "POST", path+"/package_content/upload_from_uri", map[string]any{"addressInformation": uri, "userName": "me", "password": "pass-word-1"})
		return e.settled(path)
	}
	one := e.create()
	for uri, want := range map[string]string{"/none": "418", "/round": "redirects more", "/huge": "more than", "/half": "connection failed"} {
		if a := ask(one, source.URL+uri); a.field("onboardingState") != "ERROR" || !strings.Contains(a.field("onboardingFailureDetails"), want) || strings.Contains(string(a.body), "secret of") {
			t.Errorf("%s: %s", uri, a.body)
		}
	}
	seen = nil
	if a := ask(one, source.URL+"/amf.csar"); a.field("onboardingState") != "ONBOARDED" || strings.Join(seen, ",") != "me:pass-word-1" {
		t.Errorf("%v: %s", seen, a.body)
	}
	seen = nil
	if a := ask(e.create(), source.URL+"/moved"); a.field("onboardingState") != "ONBOARDED" || strings.Join(seen, ",") != "me:pass-word-1,other " {
		t.Errorf("%v: %s", seen, a.body)
	}
	two := e.create()
	for _, uri := range []string{"", "ftp://x/y", "file:///etc/passwd", "http://me:word@x/", "http://", "://"} {
		e.must(http.StatusBadRequest, "POST", two+"/package_content/upload_from_uri", map[string]any{"addressInformation": uri})
	}
	if left := e.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	// A process that is killed while it fetches goes on, and keeps the password unreadable meanwhile.
	e.stopped()
	sealed, err := e.config.Secrets.Encrypt("pass-word-1")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"by": "a <b>", "uri": source.URL + "/amf.csar", "userName": "me", "password": sealed})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.config.Dir, path.Base(two)+".request"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	seen = nil
	e.start()
	kit.Until(t, "it is fetched", func() bool { return len(e.left()) == 0 })
	if a := e.settled(two); a.field("onboardingState") != "ONBOARDED" || strings.Join(seen, ",") != "me:pass-word-1" {
		t.Errorf("%v: %s", seen, a.body)
	}
	if strings.Contains(e.logged.String(), "pass-word-1") {
		t.Error("the password is in the log")
	}

	// Unless somebody allows it, nothing is fetched from this machine, by whatever name.
	e.stopped()
	e.config.Egress = egress.New(egress.Options{PlainCredentials: true})
	e.start()
	port := source.URL[strings.LastIndexByte(source.URL, ':'):]
	three := e.create()
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "169.254.169.254", "[fd00:ec2::254]", "0.0.0.0"} {
		if a := ask(three, "http://"+host+port+"/amf.csar"); a.field("onboardingState") != "ERROR" || !strings.Contains(a.field("onboardingFailureDetails"), egress.NoAnswer) {
			t.Errorf("%s: %s", host, a.body)
		}
	}
}

func TestAnUnsignedPackageIsRefusedWhereSignaturesAreRequired(t *testing.T) {
	t.Parallel()

	e := setup(t, func(c *vnfpkgm.Config) { c.Trust = csar.Trust{Roots: x509.NewCertPool(), Required: true} })
	if _, a := e.onboard(zipped(t, sample(t, "amf-id"))); a.field("onboardingState") != "ERROR" || !strings.Contains(a.field("onboardingFailureDetails"), "takes only signed packages") {
		t.Errorf("%s", a.body)
	}
}
