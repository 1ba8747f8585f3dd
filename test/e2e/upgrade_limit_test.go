package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// imagesOf counts the live pods by the name before the hash of their workload and by image.
func (b *bench) imagesOf() map[string]int {
	b.Helper()
	count := map[string]int{}
	for name, p := range b.pods() {
		workload, _, _ := strings.Cut(name, "-")
		count[workload+" "+p.Spec.Containers[0].Image]++
	}
	return count
}

// awaitImages waits until the live pods are these.
func (b *bench) awaitImages(want map[string]int) {
	b.Helper()
	kit.Eventually(b, func() error {
		if got := b.imagesOf(); !maps.Equal(got, want) {
			return fmt.Errorf("pods are %v, want %v", got, want)
		}
		return nil
	})
}

// reaching is the body of a request that changes these VDUs to release n, none meaning all.
func (b *bench) reaching(n int, vdus ...string) object {
	if len(vdus) == 0 {
		return b.changing(n, "RollingUpdate")
	}
	var params []object
	for _, vdu := range vdus {
		params = append(params, object{"vdu_id": vdu})
	}
	return b.changing(n, "RollingUpdate", "vdu_params", params)
}

func TestARollingChangeReachesTheVDUsThatItNamesAndEverythingAfterItObeysThat(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	failing := standard(3)
	failing.files = map[string]string{"Scripts/new.sh": "#!/bin/sh\nexit 1\n"}
	b.publish(standard(1), standard(2), failing)
	id := b.runs(b.vnfdID(1))
	back := b.read("Deployment/back")
	first := b.workers()

	// The change reaches WEB.
	op := b.run(t, id, "change_vnfpkg", b.reaching(2, "WEB"))
	b.awaitImages(map[string]int{"web " + image(2): 2, "back " + image(1): 1})
	if got, want := changes(op), []string{"ADDED WEB", "ADDED WEB", "REMOVED WEB", "REMOVED WEB"}; !slices.Equal(got, want) {
		t.Errorf("affected VNFCs: %v, want %v", got, want)
	}
	if now := b.read("Deployment/back"); now.GetGeneration() != back.GetGeneration() || now.GetUID() != back.GetUID() {
		t.Error("the workload of the VDU that stays was written")
	}
	if data := b.read("ConfigMap/settings").Object["data"]; fmt.Sprint(data) != "map[mode:release-2]" {
		t.Errorf("the ConfigMap that only WEB reads holds %v", data)
	}
	b.versions(id, 2)
	for _, c := range b.show(t, id).list("instantiatedVnfInfo", "vnfcResourceInfo") {
		want, vnfd := image(2), ""
		if c.text("vduId") == "BACK" {
			want, vnfd = image(1), b.vnfdID(1)
		}
		if got := c.text("metadata", "image"); got != want || c.text("vnfdId") != vnfd {
			t.Errorf("a VNFC of %s is shown with image %s and vnfdId %q", c.text("vduId"), got, c.text("vnfdId"))
		}
		name := strings.ToLower(c.text("vduId"))
		if c.text("metadata", "Deployment", "name") != name || !strings.HasPrefix(c.text("metadata", "Pod", "name"), name+"-") {
			t.Errorf("metadata are %v", c["metadata"])
		}
	}
	b.undrifted(id)
	d := b.clone(t, "desired.git")
	if out, errs, code := b.cli(t, "plan", d.Dir()); code != 0 {
		t.Errorf("jibe plan wants something: %s%s", out, errs)
	}

	// Scale, heal and repair leave it so.
	b.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.run(t, id, "heal", chosen(b.vnfcs(id, "BACK")[0].info))
	mixture := map[string]int{"web " + image(2): 3, "back " + image(1): 1}
	b.awaitImages(mixture)
	before := len(b.history(t, id))
	b.patch("Deployment/back", "somebody", `{"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "`+image(2)+`"}]}}}}`)
	b.repaired(id, before, "Deployment/"+b.namespace+"/back")
	b.awaitImages(mixture)
	b.run(t, id, "heal", object{})
	b.awaitImages(mixture)

	// A further change that fails is taken back to it.
	third := b.reaching(3, "WEB")
	third["additionalParams"].(object)["lcm-operation-coordinate-new-vnf"] = "Scripts/new.sh"
	path := b.begin(t, id, "change_vnfpkg", third)
	b.await(t, path, "FAILED_TEMP")
	b.must(t, 202, "POST", path+"/rollback", nil)
	b.await(t, path, "ROLLED_BACK")
	b.awaitImages(mixture)
	b.versions(id, 2)

	// The rest follows.
	b.run(t, id, "change_vnfpkg", b.reaching(2))
	b.awaitImages(map[string]int{"web " + image(2): 3, "back " + image(2): 1})
	for _, c := range b.show(t, id).list("instantiatedVnfInfo", "vnfcResourceInfo") {
		if c.text("vnfdId") != "" {
			t.Errorf("a VNFC of %s is still of VNFD %s", c.text("vduId"), c.text("vnfdId"))
		}
	}
	if left := len(first) - len(gone(first, b.workers())); left != 0 {
		t.Errorf("%d pods of release 1 still run", left)
	}
	b.undrifted(id)
}

func TestALimitInGitIsCompletedShownBeforeAndTakenBackByARevert(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	b.publish(standard(1), standard(2))
	id, file, d := b.pushed(b.vnfdID(1), "levels: {web_aspect: 0}\n")
	d.Git("checkout", "--quiet", "-b", "upgrade")
	d.Replace(file, "vnfdId: "+b.vnfdID(1), "vnfdId: "+b.vnfdID(2))
	d.Replace(file, "levels: ", "update: {vdus: [BACK]}\nlevels: ")
	d.Commit("Upgrade the back end")
	_, steps, _ := b.steps(d, filepath.Dir(file), "--commit", "upgrade")
	in := "/" + b.namespace + "/"
	if said := strings.Join(steps, "\n"); !strings.Contains(said, "apply Deployment"+in+"back") || strings.Contains(said, "Deployment"+in+"web") {
		t.Errorf("the preview is\n%s", said)
	}
	d.Git("checkout", "--quiet", "main")
	d.Git("pull", "--quiet", "--ff-only", "origin", "main") // other tests push there too
	d.Git("merge", "--quiet", "--no-edit", "upgrade")
	if out, err := d.TryPush(); err != nil {
		t.Fatalf("push: %v\n%s", err, out)
	}
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	b.awaitImages(map[string]int{"web " + image(1): 2, "back " + image(2): 1})
	d.Pull()
	if text := d.Read(file); !strings.Contains(text, "vdus:\n  WEB:\n    package: ") {
		t.Errorf("git doesn't say what stays:\n%s", text)
	}

	d.Replace(file, "vnfdId: "+b.vnfdID(2), "vnfdId: "+b.vnfdID(1))
	d.Replace(file, "update: {vdus: [BACK]}\n", "")
	d.Push("Go back")
	b.outcome(id, 2, "CHANGE_VNFPKG COMPLETED")
	b.awaitImages(map[string]int{"web " + image(1): 2, "back " + image(1): 1})
	d.Pull()
	if text := d.Read(file); strings.Contains(text, "vdus") {
		t.Errorf("git still says that something stays:\n%s", text)
	}
}

func TestAMixtureThatCanNotBeIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	sharing := func(n int) release {
		r := standard(n)
		r.vdus[1].pod = "volumes: [{name: s, configMap: {name: settings}}], "
		return r
	}
	grown := standard(4)
	grown.vdus = append(grown.vdus, vdu{kind: "Deployment", name: "extra", initial: 1})
	b.publish(sharing(1), sharing(2), grown)
	id, file, _ := b.pushed(b.vnfdID(1), "")
	// What both read differs between the packages, and there is one of it.
	b.barred(id, file, 2, 400, b.reaching(2, "WEB"), "update: {vdus: [WEB]}\n", "VDU BACK can't stay with its package", "ConfigMap settings concerns Deployment web too", "name none")
	// A VDU of the new package alone can't stay as it was.
	b.barred(id, file, 4, 400, b.reaching(4, "WEB", "BACK"), "update: {vdus: [WEB, BACK]}\n", "VDU EXTRA isn't named", "name it too, or none")
	b.run(t, id, "change_vnfpkg", b.reaching(2, "WEB", "BACK"))
	b.awaitImages(map[string]int{"web " + image(2): 2, "back " + image(2): 1})
}
