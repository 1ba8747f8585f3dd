package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// steps are what `jibe plan` prints of the directory, as JSON has it.
func (b *bench) steps(d *process.WorkTree, dir string, args ...string) (kind string, steps []string, preview object) {
	b.Helper()
	out, errs, code := b.cli(b.T, append([]string{"plan", d.Dir(), "-o", "json"}, args...)...)
	if code != 2 {
		b.Fatalf("jibe plan: exit code %d, want 2: %s%s", code, out, errs)
	}
	var verdict object
	if err := json.Unmarshal([]byte(out), &verdict); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for _, p := range verdict.list("previews") {
		if p.text("dir") != dir {
			continue
		}
		for _, s := range p.list("steps") {
			steps = append(steps, s.text("action")+" "+s.text("object"))
		}
		return p.text("operation"), steps, p
	}
	b.Fatalf("nothing of %s in %s", dir, out)
	return "", nil, nil
}

func TestThePreviewOfABranchIsWhatIsThenDone(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	arriving, leaving := b.coordinated()
	id, file, d := b.pushed(b.vnfdID(1), "levels: {web_aspect: 1}\n")
	d.Git("checkout", "--quiet", "-b", "upgrade")
	d.Replace(file, "vnfdId: "+b.vnfdID(1), "vnfdId: "+b.vnfdID(2))
	d.Replace(file, "levels: ", "update: {strategy: blueGreen, coordinate: {new: Scripts/new.sh, old: Scripts/old.sh}, drain: 100ms}\nlevels: ")
	d.Commit("Upgrade")
	var steps []string
	b.unmoved(id, func() {
		var kind string
		var preview object
		kind, steps, preview = b.steps(d, filepath.Dir(file), "--commit", "upgrade")
		if kind != "CHANGE_VNFPKG" {
			t.Errorf("the preview is of %s", kind)
		}
		in := "/" + b.namespace + "/"
		order := []string{"grant CHANGE_VNFPKG", "apply ConfigMap" + in + "settings-1", "apply Deployment" + in + "web-1",
			"hook coordinate_new", "apply Service" + in + "front", "hook coordinate_old", "drain drain", "delete Deployment" + in + "web"}
		at := -1
		for _, want := range order {
			i := slices.Index(steps, want)
			if i <= at {
				t.Errorf("%s is step %d, after step %d, of:\n%s", want, i, at, strings.Join(steps, "\n"))
			}
			at = i
		}
		said := fmt.Sprint(preview)
		for _, w := range []string{"release-2", image(2), "spec.selector"} {
			if !strings.Contains(said, w) {
				t.Errorf("the preview doesn't say %q:\n%s", w, said)
			}
		}
		if strings.Contains(said, "secret-of-2") || strings.Contains(said, "c2VjcmV0LW9mLTI") {
			t.Errorf("the preview tells a secret:\n%s", said)
		}
		out, errs, code := b.cli(t, "plan", d.Dir(), "--commit", "upgrade")
		if code != 2 || !strings.Contains(out, "CHANGE_VNFPKG") || !strings.Contains(out, "apply Deployment"+in+"web-1") {
			t.Errorf("jibe plan: %d: %s%s", code, out, errs)
		}
		t.Log(section(out, filepath.Dir(file)))
	})
	f := b.recorder()
	d.Git("checkout", "--quiet", "-B", "main", "origin/main")
	d.Git("merge", "--quiet", "--no-ff", "--no-edit", "upgrade")
	if out, err := d.TryPush(); err != nil {
		t.Fatalf("push: %v\n%s", err, out)
	}
	arriving.each(1, "exit 0")
	leaving.each(1, "exit 0")
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	b.foretold(f.record(), steps)
}

// foretold proves that what happened to the author's objects is what the steps said:
// nothing else was made, changed or deleted.
func (b *bench) foretold(s record, steps []string) {
	b.Helper()
	said := map[string]bool{}
	for _, step := range steps {
		action, what, _ := strings.Cut(step, " ")
		kind, name, _ := strings.Cut(what, "/"+b.namespace+"/")
		said[action+" "+kind+"/"+name] = true
	}
	did := map[string]bool{}
	seen := map[string]string{} // what an object says, by UID
	for _, x := range s {
		kind, name, _ := strings.Cut(x.name, "/")
		if kind == "Pod" || kind == "ReplicaSet" || kind == "EndpointSlice" || x.object.GetLabels()[instanceLabel] == "" || strings.HasPrefix(name, "jibe-") {
			continue // the cluster's own, and Jibe's
		}
		uid, now := string(x.object.GetUID()), content(x.object)
		was := seen[uid]
		seen[uid] = now
		switch {
		case x.event == watch.Deleted:
			did["delete "+x.name] = true
		case x.event != there && was != now:
			did["apply "+x.name] = true
		}
	}
	for what := range did {
		if !said[what] {
			b.Errorf("not foretold: %s", what)
		}
	}
	for what := range said {
		if (strings.HasPrefix(what, "apply ") || strings.HasPrefix(what, "delete ")) && !did[what] {
			b.Errorf("foretold, but not done: %s", what)
		}
	}
}
