package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// coordinated is releases 1 and 2 with scripts for the new and the old VNF.
func (b *bench) coordinated() (arriving, leaving *script) {
	b.Helper()
	first, second := standard(1), standard(2)
	arriving, text := b.scripted()
	second.files = map[string]string{"Scripts/new.sh": text}
	leaving, text = b.scripted()
	first.files = map[string]string{"Scripts/old.sh": text}
	b.publish(first, second)
	return arriving, leaving
}

// byScript is the request that changes to release 2 with both scripts.
func (b *bench) byScript() object {
	return b.changing(2, "Blue-Green",
		"lcm-operation-coordinate-new-vnf", "Scripts/new.sh", "lcm-operation-coordinate-new-vnf-class", "CoordinateNew",
		"lcm-operation-coordinate-old-vnf", "Scripts/old.sh", "lcm-operation-coordinate-old-vnf-class", "CoordinateOld",
		"vdu_params", object{"vdu_id": "WEB", "new_vnfc_param": object{"cp_name": "CP1", "username": "ubuntu", "password": "new-password-in-clear"}})
}

func TestScriptsSeeReadyPodsBeforeTheSwitchAndTheSwitchedServiceAfterIt(t *testing.T) {
	b := newStage(t)
	arriving, leaving := b.coordinated()
	id := b.runs(b.vnfdID(1))
	old := b.workers()
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", b.byScript())

	input := arriving.called(1)
	s := f.record()
	if got := s.flow("front"); got != "0" {
		t.Errorf("when the script of the new VNF runs, the Service sends traffic to the generations %q", got)
	}
	if s.readyAt(image(2), 3) == 0 {
		t.Error("when the script of the new VNF runs, its pods aren't ready")
	}
	for name, want := range map[string]any{
		"hook": "coordinate_new", "class": "CoordinateNew", "isRollback": false, "interrupted": false, "version": 1.0,
	} {
		if input[name] != want {
			t.Errorf("the input of the hook says that %s is %v, want %v", name, input[name], want)
		}
	}
	op := b.must(t, 200, "GET", path, nil).object(t)
	for at, want := range map[string]string{
		"operation/id": op.text("id"), "operation/type": "CHANGE_VNFPKG", "instance/id": id, "instance/namespace": b.namespace, "instance/generation": "1",
		"before/vnfdId": b.vnfdID(1), "before/vnfdVersion": "1.0", "after/vnfdId": b.vnfdID(2), "after/vnfSoftwareVersion": "2.0", "after/vnfProvider": "Tests",
	} {
		if got := input.text(strings.Split(at, "/")...); got != want {
			t.Errorf("the input of the hook says that %s is %q, want %q", at, got, want)
		}
	}
	pods := b.pods()
	for side, generation := range map[string]string{"old": "0", "new": "1"} {
		units := unitsOf(input, "WEB", side)
		if len(units) != 2 {
			t.Errorf("the input of the hook has the %s pods %v", side, slices.Collect(maps.Keys(units)))
		}
		for name, u := range units {
			p := pods[name]
			if u.text("id") != string(p.UID) || u["ready"] != true || u.text("generation") != generation || u.text("address") != p.Status.PodIP || p.Status.PodIP == "" {
				t.Errorf("the input of the hook has the %s pod %s: %v; it has %s, %s", side, name, u, p.UID, p.Status.PodIP)
			}
		}
	}
	if services := input.list("services"); len(services) != 1 || services[0].text("key") != "Service/"+b.namespace+"/front" {
		t.Errorf("the input of the hook has the Services %v", services)
	}
	if given := fmt.Sprint(input["coordinationParams"]); !strings.Contains(given, "new-password-in-clear") || !strings.Contains(given, "cp_name") {
		t.Errorf("the script is given the parameters %s", given)
	}
	arriving.answer(1, `test -s "$KUBECONFIG" || { echo "no KUBECONFIG" >&2; exit 3; }
test -z "$JIBE_TEST_KUBECONFIG" || { echo "the environment is the server's" >&2; exit 4; }
echo '{"message": "the new VNF is warm"}'`)

	input = leaving.called(1)
	s = f.record()
	if got := s.flow("front"); got != "0, 1" {
		t.Errorf("when the script of the old VNF runs, the Service has led to the generations %q", got)
	}
	if n := len(gone(old, b.workers())); n != 0 {
		t.Errorf("when the script of the old VNF runs, %d of its pods are gone", n)
	}
	if input.text("hook") != "coordinate_old" || input.text("class") != "CoordinateOld" || len(unitsOf(input, "WEB", "old")) != 2 || len(unitsOf(input, "WEB", "new")) != 2 {
		t.Errorf("the hook of the old VNF gets %v", input)
	}
	leaving.answer(1, "exit 0")
	b.await(t, path, "COMPLETED")
	b.cleanly(f.record(), "0", "1")
	b.only(id, "1")
	if n, o := arriving.calls(), leaving.calls(); n != 1 || o != 1 {
		t.Errorf("the scripts were called %d and %d times", n, o)
	}
	b.withoutSecrets(id, "new-password-in-clear")
}

func TestAScriptThatSwitchesTheServiceItselfIsFollowed(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	arriving, text := b.scripted()
	first, second := hand(1), hand(2)
	second.files["Scripts/new.sh"] = text
	b.publish(first, second)
	id := b.runs(b.vnfdID(1))
	service := address(b.read("Service/front"))
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh"))
	arriving.called(1)
	// A script of today does this with kubectl.
	b.patch("Service/front", "script", "{'spec': {'selector': {'app': 'web', 'version': 'v2', '"+generationLabel+"': '1'}}}")
	kit.Eventually(t, func() error {
		if f.record().switched("front", "1") == 0 {
			return fmt.Errorf("the Service isn't switched")
		}
		return nil
	})
	arriving.answer(1, "exit 0")
	b.await(t, path, "COMPLETED")
	s := f.record()
	if got := s.flow("front"); got != "0, 1" {
		t.Errorf("the Service sent traffic to the generations %q", got)
	}
	if is := address(b.read("Service/front")); is != service {
		t.Errorf("the Service was %s and is %s", service, is)
	}
	if n := len(s.of("Service/front", watch.Deleted)); n != 0 {
		t.Error("the Service was made anew")
	}
	b.awaitPods(2)
	b.sameVNFCs(id)
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
	b.undrifted(id)
}

func TestAScriptThatFailsLeavesTrafficWhereItIsAndARetryGoesOn(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	arriving, _ := b.coordinated()
	id := b.runs(b.vnfdID(1))
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "BlueGreen", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh"))
	fails := []struct {
		name, lines string
		says        []string
	}{
		{"exits with 1", "echo the load balancer refuses >&2; exit 1", []string{"exit status 1", "the load balancer refuses"}},
		{"prints garbage", "echo this is not JSON", []string{"standard output", "this is not JSON"}},
		{"never ends", "trap '' TERM; sleep 1000 & while :; do sleep 1; done", []string{"not done within 20s"}},
		{"writes 100 MB", "yes 0123456789abcdef | head -c 100000000", []string{"bytes to standard output"}},
		{"writes 100 MB of errors", "yes 0123456789abcdef | head -c 100000000 >&2; echo the end >&2; exit 7", []string{"exit status 7", "the end"}},
		{"kills itself", "kill -9 $$", []string{"killed"}},
	}
	for i, tt := range fails {
		input := arriving.each(i+1, tt.lines)
		if input["interrupted"] != false {
			t.Errorf("the run after one that failed by itself has the input that it was interrupted")
		}
		op := b.await(t, path, "FAILED_TEMP")
		t.Logf("a script that %s: %v", tt.name, op["error"])
		b.says(op, append(tt.says, "Scripts/new.sh")...)
		if n := len(op.text("error", "detail")); n > 10_000 {
			t.Errorf("the error of a script that %s has %d bytes", tt.name, n)
		}
		if got := f.record().flow("front"); got != "0" {
			t.Fatalf("after a script that %s, the Service has led to the generations %q", tt.name, got)
		}
		b.must(t, 202, "POST", path+"/retry", nil)
	}
	arriving.each(len(fails)+1, "exit 0")
	b.await(t, path, "COMPLETED")
	b.cleanly(f.record(), "0", "1")
	b.only(id, "1")
}

func TestThePreambleAndPostambleOfThePackageRunAroundTheChange(t *testing.T) {
	b := newStage(t)
	first, second := standard(1), standard(2)
	start, startText := b.scripted()
	end, endText := b.scripted()
	second.files = map[string]string{"Scripts/start.sh": startText, "Scripts/end.sh": endText}
	second.vnfd = func(text string) string {
		return strings.Replace(text, "        vnfm_info: [jibe]\n", `        vnfm_info: [jibe]
      interfaces:
        Vnflcm:
          operations:
            change_current_package_start: {implementation: at-start}
            change_current_package_end: {implementation: at-end}
      artifacts:
        at-start: {type: tosca.artifacts.Implementation.Python, file: ../Scripts/start.sh}
        at-end: {type: tosca.artifacts.Implementation.Python, file: ../Scripts/end.sh}
`, 1)
	}
	b.publish(first, second)
	id := b.runs(b.vnfdID(1))
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green"))
	input := start.called(1)
	if n := b.running(2); n != 0 || input.text("hook") != "change_current_package_start" {
		t.Errorf("the preamble %s runs beside %d new pods", input.text("hook"), n)
	}
	start.answer(1, `echo '{"handOver": {"from": "the preamble"}}'`)
	input = end.called(1)
	if n := b.running(1); n != 0 || input.text("hook") != "change_current_package_end" {
		t.Errorf("the postamble %s runs beside %d old pods", input.text("hook"), n)
	}
	b.only(id, "1")
	if handed := input.text("handOver", "from"); handed != "the preamble" {
		t.Errorf("the preamble handed over %q", handed)
	}
	end.answer(1, `echo '{"metadata": {"licence": "L-7"}, "extensions": {"peer": "10.0.0.9"}}'`)
	b.await(t, path, "COMPLETED")
	kit.Eventually(t, func() error {
		got := b.must(b, 200, "GET", instances+"/"+id, nil).object(t)
		if got.text("metadata", "licence") != "L-7" || got.text("extensions", "peer") != "10.0.0.9" {
			return fmt.Errorf("the instance has metadata %v and extensions %v", got["metadata"], got["extensions"])
		}
		return nil
	})
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
	b.undrifted(id)
}
