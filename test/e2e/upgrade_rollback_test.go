package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// unplaced are the pods that wait for the test to give them a node, at least one.
func (b *bench) unplaced() []string {
	b.Helper()
	var names []string
	kit.Eventually(b, func() error {
		for name, p := range b.pods() {
			if p.Spec.SchedulerName == "nobody" && p.Spec.NodeName == "" {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return fmt.Errorf("no pod waits for the test")
		}
		return nil
	})
	return names
}

// unpullable fails the pull of the image of release n in the pods that wait for a node,
// as a kubelet would say it.
func (b *bench) unpullable(n int) {
	b.Helper()
	for _, name := range b.unplaced() {
		b.kubelet(name, "ImagePullBackOff", `Back-off pulling image "`+image(n)+`"`, 0)
	}
}

// placing gives nodes to all pods that wait for the test, until done has no error.
func (b *bench) placing(done func() error) {
	b.Helper()
	kit.Eventually(b, func() error {
		for name, p := range b.pods() {
			if p.Spec.SchedulerName == "nobody" && p.Spec.NodeName == "" {
				// It may go in this moment.
				if err := b.place(name); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					return err
				}
			}
		}
		return done()
	})
}

// restored proves that a rollback left what was before: at the VIM, in git and in the API.
func (b *bench) restored(id, file, text string, before snapshot, same bool) {
	b.Helper()
	b.unchanged(before, same)
	d := b.clone(b.T, "desired.git")
	kit.Eventually(b, func() error {
		d.Pull()
		if now := d.Read(file); now != text {
			return fmt.Errorf("the file was\n%s\nand is\n%s", text, now)
		}
		return nil
	})
	b.versions(id, 1)
	b.sameWorkersSoon(id)
}

func TestABlueGreenChangeThatFailsBeforeTheSwitchIsTakenBackWithoutATrace(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	arriving, leaving := b.coordinated()
	id, file, d := b.pushed(b.vnfdID(1), "levels: {web_aspect: 1}\n")
	text, before := d.Read(file), b.snapshot(true)
	f := b.recorder()
	b.amend(d, file, "Upgrade", "vnfdId: "+b.vnfdID(1), "vnfdId: "+b.vnfdID(2), "levels: ",
		"update: {strategy: blueGreen, coordinate: {new: Scripts/new.sh, old: Scripts/old.sh}}\nlevels: ")
	arriving.each(1, "echo no licence >&2; exit 1")
	op := b.outcome(id, 1, "CHANGE_VNFPKG FAILED_TEMP")
	b.says(op, "no licence", "Scripts/new.sh")
	b.must(t, 409, "POST", instances+"/"+id+"/scale", scale("SCALE_OUT", "web_aspect", 1))

	b.must(t, 202, "POST", pathOf(op)+"/rollback", nil)
	input := leaving.each(1, "exit 0")
	if input.text("hook") != "coordinate_rollback" || input["isRollback"] != true || input.text("operation", "id") != op.text("id") {
		t.Errorf("the hook of the old VNF gets %v", input)
	}
	b.await(t, pathOf(op), "ROLLED_BACK")
	if got := f.record().flow("front"); got != "0" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	b.restored(id, file, text, before, true)
	if n := arriving.calls(); n != 1 {
		t.Errorf("the script of the new VNF was called %d times", n)
	}
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
}

func TestABlueGreenChangeThatFailsAfterTheSwitchIsSwitchedBackFirst(t *testing.T) {
	b := newStage(t)
	arriving, leaving := b.coordinated()
	id := b.runs(b.vnfdID(1))
	file := desired.APIDir(id) + "/vnf.yaml"
	text, before := b.clone(t, "desired.git").Read(file), b.snapshot(true)
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", b.byScript())
	arriving.each(1, "exit 0")
	leaving.each(1, "echo sessions are left >&2; exit 1")
	b.says(b.await(t, path, "FAILED_TEMP"), "sessions are left", "Scripts/old.sh")
	if got := f.record().flow("front"); got != "0, 1" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	b.must(t, 202, "POST", path+"/rollback", nil)
	input := leaving.called(2)
	if input.text("hook") != "coordinate_rollback" || input["isRollback"] != true {
		t.Errorf("the hook of the old VNF gets %v", input)
	}
	leaving.answer(2, "exit 0")
	op := b.await(t, path, "ROLLED_BACK")
	s := f.record()
	if got := s.flow("front"); got != "0, 1, 0" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	back := uint64(0)
	for _, m := range s.traffic("front") {
		if m.at > s.switched("front", "1") && len(m.pods) > 0 && s.pods()[m.pods[0]].GetLabels()[generationLabel] == "0" {
			back = m.at
			break
		}
	}
	if went := s.gone("Deployment/web-1"); back == 0 || went < back {
		t.Errorf("the Service was switched back at %d, what it had sent traffic to went at %d", back, went)
	}
	b.restored(id, file, text, before, true)
	if op["error"] == nil {
		t.Error("the operation doesn't say why it was rolled back")
	}
}

func TestANewImageThatCanNotBePulledLeavesTrafficAndARevertOfTheCommitTakesItBack(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), stuck(2))
	id, file, d := b.pushed(b.vnfdID(1), greenly)
	text, before := d.Read(file), b.snapshot(true)
	start := strings.TrimSpace(d.Git("rev-parse", "HEAD"))
	f := b.recorder()
	b.upgraded(d, file, 1, 2)
	b.unpullable(2)
	b.says(b.outcome(id, 1, "CHANGE_VNFPKG FAILED_TEMP"), "ImagePullBackOff", image(2))
	d.Pull()
	// The person's commit, and the one in which Jibe filled in what that left out.
	d.Git(append([]string{"revert", "--no-edit"}, strings.Fields(d.Git("log", "--format=%H", start+"..", "--", file))...)...)
	if out, err := d.TryPush(); err != nil {
		t.Fatalf("the revert: %v\n%s", err, out)
	}
	b.awaitHistory(id, "INSTANTIATE COMPLETED, CHANGE_VNFPKG ROLLED_BACK")
	if got := f.record().flow("front"); got != "0" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	b.restored(id, file, text, before, true)
}

func TestARollingChangeThatFailsIsTakenBackToTheObjectsThatWere(t *testing.T) {
	b := newStage(t)
	b.publish(standard(1), stuck(2))
	id, file, d := b.pushed(b.vnfdID(1), "levels: {web_aspect: 1}\n")
	text, before := d.Read(file), b.snapshot(false)
	web, front := b.read("Deployment/web").GetUID(), b.read("Service/front").GetUID()
	f := b.recorder()
	b.upgraded(d, file, 1, 2)
	b.unpullable(2)
	op := b.outcome(id, 1, "CHANGE_VNFPKG FAILED_TEMP")
	b.says(op, "ImagePullBackOff", "Deployment/"+b.namespace+"/web")
	if out, errs, code := b.cli(t, "rollback", op.text("id")); code != 0 {
		t.Fatalf("jibe rollback: %d: %s%s", code, out, errs)
	}
	b.await(t, pathOf(op), "ROLLED_BACK")
	b.restored(id, file, text, before, false)
	if b.read("Deployment/web").GetUID() != web || b.read("Service/front").GetUID() != front {
		t.Error("the Deployment or the Service is another one")
	}
	for _, m := range f.record().traffic("front") {
		if len(m.pods) == 0 {
			t.Errorf("at %d the Service had no endpoint", m.at)
		}
	}
	if n := b.level(id, "web_aspect"); n != 1 {
		t.Errorf("scale level %d, want 1", n)
	}
}

func TestAFailedUpgradeIsTakenBackByTheRevertOfItsOneLine(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), stuck(2))
	id, file, d := b.pushed(b.vnfdID(1), greenly)
	text, before := d.Read(file), b.snapshot(true)
	b.upgraded(d, file, 1, 2)
	commit := strings.TrimSpace(d.Git("rev-parse", "HEAD"))
	b.unpullable(2)
	b.outcome(id, 1, "CHANGE_VNFPKG FAILED_TEMP")
	d.Pull()
	d.Git("revert", "--no-edit", commit) // and not of what Jibe filled in
	if out, err := d.TryPush(); err != nil {
		t.Fatalf("the revert: %v\n%s", err, out)
	}
	b.awaitHistory(id, "INSTANTIATE COMPLETED, CHANGE_VNFPKG ROLLED_BACK")
	b.unchanged(before, true)
	b.versions(id, 1)
	kit.Eventually(t, func() error {
		d.Pull()
		if now := d.Read(file); now != text {
			return fmt.Errorf("the file was\n%s\nand is\n%s", text, now)
		}
		return nil
	})
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
}

func TestAnUpgradeThatWasFailedMakesRoomForTheNextWhichLeavesNothingOfIt(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), stuck(2), standard(3))
	id := b.runs(b.vnfdID(1))
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	b.unpullable(2)
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 200, "POST", path+"/fail", nil)
	b.await(t, path, "FAILED")
	b.versions(id, 1)
	kit.Stays(t, quiet, func() error {
		if got := f.record().flow("front"); got != "0" {
			return fmt.Errorf("the Service sent traffic to the generations %q", got)
		}
		return nil
	})
	b.server.run(t, id, "change_vnfpkg", b.changing(3, "Blue-Green"))
	b.awaitPods(3)
	if n := b.running(3); n != 3 {
		t.Errorf("%d pods run release 3, want 3", n)
	}
	s := f.record()
	if got := s.flow("front"); got != "0, 1" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	b.switchedOnce(s)
	b.only(id, "1")
	b.versions(id, 3)
	b.sameVNFCs(id)
	b.undrifted(id)
}

func TestACommitThatRepairsAFailedUpgradeTakesItsPlace(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), stuck(2), standard(3))
	id, file, d := b.pushed(b.vnfdID(1), greenly)
	f := b.recorder()
	b.upgraded(d, file, 1, 2)
	b.unpullable(2)
	b.outcome(id, 1, "CHANGE_VNFPKG FAILED_TEMP")
	b.upgraded(d, file, 2, 3)
	b.outcome(id, 2, "CHANGE_VNFPKG COMPLETED")
	if ops := b.history(t, id); ops[1].text("operationState") != "FAILED" {
		t.Errorf("the operation that was superseded is %s", ops[1].text("operationState"))
	}
	b.awaitPods(3)
	if n := b.running(3); n != 3 {
		t.Errorf("%d pods run release 3, want 3", n)
	}
	s := f.record()
	if got := s.route("front", imageOf); got != image(1)+", "+image(3) {
		t.Errorf("the Service sent traffic to %q", got)
	}
	b.switchedOnce(s)
	b.versions(id, 3)
	b.sameVNFCs(id)
	b.undrifted(id)
}

func TestARevertOfAnUpgradeThatIsDoneSwitchesBack(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), standard(2))
	id, file, d := b.pushed(b.vnfdID(1), greenly)
	text, before := d.Read(file), b.snapshot(false)
	b.upgraded(d, file, 1, 2)
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	f := b.recorder()
	d.Pull()
	d.Write(file, text)
	d.Push("Back to what was")
	b.outcome(id, 2, "CHANGE_VNFPKG COMPLETED")
	b.cleanly(f.record(), "1", "0")
	b.only(id, "0")
	b.restoredNames(before)
	b.versions(id, 1)
	b.sameVNFCs(id)
}

// restoredNames compares what there is by name alone: a second switch makes everything anew.
func (b *bench) restoredNames(before snapshot) {
	b.Helper()
	kit.Eventually(b, func() error {
		after := b.snapshot(false)
		for name := range before {
			if _, ok := after[name]; !ok {
				return fmt.Errorf("%s is gone", name)
			}
		}
		for name := range after {
			if _, ok := before[name]; !ok {
				return fmt.Errorf("%s is left over", name)
			}
		}
		return nil
	})
}

func TestARollingChangeThatFailsAfterItsPruningGetsBackWhatItHadPruned(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	coordinate, text := b.scripted()
	first, second := standard(1), standard(2)
	first.beside += "---\n{apiVersion: v1, kind: Service, metadata: {name: back-door}, spec: {type: NodePort, selector: {app: back}, ports: [{name: http, port: 81}]}}\n"
	second.files = map[string]string{"Scripts/new.sh": text}
	b.publish(first, second)
	id := b.runs(b.vnfdID(1))
	before, door := b.snapshot(false), b.read("Service/back-door")
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "RollingUpdate", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh"))
	coordinate.each(1, "echo it is not well >&2; exit 1")
	b.says(b.await(t, path, "FAILED_TEMP"), "it is not well")
	if _, still := b.made(id)["Service/back-door"]; still {
		t.Fatal("nothing was pruned before the script ran")
	}
	b.must(t, 202, "POST", path+"/rollback", nil)
	b.await(t, path, "ROLLED_BACK")
	spec := func(u *unstructured.Unstructured) string {
		s := u.Object["spec"].(map[string]any)
		return fmt.Sprint(s["clusterIP"], s["ports"])
	}
	if was, is := spec(door), spec(b.read("Service/back-door")); was != is {
		t.Errorf("the Service that was pruned had %s and has %s", was, is)
	}
	// These are other incarnations of the same; of the Service, what the cluster gave it
	// is now asked for.
	for _, name := range []string{"Service/back-door", "ConfigMap/only-in-1"} {
		after := b.snapshot(false)[name]
		for _, field := range []string{"uid", "managed"} {
			before[name] = strings.ReplaceAll(before[name], textOf(before[name], field), textOf(after, field))
		}
	}
	b.unchanged(before, false)
}

// textOf is the line of the field in a snapshot of one object.
func textOf(text, field string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"`+field+`": "`) {
			return line
		}
	}
	return "no " + field
}
