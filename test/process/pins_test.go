package process_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// twoVIMs are two VIMs, of which the one called a is the default, or b.
func twoVIMs(byDefault string) map[string]string {
	files := map[string]string{}
	for _, name := range []string{"a", "b"} {
		files["vims/"+name+".yaml"] = "type: sim\nendpoint: https://" + name + ".example\n"
		if name == byDefault {
			files["vims/"+name+".yaml"] += "default: true\n"
		}
	}
	return files
}

// newLocal is a process with a desired repository of its own, whose hook refuses bad
// pushes, and two VIMs.
func newLocal(t *testing.T) *forge {
	t.Helper()
	f := &forge{t: t, Server: process.Start(t, filepath.Join(t.TempDir(), "data"))}
	f.PushPackages(t, []string{webapp}, process.Root()+"/examples/packages/webapp")
	f.work = process.NewWorkTree(t, f.Desired())
	f.push(twoVIMs("a"))
	return f
}

// refused pushes files, which must be refused with these words, and by jibe validate too.
func (f *forge) refused(files map[string]string, words ...string) {
	f.t.Helper()
	f.work.Reset()
	f.work.WriteFiles(files)
	said, code := f.cli("validate", f.work.Dir())
	f.work.Commit("A slip")
	out, err := f.work.TryPush()
	if err == nil || code == 0 {
		f.t.Errorf("the push: %v; jibe validate: exit code %d", err, code)
		return
	}
	pushed := strings.ReplaceAll(strings.ReplaceAll(out, "\n", " "), "remote: ", "")
	for _, w := range words {
		if !strings.Contains(pushed, w) {
			f.t.Errorf("the push doesn't say %q:\n%s", w, out)
		}
		if !strings.Contains(said, w) {
			f.t.Errorf("jibe validate doesn't say %q:\n%s", w, said)
		}
	}
}

// vnf is the instance's file at head.
func (f *forge) vnf(dir string) *desired.Instance {
	f.t.Helper()
	f.work.Reset()
	text := f.work.Read(dir + "/vnf.yaml")
	in, err := desired.ParseInstance(dir+"/vnf.yaml", []byte(text))
	if err != nil {
		f.t.Fatal(err)
	}
	return in
}

// ops are the instance's operations: "INSTANTIATE COMPLETED, …", the oldest first.
func (f *forge) ops(id string) string {
	f.t.Helper()
	type operation struct {
		process.Operation
		StartTime time.Time `json:"startTime"`
	}
	list, err := process.All[operation](f.t.Context(), f.Server, process.Operations)
	if err != nil {
		f.t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b operation) int { return a.StartTime.Compare(b.StartTime) })
	var out []string
	for _, op := range list {
		if op.Instance == id {
			out = append(out, op.Type+" "+op.State)
		}
	}
	return strings.Join(out, ", ")
}

// becomes waits until the instance's operations are these.
func (f *forge) becomes(id, want string) {
	f.t.Helper()
	kit.Eventually(f.t, func() error {
		if got := f.ops(id); got != want {
			return fmt.Errorf("operations of %s are %q, want %q", id, got, want)
		}
		return nil
	})
}

const (
	amfDir  = "instances/site/amf"
	amfText = "name: amf\nvnfdId: " + webapp + "\nflavour: simple\n"
)

func TestTheVIMIsPinnedAtInstantiationAndAnotherIsRefused(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newLocal(t)
	id := desired.DeriveID(amfDir)
	f.push(map[string]string{amfDir + "/vnf.yaml": amfText})
	f.becomes(id, "INSTANTIATE COMPLETED")
	if in := f.vnf(amfDir); in.VIM != "a" || in.Derived || in.Package == "" {
		t.Errorf("pinned are vim %q, package %q, id derived: %v", in.VIM, in.Package, in.Derived)
	}
	f.push(twoVIMs("b")) // the default moves
	file := func(change func(string) string) map[string]string {
		f.vnf(amfDir)
		text := f.work.Read(amfDir + "/vnf.yaml")
		return map[string]string{amfDir + "/vnf.yaml": change(text)}
	}
	elsewhere := file(func(s string) string { return strings.Replace(s, "vim: a\n", "vim: b\n", 1) })
	f.refused(elsewhere, amfDir+"/vnf.yaml:", "the VNF runs at VIM a, and can't be taken to VIM b", "terminate it first")
	if said, code := f.cli("plan", f.work.Dir()); code != 1 || !strings.Contains(said, "can't be taken to VIM b") {
		t.Errorf("jibe plan: exit code %d:\n%s", code, said)
	}
	f.push(file(func(s string) string { return strings.Replace(s, "vim: a\n", "", 1) })) // it is filled in again
	f.push(file(func(s string) string { return s + "levels: {vdu1_aspect: 1}\n" }))
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED")
	if in := f.vnf(amfDir); in.VIM != "a" {
		t.Errorf("the line was taken out, and the VIM is %q", in.VIM)
	}

	f.push(file(func(s string) string { return s + "state: notInstantiated\n" }))
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, TERMINATE COMPLETED")
	if in := f.vnf(amfDir); in.VIM != "" {
		t.Errorf("terminated, it has still the VIM %q that nobody named", in.VIM)
	}
	f.push(file(func(s string) string { return strings.Replace(s, "state: notInstantiated\n", "", 1) }))
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED, TERMINATE COMPLETED, INSTANTIATE COMPLETED")
	if in := f.vnf(amfDir); in.VIM != "b" {
		t.Errorf("instantiated again, it is at VIM %q, want the default of now", in.VIM)
	}
}

func TestTheAPIPinsTheVIMAndTakesThePinOutAtTermination(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newLocal(t)
	made := f.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": webapp}, nil)
	id := made.ID()
	do := func(task string, body any) {
		t.Helper()
		f.Await(t, f.Ask(t, id, task, body), "COMPLETED")
	}
	instantiate := map[string]any{"flavourId": "simple"}
	do("instantiate", instantiate)
	dir := desired.APIDir(id)
	if in := f.vnf(dir); in.VIM != "a" {
		t.Errorf("instantiated at VIM %q, want a to stand in git", in.VIM)
	}
	f.push(twoVIMs("b"))
	patch := map[string]any{"vimConnectionInfo": map[string]any{"vim1": map[string]any{"vimId": "b"}}}
	if a, err := f.Do(t.Context(), http.MethodPatch, process.Instances+"/"+id, patch, "Content-Type", "application/merge-patch+json"); err != nil || a.Status != http.StatusUnprocessableEntity {
		t.Errorf("PATCH to another VIM: %v, %v", a, err)
	}
	do("scale", map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"})
	do("terminate", map[string]any{"terminationType": "FORCEFUL"})
	if in := f.vnf(dir); in.VIM != "" {
		t.Errorf("terminated, it has still the VIM %q", in.VIM)
	}
	do("instantiate", instantiate)
	if in := f.vnf(dir); in.VIM != "b" {
		t.Errorf("instantiated again, it is at VIM %q", in.VIM)
	}
}

func TestAMoveKeepsTheVNFAsItsIDIsPinned(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newLocal(t)
	id := desired.DeriveID(amfDir)
	f.push(map[string]string{amfDir + "/vnf.yaml": amfText})
	f.becomes(id, "INSTANTIATE COMPLETED")
	f.vnf(amfDir)
	f.work.Git("mv", amfDir, "instances/elsewhere")
	f.work.Push("Move it")
	f.push(map[string]string{"instances/elsewhere/vnf.yaml": moved(t, f, "levels: {vdu1_aspect: 1}\n")})
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED")
	f.refused(map[string]string{"instances/elsewhere/vnf.yaml": amfText},
		"the id of a VNF that runs was changed", "put it back: id: "+id)
	f.refused(map[string]string{"instances/elsewhere/vnf.yaml": "", "instances/again/vnf.yaml": amfText},
		"moving instances/elsewhere without its id would terminate VNF instance "+id)
	f.refused(map[string]string{"instances/a/vnf.yaml": moved(t, f, "")}, "instances/a/vnf.yaml: id "+id+" is already that of instances/elsewhere/vnf.yaml")
}

// moved is the moved instance's file with more lines.
func moved(t *testing.T, f *forge, more string) string {
	t.Helper()
	f.vnf("instances/elsewhere")
	text := f.work.Read("instances/elsewhere/vnf.yaml")
	return text + more
}

func TestTwoInstancesOfOneNameAreAWarning(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newLocal(t)
	f.push(map[string]string{amfDir + "/vnf.yaml": amfText})
	f.becomes(desired.DeriveID(amfDir), "INSTANTIATE COMPLETED")
	f.vnf(amfDir)
	f.work.WriteFiles(map[string]string{"instances/site/other/vnf.yaml": amfText})
	said, code := f.cli("validate", f.work.Dir())
	if want := `instances/site/other/vnf.yaml:1: the name "amf" is also that of ` + amfDir; code != 0 || !strings.Contains(said, want) {
		t.Errorf("jibe validate: exit code %d:\n%s", code, said)
	}
	f.work.Push("Another of that name") // which isn't refused
}

func TestOnAForgeAnotherVIMForWhatRunsIsNotObeyed(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newForge(t)
	f.push(map[string]string{"vims/b.yaml": "type: sim\n", amfDir + "/vnf.yaml": amfText})
	id := desired.DeriveID(amfDir)
	f.becomes(id, "INSTANTIATE COMPLETED")
	f.vnf(amfDir)
	text := f.work.Read(amfDir + "/vnf.yaml")
	f.push(map[string]string{amfDir + "/vnf.yaml": strings.Replace(text, "vim: sim\n", "vim: b\nlevels: {vdu1_aspect: 1}\n", 1)})
	if p := f.until("can't be taken to VIM b"); p.Instance != id || p.Line == 0 {
		t.Errorf("the problem is %+v", p)
	}
	scale := map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}
	f.Want(t, http.StatusConflict, http.MethodPost, process.Instances+"/"+id+"/scale", scale, nil)
	f.push(map[string]string{amfDir + "/vnf.yaml": text + "levels: {vdu1_aspect: 1}\n"})
	f.becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED")
	f.until("")
}

func TestOnAForgeALostIDIsTakenOnlyWithJibeAccept(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newForge(t)
	f.push(map[string]string{amfDir + "/vnf.yaml": amfText})
	id := desired.DeriveID(amfDir)
	f.becomes(id, "INSTANTIATE COMPLETED")
	f.vnf(amfDir)
	const fresh = "77777777-7777-4777-8777-777777777777"
	f.push(map[string]string{amfDir + "/vnf.yaml": "id: " + fresh + "\n" + amfText})
	if p := f.until("the id of a VNF that runs was changed"); p.Instance != id {
		t.Errorf("the problem is %+v", p)
	}
	if out, _ := f.cli("get", "instances", "-o", "wide"); !strings.Contains(out, "not obeyed: the id of a VNF that runs was changed") || strings.Contains(out, fresh) {
		t.Errorf("jibe get instances:\n%s", out)
	}
	f.Want(t, http.StatusConflict, http.MethodPost, process.Instances+"/"+id+"/terminate", map[string]any{"terminationType": "FORCEFUL"}, nil)
	if out, code := f.cli("accept", "--yes"); code != 0 || !strings.Contains(out, "accepted: "+amfDir+"/vnf.yaml: the id of a VNF that runs was changed") {
		t.Errorf("jibe accept: exit code %d: %s", code, out)
	}
	f.becomes(id, "INSTANTIATE COMPLETED, TERMINATE COMPLETED")
	f.becomes(fresh, "INSTANTIATE COMPLETED")
	f.until("")
}
