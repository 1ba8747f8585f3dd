package process_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestAPodIsHealedOnARealClusterWhileAnUpgradeWaitsAndAKillLosesNeither(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	kubeconfig := kubeenv.Kubeconfig(t)
	namespace := kubeenv.Namespace(t, kubeconfig)
	s := process.Start(t, filepath.Join(process.ShortTempDir(t), "data"))
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	const dir = "instances/site/amf"
	id := desired.DeriveID(dir)
	text := fmt.Sprintf("id: %s\nname: amf\nvnfdId: %s\nstate: instantiated\nflavour: simple\nparams: {lcm-kubernetes-def-files: [%s], namespace: %s}\n",
		id, process.SmallVnfd, strings.Join(process.SmallManifests(), ", "), namespace)
	s.PushFiles(t, map[string]string{
		"vims/test.yaml": s.Keep(t, "type: kubernetes\ndefault: true\nkubeconfig: file:"+kubeconfig+"\n"), dir + "/vnf.yaml": text})
	s.Await(t, begunFor(t, s, dir), "COMPLETED")
	pods := func() (names []string) {
		t.Helper()
		var in struct {
			InstantiatedVnfInfo struct {
				VnfcResourceInfo []struct {
					ComputeResource struct{ ResourceID string }
				}
			}
		}
		s.Want(t, http.StatusOK, http.MethodGet, process.Instances+"/"+id, nil, &in)
		for _, v := range in.InstantiatedVnfInfo.VnfcResourceInfo {
			names = append(names, v.ComputeResource.ResourceID)
		}
		return names
	}
	freeze := func(until time.Time) {
		t.Helper()
		s.PushFiles(t, map[string]string{"instances/maintenance.yaml": "freezes:\n- {until: " + until.Format(time.RFC3339) + "}\n"})
	}
	freeze(time.Now().Add(time.Hour))
	work := process.NewWorkTree(t, s.Desired())
	work.Write(dir+"/vnf.yaml", work.Read(dir+"/vnf.yaml")+"# tonight\nlevels: {front: 1}\n")
	work.Push("One more, tonight")
	waits := func() {
		t.Helper()
		kit.Eventually(t, func() error {
			if out, _, _ := s.CLI(t, "get", "instances"); !strings.Contains(out, "SCALE waits") {
				return fmt.Errorf("nothing waits: %s", out)
			}
			return nil
		})
	}
	waits()
	was := pods()
	s.Want(t, http.StatusConflict, http.MethodPost, process.Instances+"/"+id+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"}, nil)
	heal := s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+id+"/heal", map[string]any{"additionalParams": map[string]any{"all": false}}, nil).ID()
	data := s.Data
	s.Kill()
	s = process.Start(t, data)
	s.Await(t, heal, "COMPLETED")
	waits()
	now := pods()
	if len(now) != len(was) || len(now) == 0 || now[0] == was[0] {
		t.Errorf("the pods were %v and are %v", was, now)
	}
	work.Pull()
	if got := work.Read(dir + "/vnf.yaml"); !strings.Contains(got, "# tonight\nlevels: {front: 1}\n") || !strings.Contains(got, "condemned:") {
		t.Errorf("what waits is\n%s", got)
	}
	freeze(time.Now().Add(-time.Minute))
	kit.Eventually(t, func() error {
		all, err := process.All[process.Operation](t.Context(), s, process.Operations+"?filter=(eq,vnfInstanceId,"+id+")")
		if err != nil {
			return err
		}
		count := map[string]int{}
		for _, o := range all {
			if !o.Automatic {
				count[o.Type+" "+o.State]++
			}
		}
		if fmt.Sprint(count) != "map[HEAL COMPLETED:1 INSTANTIATE COMPLETED:1 SCALE COMPLETED:1]" {
			return fmt.Errorf("operations are %v", count)
		}
		return nil
	})
	if at := pods(); len(at) <= len(now) || !strings.Contains(strings.Join(at, " "), now[0]) {
		t.Errorf("the pods were %v and are %v: it was healed twice, or not scaled", now, at)
	}
}
