package process_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/nfvo"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/published"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// newGranted is a process with two VIMs whose operations an NFVO grants; more are further lines
// of its settings.
func newGranted(t *testing.T, more string, args ...string) (*forge, *nfvo.Server) {
	t.Helper()
	n := nfvo.New(t)
	f := &forge{t: t, Server: process.Start(t, filepath.Join(t.TempDir(), "data"), args...)}
	f.PushPackages(t, []string{webapp}, process.Root()+"/examples/packages/webapp")
	f.work = process.NewWorkTree(t, f.Desired())
	f.push(twoVIMs("a"))
	f.push(map[string]string{
		"peers.yaml":    "- {name: nfvo-a, type: nfvo, endpoint: \"" + n.URL + "\"}\n",
		"granting.yaml": "nfvo:\n  name: nfvo-a\n" + more,
	})
	return f, n
}

// makes creates an instance by the API and returns its id.
func (f *forge) makes() string {
	f.t.Helper()
	return f.Want(f.t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": webapp}, nil).ID()
}

// asks has the API begin an operation and returns its id.
func (f *forge) asks(id, task string, body any) string {
	f.t.Helper()
	return f.Ask(f.t, id, task, body)
}

// simple is the request to instantiate the example.
var simple = map[string]any{"flavourId": "simple"}

// granted is the instance's granted.yaml at head, "" where there is none.
func (f *forge) granted(dir string) string {
	f.t.Helper()
	f.work.Reset()
	b, err := os.ReadFile(filepath.Join(f.work.Dir(), dir, desired.GrantedFile))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	return string(b)
}

// inZone grants all units one zone.
func inZone(zone string) func(nfvo.Ask) nfvo.Decision {
	return func(nfvo.Ask) nfvo.Decision {
		return nfvo.Decision{
			With: map[string]any{"zones": []any{map[string]any{"id": "z", "zoneId": zone}}},
			Each: func(resource, info map[string]any) {
				if resource["type"] == "COMPUTE" {
					info["zoneId"] = "z"
				}
			},
		}
	}
}

// shownOp is an operation with what it says of its grant.
type shownOp struct {
	process.Operation
	GrantID string                           `json:"grantId"`
	Links   map[string]struct{ Href string } `json:"_links"`
}

func TestOperationsFromEveryDoorAreGrantedByTheNFVOAndWhatItSaysStandsInGit(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	published.Held(t)
	f, n := newGranted(t, "")
	var later atomic.Bool
	n.Decide(func(a nfvo.Ask) nfvo.Decision {
		d := inZone("zone-1")(a)
		if later.Swap(false) {
			d.Later = 1
		}
		return d
	})
	id := f.makes()
	dir := desired.APIDir(id)
	later.Store(true)
	op := f.asks(id, "instantiate", simple)
	f.Await(t, op, "COMPLETED")
	var shown shownOp
	f.Want(t, http.StatusOK, http.MethodGet, process.Operations+"/"+op, nil, &shown)
	if shown.GrantID == "" || !strings.HasSuffix(shown.Links["grant"].Href, shown.GrantID) || n.Polls() == 0 {
		t.Errorf("it shows the grant %q at %q, after %d polls", shown.GrantID, shown.Links["grant"].Href, n.Polls())
	}
	if got := f.granted(dir); !strings.Contains(got, "zone-1") || !strings.HasPrefix(got, "#") {
		t.Errorf("granted.yaml says %q", got)
	}
	log, err := process.Git(t.Context(), f.work.Dir(), "log", "-1", "--format=%B")
	if err != nil || !strings.Contains(log, "Grant: "+shown.GrantID) || !strings.Contains(log, "Vnf-Lcm-Op-Occ: "+op) {
		t.Errorf("the commit says %q, %v", log, err)
	}
	ask := n.Asked()[0]
	if ask.Text("operation") != "INSTANTIATE" || len(ask.Of("addResources", "VDU1")) != 1 || len(ask.Of("addResources", "VDU2")) != 1 || ask.Text("flavourId") != "simple" {
		t.Errorf("it was asked for %v", ask.Body)
	}

	// A scale-out by the API, then one by a commit: nothing new is granted, so nothing is committed.
	before := f.granted(dir)
	f.Await(t, f.asks(id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}), "COMPLETED")
	f.vnf(dir)
	text := f.work.Read(dir + "/vnf.yaml")
	f.push(map[string]string{dir + "/vnf.yaml": strings.Replace(text, "vdu1_aspect: 1", "vdu1_aspect: 2", 1)})
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, SCALE COMPLETED")
	asked := n.Asked()
	if len(asked) != 3 || asked[2].Text("operation") != "SCALE" || len(asked[2].List("addResources")) != 1 || f.granted(dir) != before {
		t.Errorf("%d requests, the last for %v; granted.yaml is %q", len(asked), asked[len(asked)-1].Body, f.granted(dir))
	}

	// Nobody but Jibe writes what was granted.
	f.refused(map[string]string{dir + "/granted.yaml": strings.Replace(before, "zone-1", "zone-9", 1)}, dir+"/granted.yaml", "only Jibe writes")
	f.refused(map[string]string{"instances/copy/vnf.yaml": amfText, "instances/copy/granted.yaml": before}, "instances/copy/granted.yaml", "remove the file")

	// A refusal leaves all as it was, for a commit and for a request, and asks for nothing more.
	n.Decide(func(nfvo.Ask) nfvo.Decision { return nfvo.Decision{Refused: "the site is full"} })
	op = f.asks(id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"})
	if got := f.Await(t, op, "ROLLED_BACK"); got.Error.Status != http.StatusForbidden || got.Error.Detail != "the site is full" {
		t.Errorf("it failed with %+v", got.Error)
	}
	f.restored(dir, "vdu1_aspect: 2")
	f.push(map[string]string{dir + "/vnf.yaml": strings.Replace(text, "vdu1_aspect: 1", "vdu1_aspect: 3", 1)})
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, SCALE COMPLETED, SCALE ROLLED_BACK, SCALE ROLLED_BACK")
	f.restored(dir, "vdu1_aspect: 2")
	if n := len(n.Asked()); n != 5 {
		t.Errorf("it was asked %d times, want 5", n)
	}

	// What uses no resources isn't granted.
	f.Want(t, http.StatusAccepted, http.MethodPatch, process.Instances+"/"+id, map[string]any{"vnfInstanceName": "x"}, nil, "Content-Type", "application/merge-patch+json")
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, SCALE COMPLETED, SCALE ROLLED_BACK, SCALE ROLLED_BACK, MODIFY_INFO COMPLETED")
	if n := len(n.Asked()); n != 5 {
		t.Errorf("it was asked %d times, want 5", n)
	}

	// A termination is granted too, and takes along what was.
	n.Decide(inZone("zone-1"))
	f.Await(t, f.asks(id, "terminate", map[string]any{"terminationType": "FORCEFUL"}), "COMPLETED")
	if last := n.Asked()[5]; len(last.List("removeResources")) != 4 || last.List("removeResources")[0]["resource"] == nil {
		t.Errorf("it was asked for %v", last.Body)
	}
	if got := f.granted(dir); got != "" {
		t.Errorf("granted.yaml is left: %s", got)
	}
	n.Decide(inZone("zone-2"))
	f.Await(t, f.asks(id, "instantiate", simple), "COMPLETED")
	if got := f.granted(dir); strings.Contains(got, "zone-1") || !strings.Contains(got, "zone-2") {
		t.Errorf("granted.yaml says %q", got)
	}
	metrics := string(f.Want(t, http.StatusOK, http.MethodGet, "/metrics", nil, nil).Body)
	for _, want := range []string{`jibe_grant_duration_seconds_count{by="nfvo",result="granted"}`, `{by="nfvo",result="refused"} 2`, `{by="nfvo",result="later"} 2`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics don't say %s", want)
		}
	}
}

// restored waits until the instance's file has the words at head.
func (f *forge) restored(dir, words string) {
	f.t.Helper()
	kit.Eventually(f.t, func() error {
		f.work.Reset()
		if text := f.work.Read(dir + "/vnf.yaml"); !strings.Contains(text, words) {
			return fmt.Errorf("the file has no %q: %s", words, text)
		}
		return nil
	})
}

func TestAnInstanceRunsAtTheVIMThatTheNFVOGrants(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	f, n := newGranted(t, "")
	n.Decide(func(nfvo.Ask) nfvo.Decision {
		return nfvo.Decision{With: map[string]any{"vimConnectionInfo": map[string]any{"theirs": map[string]any{"vimType": "sim", "vimId": "b"}}}}
	})
	f.push(map[string]string{amfDir + "/vnf.yaml": amfText})
	id := desired.DeriveID(amfDir)
	f.becomes(id, "INSTANTIATE COMPLETED")
	var in struct {
		VimConnectionInfo map[string]any `json:"vimConnectionInfo"`
	}
	f.Want(t, http.StatusOK, http.MethodGet, process.Instances+"/"+id, nil, &in)
	if len(in.VimConnectionInfo) != 1 || in.VimConnectionInfo["b"] == nil {
		t.Errorf("it is shown to run at %v", in.VimConnectionInfo)
	}
	if got := f.granted(amfDir); !strings.Contains(got, "vim: b\n") {
		t.Errorf("granted.yaml says %q", got)
	}
	f.refused(map[string]string{"vims/b.yaml": ""}, "vims/b.yaml", "1 instance runs at VIM b")
	f.vnf(amfDir)
	f.push(map[string]string{amfDir + "/vnf.yaml": f.work.Read(amfDir+"/vnf.yaml") + "levels: {vdu1_aspect: 1}\n"})
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED")
	f.vnf(amfDir)
	f.push(map[string]string{amfDir + "/vnf.yaml": f.work.Read(amfDir+"/vnf.yaml") + "state: notInstantiated\n"})
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, TERMINATE COMPLETED")
	if got := f.granted(amfDir); got != "" {
		t.Errorf("granted.yaml is left: %s", got)
	}
}

func TestAnNFVOThatIsAwayOrWrongEndsAnOperationWithTheReason(t *testing.T) {
	testenv.Chaos(t, "git") // alone: it judges times
	f, n := newGranted(t, "", "--start-timeout", "3s")
	refused := "not done within 3s; the last error was: the NFVO gives no answer: POST " + n.URL + "/grant/v1/grants was answered with 502 Bad Gateway"
	var asks []nfvo.Ask
	for _, c := range []struct {
		name  string
		asks  int // at least
		raw   http.HandlerFunc
		words string
	}{
		{"away", 2, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, refused},
		{"wrong", 1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"id":"g","vnfInstanceId":"somebody else"}`))
		}, "somebody else"},
	} {
		n.Decide(func(nfvo.Ask) nfvo.Decision { return nfvo.Decision{Raw: c.raw} })
		var id, op string
		var got process.Operation
		for range 5 {
			id = f.makes()
			op = f.asks(id, "instantiate", simple)
			got = f.Await(t, op, "ROLLED_BACK")
			// Where the machine stood still for most of the time, fewer questions were answered within it.
			if asks = askedFor(n, op); len(asks) >= c.asks && !strings.Contains(got.Error.Detail, "the NFVO hasn't decided yet") {
				break
			}
		}
		if !strings.Contains(got.Error.Detail, c.words) {
			t.Errorf("%s: it says %q", c.name, got.Error.Detail)
		}
		if c.asks > 1 {
			if len(asks) < c.asks {
				t.Fatalf("it was asked %d times", len(asks))
			}
			if first, again := asks[0].Body, asks[1].Body; !sameJSON(t, first, again) {
				t.Errorf("a request that is repeated asks for something else: %v, %v", first, again)
			}
		}
		if out, _ := f.cli("get", "operation", op); c.name == "away" && !strings.Contains(out, "wait for the grant") {
			t.Errorf("nobody is told what it waited for:\n%s", out)
		}
		f.restored(desired.APIDir(id), "state: notInstantiated")
	}
}

// askedFor are the requests for the grant of an operation.
func askedFor(n *nfvo.Server, op string) []nfvo.Ask {
	return slices.DeleteFunc(n.Asked(), func(a nfvo.Ask) bool { return a.Text("vnfLcmOpOccId") != op })
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return string(x) == string(y)
}

// knows waits until the process has read an instance's directory as the work tree's last commit has it.
func (f *forge) knows(dir string) {
	f.t.Helper()
	tree := f.work.For(f.t).Git("rev-parse", "HEAD:"+dir)
	kit.Eventually(f.t, func() error {
		var list []desired.Revision
		if err := f.Get(f.t.Context(), "/jibe/v1/instances", &list); err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(r desired.Revision) bool { return r.Dir == dir && r.Tree == tree }) {
			return fmt.Errorf("tree %s of %s isn't known: %+v", tree, dir, list)
		}
		return nil
	})
}

// waits waits until the operation shows that it waits for what, in the API and in the list of the
// command line client, and returns since when.
func (f *forge) waits(op, what string) (since string) {
	f.t.Helper()
	kit.Eventually(f.t, func() error {
		var shown struct {
			Jibe struct {
				Waiting struct{ For, Since string } `json:"waiting"`
			} `json:"jibe"`
		}
		if err := f.Get(f.t.Context(), process.Operations+"/"+op, &shown); err != nil {
			return err
		}
		if w := shown.Jibe.Waiting; w.For != what || w.Since == "" {
			return fmt.Errorf("it waits for %q since %q, want %q", w.For, w.Since, what)
		}
		since = shown.Jibe.Waiting.Since
		return nil
	})
	out, _ := f.cli("get", "operations", "-o", "wide")
	if line, _ := lineOf(out, op); !strings.Contains(line, "waits since ") || !strings.Contains(line, "for the grant of nfvo-a") {
		f.t.Errorf("the list says:\n%s", out)
	}
	return since
}

func TestWhileAGrantIsAwaitedAKillLosesNothingACancelEndsItAndANewerCommitTakesItsPlace(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f, n := newGranted(t, "  wait: 1h\n")
	held := func(a nfvo.Ask) nfvo.Decision {
		d := inZone("zone-1")(a)
		d.Later = 1 << 30
		return d
	}
	n.Decide(func(nfvo.Ask) nfvo.Decision {
		return nfvo.Decision{Raw: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }}
	})
	id := f.makes()
	op := f.asks(id, "instantiate", simple)
	since := f.waits(op, "the grant of nfvo-a: the NFVO gives no answer: POST "+n.URL+"/grant/v1/grants was answered with 502 Bad Gateway")
	n.Decide(held)
	polled := func(more int) {
		t.Helper()
		from := n.Polls()
		kit.Eventually(t, func() error {
			if now := n.Polls(); now < from+more {
				return fmt.Errorf("it was polled %d times", now-from)
			}
			return nil
		})
	}
	polled(1)
	before := len(n.Asked())
	f.Kill()
	data := f.Data
	f.Server = process.Start(t, data)
	polled(1)
	if again := len(n.Asked()) - before; again != 0 {
		t.Errorf("it was asked %d times more after a restart", again)
	}
	if now := f.waits(op, "the grant of nfvo-a, who will decide later"); now != since {
		t.Errorf("it waits since %s, and waited since %s", now, since)
	}
	f.Want(t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+op+"/cancel", map[string]any{"cancelMode": "FORCEFUL"}, nil)
	f.Await(t, op, "ROLLED_BACK")
	f.restored(desired.APIDir(id), "state: notInstantiated")
	if out, _ := f.cli("get", "operations", "-o", "wide"); strings.Contains(out, "waits since") {
		t.Errorf("it waits still:\n%s", out)
	}

	// A commit whose grant is awaited, and another one on top of it.
	var asked atomic.Int32
	pushed := make(chan struct{})
	n.Decide(func(a nfvo.Ask) nfvo.Decision {
		d := inZone("zone-1")(a)
		if asked.Add(1) == 1 {
			d.Until = pushed
		}
		return d
	})
	f.push(map[string]string{amfDir + "/vnf.yaml": amfText})
	amf := desired.DeriveID(amfDir)
	kit.Eventually(t, func() error {
		if asked.Load() == 0 {
			return fmt.Errorf("it wasn't asked")
		}
		return nil
	})
	f.vnf(amfDir)
	f.push(map[string]string{amfDir + "/vnf.yaml": f.work.Read(amfDir+"/vnf.yaml") + "levels: {vdu1_aspect: 1}\n"})
	f.knows(amfDir)
	close(pushed)
	f.becomes(amf, "INSTANTIATE ROLLED_BACK, INSTANTIATE COMPLETED")
	if in := f.vnf(amfDir); in.Levels["vdu1_aspect"] != 1 || !strings.Contains(f.granted(amfDir), "zone-1") {
		t.Errorf("the newer commit came to %+v, %s", in, f.granted(amfDir))
	}
}

func TestOnAForgeABrokenGrantingFileLeavesTheLastGoodOneInForceAndAForeignGrantIsNotObeyed(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newForge(t)
	f.push(map[string]string{amfDir + "/vnf.yaml": amfText, "granting.yaml": "policy:\n  - name: kept\n    operations: [SCALE]\n    deny: true\n"})
	id := desired.DeriveID(amfDir)
	f.becomes(id, "INSTANTIATE COMPLETED")
	f.push(map[string]string{"granting.yaml": "policy: none\n"})
	if p := f.until("must be a list"); p.File != "granting.yaml" {
		t.Errorf("the problem is %+v", p)
	}
	op := f.Await(t, f.asks(id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}), "ROLLED_BACK")
	if !strings.Contains(op.Error.Detail, `rule "kept"`) {
		t.Errorf("it says %q", op.Error.Detail)
	}
	f.restored(amfDir, "vnfdId")
	f.push(map[string]string{"granting.yaml": ""})
	f.until("")
	f.push(map[string]string{amfDir + "/granted.yaml": "vdus: {VDU1: {zones: [mine]}}\n"})
	f.until("only Jibe writes")
	f.push(map[string]string{amfDir + "/granted.yaml": ""})
	f.until("")
	f.Await(t, f.asks(id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}), "COMPLETED")
}

func TestThePolicyInGitRefusesByItsRuleAndABrokenFileIsRefused(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newLocal(t)
	f.refused(map[string]string{"granting.yaml": "nfvo: {name: central}\n"}, `nfvo.name names "central", which isn't in peers.yaml`, "add it there")
	f.refused(map[string]string{"granting.yaml": "policy:\n  - name: small\n    maxVnfc: 2\n"}, "granting.yaml:3", `did you mean "maxVnfcs"`)
	f.push(map[string]string{"granting.yaml": "policy:\n  - name: small\n    flavours: [simple]\n    maxVnfcs: 3\n  - name: kept\n    operations: [TERMINATE]\n    deny: true\n"})
	id := f.makes()
	f.Await(t, f.asks(id, "instantiate", simple), "COMPLETED")
	f.Await(t, f.asks(id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}), "COMPLETED")
	for task, c := range map[string]struct {
		body  any
		words string
	}{
		"scale":     {map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}, `rule "small" in granting.yaml allows at most 3 VNFCs, and the VNF would have 4`},
		"terminate": {map[string]any{"terminationType": "FORCEFUL"}, `rule "kept" in granting.yaml refuses TERMINATE`},
	} {
		op := f.Await(t, f.asks(id, task, c.body), "ROLLED_BACK")
		if op.Error.Status != http.StatusForbidden || op.Error.Detail != c.words {
			t.Errorf("%s: it says %+v, want %q", task, op.Error, c.words)
		}
		f.restored(desired.APIDir(id), "vdu1_aspect: 1")
	}
}
