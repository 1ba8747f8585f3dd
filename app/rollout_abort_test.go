package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestAnAbortedRolloutUpgradesNothingLater(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	u := newUpgraded(t, 2)
	prior := u.desired.Read(u.dir(0) + "/vnf.yaml")
	const freeze = "instances/maintenance.yaml"
	change(u.desired, map[string]string{freeze: "freezes: [{until: 2999-01-01T00:00:00Z, reason: new year}]\n"})
	change(u.desired, map[string]string{"rollouts/edge.yaml": fmt.Sprintf("select: {folders: [edge/s0]}\nto: {vnfdId: %s}\n", newerSmallVnfd)})
	kit.Eventually(t, func() error {
		if text := u.desired.Read(u.dir(0) + "/vnf.yaml"); !strings.Contains(text, newerSmallVnfd) {
			return fmt.Errorf("nothing was begun: %s", text)
		}
		return nil
	})

	u.Want(t, http.StatusOK, http.MethodPost, "/jibe/v1/rollouts/edge/abort", nil, nil)
	if r := u.becomes("aborted"); r.Counts.Back != 1 || r.Counts.UnderWay != 0 {
		t.Errorf("it ended as %+v", r)
	}
	if text := u.desired.Read(u.dir(0) + "/vnf.yaml"); text != prior {
		t.Errorf("the file is\n%swant\n%s", text, prior)
	}

	// Had the upgrade waited still, it would be part of what begins now.
	change(u.desired, map[string]string{freeze: "", u.dir(0) + "/vnf.yaml": strings.Replace(prior, "namespace: s0", "namespace: s0, mode: fast", 1)})
	kit.Eventually(t, func() error {
		all, err := process.All[timed](t.Context(), u.Server, process.Operations)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(o timed) bool { return o.Automatic || o.Type == string(lcm.Instantiate) })
		if len(all) != 1 || all[0].State != "COMPLETED" {
			return fmt.Errorf("since the end of the freeze there are %+v", all)
		}
		return nil
	})
	if got := u.runs(); got != "1.0 1.0" {
		t.Errorf("the sites run %s", got)
	}
}

func TestAnAbortEndsWhatWaitsForItsNeeds(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	u := newUpgraded(t, 2)
	text := u.desired.Read(u.dir(0) + "/vnf.yaml")
	change(u.desired, map[string]string{u.dir(0) + "/vnf.yaml": text + "needs: [{instance: " + u.dir(1) + ", version: \">=1.1\"}]\n"})
	change(u.desired, map[string]string{"rollouts/edge.yaml": fmt.Sprintf("select: {folders: [edge/s0]}\nto: {vnfdId: %s}\n", newerSmallVnfd)})
	u.await(lcm.ChangePackage, 1, "STARTING")

	u.Want(t, http.StatusOK, http.MethodPost, "/jibe/v1/rollouts/edge/abort", nil, nil)

	if r := u.becomes("aborted"); r.Counts.Back != 1 || r.Counts.UnderWay != 0 {
		t.Errorf("it ended as %+v", r)
	}
	u.await(lcm.ChangePackage, 1, "ROLLED_BACK")
	if got := u.runs(); got != "1.0 1.0" {
		t.Errorf("the sites run %s", got)
	}
	if file := u.desired.Read(u.dir(0) + "/vnf.yaml"); strings.Contains(file, newerSmallVnfd) || !strings.Contains(file, process.SmallVnfd) {
		t.Errorf("the file is\n%s", file)
	}
}
