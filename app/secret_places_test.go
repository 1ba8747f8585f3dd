package app_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// thief is an endpoint of an operator who would have secrets sent there.
type thief struct {
	url, ca string
	// asked counts the requests that reach it.
	asked atomic.Int32
}

func newThief(t *testing.T) *thief {
	x := &thief{}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		x.asked.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)
	x.url = s.URL
	x.ca = strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})), "\n", " ")
	return x
}

// connection is vimConnectionInfo with the endpoint and a token.
func (x *thief) connection(endpoint, token string) string {
	return fmt.Sprintf("vimConnectionInfo: {own: {vimType: kubernetes, interfaceInfo: {endpoint: %q, ssl_ca_cert: %q}, accessInfo: {bearer_token: %q}}}\n", endpoint, x.ca, token)
}

// running is an instance that would be instantiated, with more lines.
func running(name, more string) string {
	return "name: " + name + "\nvnfdId: " + process.SmallVnfd + "\nflavour: simple\n" + more
}

// sealed is a value for a place, as anybody encrypts it who knows the recipient.
func sealed(t *testing.T, data, clear string, scope secret.Scope) string {
	t.Helper()
	k, err := secret.Open(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := secret.EncryptFor(k.Recipient(), clear, scope)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// keepSecrets lays files with secrets into a data directory, and returns where they are.
func keepSecrets(t *testing.T, data string) (dir string) {
	t.Helper()
	dir = filepath.Join(data, "secrets")
	for _, name := range []string{"kube-a", "east/own", "east/kube-b", "eastern/other"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("hunter2-of-"+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestASecretGoesNowhereButWhereItMayBeUsed(t *testing.T) {
	kit.Long(t)
	t.Setenv("JIBE_SECRET_KUBE", "hunter2")
	t.Setenv("JIBE_SECRET_EAST_LB", "hunter2")
	x := newThief(t)
	data := projectsData(t)
	dir := keepSecrets(t, data)
	const good = "https://192.0.2.7:6443"
	old := sealed(t, data, "of-before", secret.Scope{})
	eastern, western := sealed(t, data, "eastern", secret.ForParams("east")), sealed(t, data, "western", secret.ForParams("west"))
	ofVIM := sealed(t, data, "of-a-vim", secret.ForVIMs())
	bound := sealed(t, data, "bound", secret.ForConnection("east", good))
	project := "instances: [east]\nrepositories: [packages, eastern]\nvims: ['*']\nnamespaces: ['east-*']\nsecrets: ['file:" + dir + "/east/', 'env:JIBE_SECRET_EAST_']\n"
	change(process.BareAt(t, filepath.Join(data, "desired.git")), map[string]string{
		"projects/east.yaml":            project,
		"vims/kube-a.yaml":              "type: kubernetes\nendpoint: " + good + "\ncredentials: {token: 'file:" + dir + "/kube-a'}\n",
		"vims/kube-b.yaml":              "type: kubernetes\nendpoint: " + good + "\ncredentials: {token: 'file:" + dir + "/east/kube-b'}\n",
		"instances/east/old/vnf.yaml":   fmt.Sprintf(notYet, "old") + "metadata: {}\n" + x.connection(good, "file:"+dir+"/kube-a"),
		"instances/east/older/vnf.yaml": strings.Replace(fmt.Sprintf(notYet, "older"), "namespace: a", "namespace: a, password: '"+old+"'", 1),
		"instances/west/theirs/vnf.yaml": strings.Replace(fmt.Sprintf(notYet, "theirs"), "namespace: a",
			"namespace: a, password: '"+western+"'", 1),
	})
	s := process.Start(t, data)
	s.AwaitPackages(t, process.SmallVnfd)
	p := newPushes(t, s, "desired.git")
	params := func(ref string) string {
		return running("evil", "params: {namespace: east-a, password: \""+ref+"\"}\n")
	}
	own := func(endpoint, ref string) string {
		return running("evil", "params: {namespace: east-a}\n"+x.connection(endpoint, ref))
	}
	const evil = "instances/east/evil/vnf.yaml"
	for name, a := range map[string]struct {
		files map[string]string
		says  []string
	}{
		"a VIM's file to an own endpoint":       {map[string]string{evil: own(x.url, "file:"+dir+"/kube-a")}, []string{"vimConnectionInfo.own.accessInfo.bearer_token", "vims/kube-a.yaml: credentials.token refers to, and instances never may"}},
		"a VIM's file that the project has":     {map[string]string{evil: own(x.url, "file:"+dir+"/east/kube-b")}, []string{"vims/kube-b.yaml"}},
		"a VIM's file by dots":                  {map[string]string{evil: params("file:" + dir + "/east/../east/kube-b")}, []string{"vims/kube-b.yaml"}},
		"the project's file to an own endpoint": {map[string]string{evil: own(x.url, "file:"+dir+"/east/own")}, []string{"needs the role admin", "--for connection --endpoint " + x.url}},
		"a file that begins alike":              {map[string]string{evil: params("file:" + dir + "/eastern/other")}, []string{"instances of project east may not refer to", "secrets in projects/east.yaml"}},
		"a file out of the prefix by dots":      {map[string]string{evil: params("file:" + dir + "/east/../eastern/other")}, []string{"instances of project east may not refer to"}},
		"a variable":                            {map[string]string{evil: params("env:JIBE_SECRET_KUBE")}, []string{"params.password: instances of project east may not refer to env:JIBE_SECRET_KUBE"}},
		"a variable for a coordination hook":    {map[string]string{evil: running("evil", "params: {namespace: east-a}\nupdate: {coordinate: {params: {note: 'env:JIBE_SECRET_KUBE'}}}\n")}, []string{"update.coordinate.params.note"}},
		"another project's value":               {map[string]string{evil: params(western)}, []string{"is for parameters of instances in project west, and not for parameters of instances in project east", "--project east"}},
		"another project's to an own endpoint":  {map[string]string{evil: own(x.url, western)}, []string{"is for parameters of instances in project west"}},
		"a VIM's value":                         {map[string]string{evil: params(ofVIM)}, []string{"is for files under vims/"}},
		"a VIM's value to an own endpoint":      {map[string]string{evil: own(x.url, ofVIM)}, []string{"is for files under vims/"}},
		"the own parameter to an own endpoint":  {map[string]string{evil: own(x.url, eastern)}, []string{"is for parameters of instances in project east, and not for vimConnectionInfo"}},
		"a value of another endpoint":           {map[string]string{evil: own(x.url, bound)}, []string{"with the endpoint " + good + ", and not for", x.url}},
		"a value for an endpoint, as parameter": {map[string]string{evil: params(bound)}, []string{"with the endpoint " + good + ", and not for parameters"}},
		"an old value":                          {map[string]string{evil: params(old)}, []string{"count only where they stand already", "--project east"}},
		"an old value to an own endpoint":       {map[string]string{evil: own(x.url, old)}, []string{"count only where they stand already"}},
		"an old value's field":                  {map[string]string{"instances/east/older/vnf.yaml": fmt.Sprintf(notYet, "older") + x.connection(x.url, old)}, []string{"count only where they stand already"}},
		"a standing file's endpoint":            {map[string]string{"instances/east/old/vnf.yaml": fmt.Sprintf(notYet, "old") + x.connection(x.url, "file:"+dir+"/kube-a")}, []string{"instances never may"}},
		"a grant of what would be held": {map[string]string{evil: fmt.Sprintf(notYet, "evil") + "held: 0d6c8c5a-4d6b-4b0b-8f10-2d6a37bb0f99\n", "instances/east/evil/granted.yaml": x.connection(x.url, "file:"+dir+"/kube-a")},
			[]string{"only Jibe writes what an NFVO has granted"}},
		"a standing id in another folder": {map[string]string{"instances/east/older/vnf.yaml": "", evil: params(old)}, []string{"count only where they stand already"}},
	} {
		err := p.pushed("east", name, a.files)
		if err == nil {
			t.Errorf("%s is taken", name)
			continue
		}
		for _, w := range append(a.says, "instances/east/") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: it doesn't say %q: %v", name, w, err)
			}
		}
	}
	// Who has both projects moves no value from one to the other.
	if err := p.pushed("both", "Move", map[string]string{"instances/west/theirs/vnf.yaml": "", "instances/east/theirs/vnf.yaml": "id: 0d6c8c5a-4d6b-4b0b-8f10-2d6a37bb0f11\n" +
		strings.Replace(fmt.Sprintf(notYet, "theirs"), "namespace: a", "namespace: a, password: '"+western+"'", 1)}); err == nil || !strings.Contains(err.Error(), "project west") {
		t.Errorf("a moved folder: %v", err)
	}
	if n := x.asked.Load(); n != 0 {
		t.Errorf("%d requests reached the thief", n)
	}

	for name, c := range map[string]struct {
		who   string
		files map[string]string
	}{
		"what stands, beside another change": {"east", map[string]string{
			"instances/east/old/vnf.yaml":   strings.Replace(fmt.Sprintf(notYet, "old2"), "\n", "\nmetadata: {}\n", 1) + x.connection(good, "file:"+dir+"/kube-a"),
			"instances/east/older/vnf.yaml": strings.Replace(fmt.Sprintf(notYet, "older2"), "namespace: a", "namespace: a, password: '"+old+"'", 1)}},
		"the project's file and variable": {"east", map[string]string{"instances/east/a/vnf.yaml": strings.Replace(fmt.Sprintf(notYet, "a"), "namespace: a", "namespace: a, p: 'file:"+dir+"/east/own', q: 'env:JIBE_SECRET_EAST_LB'", 1)}},
		"the project's value":             {"east", map[string]string{"instances/east/b/vnf.yaml": strings.Replace(fmt.Sprintf(notYet, "b"), "namespace: a", "namespace: a, password: '"+eastern+"'", 1)}},
		"a value for its endpoint":        {"east", map[string]string{"instances/east/c/vnf.yaml": fmt.Sprintf(notYet, "c") + x.connection(good+"/", bound)}},
		"an administrator's own endpoint": {"root", map[string]string{"instances/east/d/vnf.yaml": fmt.Sprintf(notYet, "d") + x.connection(good, "file:"+dir+"/east/own")}},
	} {
		if err := p.pushed(c.who, name, c.files); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, endpoint := range []string{x.url, "http://192.0.2.9"} {
		for dir, ref := range map[string]string{"c": bound, "d": "file:" + dir + "/east/own"} {
			if err := p.pushed("east", "Turn", map[string]string{"instances/east/" + dir + "/vnf.yaml": fmt.Sprintf(notYet, dir) + x.connection(endpoint, ref)}); err == nil {
				t.Errorf("%s of a standing credential is turned to %s", dir, endpoint)
			}
		}
	}
	for name, c := range map[string]struct{ file, text, says string }{
		"an old value in vims/":       {"vims/new.yaml", "type: kubernetes\nendpoint: " + good + "\ncredentials: {token: '" + old + "'}\n", "--for vim"},
		"a parameter's in vims/":      {"vims/new.yaml", "type: kubernetes\nendpoint: " + good + "\ncredentials: {token: '" + eastern + "'}\n", "--for vim"},
		"a VIM's value in peers.yaml": {"peers.yaml", "- {name: em, type: em, endpoint: 'https://192.0.2.3', credentials: {username: u, password: '" + ofVIM + "'}}\n", "--for settings"},
	} {
		if err := p.pushed("root", name, map[string]string{c.file: c.text}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What stands and couldn't come any more is found, and what can be fixed automatically is.
	unscoped, ofVIMs := "don't say what they are for: 1", "refer to what vims/ or peers.yaml refers to: instances/east/old/vnf.yaml"
	if out, errs, _ := s.CLI(t, "doctor", "--data", data); !strings.Contains(out, unscoped) || !strings.Contains(out, ofVIMs) {
		t.Errorf("doctor: %s%s", out, errs)
	}
	if out, errs, code := s.CLI(t, "secret", "rotate", "--data", data); code != 0 || !strings.Contains(out, "values encrypted anew: 4") {
		t.Errorf("rotate: %d %s%s", code, out, errs)
	}
	if out, errs, _ := s.CLI(t, "doctor", "--data", data); strings.Contains(out, unscoped) || !strings.Contains(out, ofVIMs) {
		t.Errorf("doctor after the rotation: %s%s", out, errs)
	}
	if err := p.pushed("east", "Copy", map[string]string{"instances/east/copy/vnf.yaml": strings.Replace(p.to.Read("instances/east/older/vnf.yaml"), "name: older2", "name: copy", 1)}); err != nil {
		t.Errorf("within the project, a value of the rotation: %v", err)
	}
}

func TestASecretMergedIntoAForeignPlaceIsSentNowhere(t *testing.T) {
	t.Parallel()
	x := newThief(t)
	data := process.ShortTempDir(t)
	lay(t, data, "packages")
	dir := keepSecrets(t, data)
	old := sealed(t, data, "of-before", secret.Scope{})
	bare := process.NewBare(t)
	files := map[string]string{
		"repositories.yaml":  "- {name: packages, url: packages.git, branch: main}\n",
		"projects/east.yaml": "instances: [east]\nrepositories: [packages]\nvims: ['*']\nnamespaces: ['east-*']\nsecrets: ['file:" + dir + "/east/']\n",
		"vims/lab.yaml":      "type: sim\ndefault: true\n",
	}
	bare.Change("Begin", files)
	addSmall(process.BareAt(t, filepath.Join(data, "packages", "packages.git")))
	s, stop := startWith(t, app.Options{Data: data, Remote: "file://" + bare.Dir, Cloud: sim.NewCloud(), Poll: time.Hour})
	defer stop()
	s.AwaitPackages(t, process.SmallVnfd)
	attacks := map[string]string{
		"file":  running("file", "params: {namespace: east-a}\n"+x.connection(x.url, "file:"+dir+"/east/own")),
		"old":   running("old", "params: {namespace: east-a}\n"+x.connection(x.url, old)),
		"idle":  fmt.Sprintf(notYet, "idle") + x.connection(x.url, "file:"+dir+"/east/own"),
		"param": running("param", "params: {namespace: east-a, password: '"+old+"'}\n"),
		"held":  fmt.Sprintf(notYet, "held") + "held: 0d6c8c5a-4d6b-4b0b-8f10-2d6a37bb0f99\n" + x.connection(x.url, "file:"+dir+"/east/own"),
		"grant": fmt.Sprintf(notYet, "grant") + "held: 0d6c8c5a-4d6b-4b0b-8f10-2d6a37bb0f98\n",
	}
	merged := map[string]string{"instances/east/grant/granted.yaml": x.connection(x.url, "file:"+dir+"/kube-a")}
	for name, text := range attacks {
		merged["instances/east/"+name+"/vnf.yaml"] = text
	}
	for name, text := range map[string]string{"asleep": attacks["file"], "asleep-held": attacks["held"], "asleep-grant": attacks["grant"]} {
		merged["instances/east/"+name+"/vnf.yaml"] = strings.Replace(text, "name: ", "suspend: true\nname: asleep-", 1)
	}
	merged["instances/east/asleep-grant/granted.yaml"] = merged["instances/east/grant/granted.yaml"]
	bare.Change("Merge", merged)
	poke(t, s)
	kit.Until(t, "each is held with the reason", func() bool {
		var list []struct{ File, Message string }
		if err := s.Get(t.Context(), "/jibe/v1/problems", &list); err != nil {
			return false
		}
		said, err := json.Marshal(list)
		if err != nil {
			return false
		}
		for name := range attacks {
			if !strings.Contains(string(said), "instances/east/"+name+"/") {
				return false
			}
		}
		return strings.Contains(string(said), "needs the role admin") && strings.Contains(string(said), "count only where they stand already")
	})
	// What was merged next builds on nothing that is held.
	bare.Change("Merge", map[string]string{"instances/east/idle/vnf.yaml": strings.Replace(attacks["idle"], "state: notInstantiated\n", "", 1)})
	poke(t, s)
	kit.Until(t, "the next merge is seen", func() bool {
		var list []struct{ File, Message string }
		return s.Get(t.Context(), "/jibe/v1/problems", &list) == nil && len(list) >= len(attacks)
	})
	var seen []struct{ ID string }
	if err := s.Get(t.Context(), "/vnflcm/v2/vnf_instances", &seen); err != nil || len(seen) < len(attacks)+3 {
		t.Errorf("%d instances are listed: %v", len(seen), err)
	}
	for _, v := range seen {
		var one json.RawMessage
		if err := s.Get(t.Context(), "/vnflcm/v2/vnf_instances/"+v.ID, &one); err != nil {
			t.Error(err)
		}
	}
	if n := x.asked.Load(); n != 0 {
		t.Errorf("%d requests reached the thief", n)
	}
	var ops []struct{ ID string }
	if err := s.Get(t.Context(), "/vnflcm/v2/vnf_lcm_op_occs", &ops); err != nil || len(ops) != 0 {
		t.Errorf("operations have begun: %v %v", ops, err)
	}
}
