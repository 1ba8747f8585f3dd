package process_test

import (
	"net/http"
	"testing"

	"github.com/jibe-vnfm/jibe/test/process"
)

const webapp = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b01"

func TestProcessServesTheAPIAndGitAndStartsAgainWhereItWasKilled(t *testing.T) {
	t.Parallel()
	s := process.Start(t, t.TempDir())
	s.PushPackages(t, []string{webapp}, process.Root()+"/examples/packages/webapp")
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
	made := s.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": webapp}, nil)
	s.Kill()

	s = process.Start(t, s.Data)
	started := s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+made.ID()+"/instantiate", map[string]string{"flavourId": "simple"}, nil)
	op := s.Await(t, started.ID(), "COMPLETED")
	if op.Instance != made.ID() || op.Type != "INSTANTIATE" {
		t.Errorf("operation is %+v", op)
	}
	c := process.NewClone(t, s.DesiredURL())
	if out, err := process.Git(t.Context(), c.Dir, "log", "-1", "--format=%(trailers:key=Vnf-Lcm-Op-Occ,valueonly)"); err != nil || out != op.ID {
		t.Errorf("the last commit's operation is %q, want %s: %v", out, op.ID, err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
