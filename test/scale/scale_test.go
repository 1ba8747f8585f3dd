// Package scale runs the built binary on a repository of 100,000 instances.
package scale

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

const (
	instances = 100_000
	// patience bounds each wait: a first start gives every instance its record, and a
	// machine may be busy.
	patience = 10 * time.Minute
)

func id(i int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "scale %d", i)).String()
}

func vnf(i, level int) string {
	if i > 0 {
		return fmt.Sprintf("id: %s\nname: many\nvnfdId: %s\nstate: notInstantiated\n", id(i), process.SmallVnfd)
	}
	return fmt.Sprintf("id: %s\nname: the one that runs\nvnfdId: %s\nstate: instantiated\nflavour: simple\nlevels: {front: %d}\nparams:\n  lcm-kubernetes-def-files: [%s, %s]\n",
		id(i), process.SmallVnfd, level, process.SmallManifests()[0], process.SmallManifests()[1])
}

func TestAHundredThousandInstancesStartRestartAndAreChangedByAPush(t *testing.T) {
	testenv.Chaos(t, "a large machine")
	s := process.Start(t, filepath.Join(t.TempDir(), "d"))
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for i := range instances {
		files[desired.APIDir(id(i))+"/"+desired.InstanceFile] = vnf(i, 0)
	}
	if err := process.Fill(t.Context(), s.Desired(), "Many", files); err != nil {
		t.Fatal(err)
	}

	s = process.Start(t, s.Data)
	awaitUnits(t, s, 1)
	push(t, s, 2)
	awaitUnits(t, s, 3)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}

	s = process.Start(t, s.Data)
	var list []desired.Revision
	if err := s.Get(t.Context(), "/jibe/v1/instances", &list); err != nil || len(list) != instances {
		t.Fatalf("after the restart there are %d instances, %v", len(list), err)
	}
	push(t, s, 3)
	awaitUnits(t, s, 4)
	asked := s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+id(0)+"/scale",
		map[string]any{"type": "SCALE_IN", "aspectId": "front"}, nil)
	s.AwaitWithin(t, patience, asked.ID(), "COMPLETED")
	awaitUnits(t, s, 3)
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// push commits a level of the instance that runs on the newest state, in a clone without
// a work tree, and pushes it through the hook; again where Jibe was quicker.
func push(t *testing.T, s *process.Server, level int) {
	t.Helper()
	for {
		err := tryPush(t, s, level)
		if err == nil {
			return
		}
		if !process.Overtaken(err) {
			t.Fatal(err)
		}
	}
}

func tryPush(t *testing.T, s *process.Server, level int) error {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone.git")
	git := func(args ...string) string {
		t.Helper()
		out, err := process.Git(t.Context(), s.Data, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	git("clone", "--quiet", "--bare", "--shared", s.Desired(), clone)
	file := desired.APIDir(id(0)) + "/" + desired.InstanceFile
	// Keep what Jibe has filled in meanwhile.
	old := git("--git-dir="+clone, "show", "main:"+file)
	text, err := desired.Edit(file, []byte(old), desired.KeyValue{Path: []string{"levels", "front"}, Value: level})
	if err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A Person <person@example.org> %d +0000\ndata 5\nScale\nfrom refs/heads/main^0\nM 100644 inline %s\ndata %d\n%s\n",
		time.Now().Unix(), file, len(text), text)
	cmd := exec.CommandContext(t.Context(), "git", "--git-dir="+clone, "fast-import", "--quiet")
	cmd.Stdin, cmd.Env = &in, process.Environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git fast-import: %v\n%s", err, out)
	}
	_, err = process.Git(t.Context(), s.Data, "--git-dir="+clone, "push", "--quiet", "origin", "main:main")
	return err
}

// awaitUnits waits until the instance that runs has so many units in the simulator, and
// no operation is open.
func awaitUnits(t *testing.T, s *process.Server, n int) {
	t.Helper()
	kit.EventuallyWithin(t, patience, func() error {
		var got struct {
			Info struct {
				Units []struct{} `json:"vnfcResourceInfo"`
			} `json:"instantiatedVnfInfo"`
		}
		if err := s.Get(t.Context(), process.Instances+"/"+id(0), &got); err != nil {
			return err
		}
		if len(got.Info.Units) != n {
			return fmt.Errorf("there are %d units, want %d", len(got.Info.Units), n)
		}
		var all []process.Operation // nobody else's instance has any
		if err := s.Get(t.Context(), process.Operations, &all); err != nil {
			return err
		}
		for _, op := range all {
			if op.State != "COMPLETED" {
				return fmt.Errorf("%s is %s: %s", op.Type, op.State, op.Error.Detail)
			}
		}
		return nil
	})
}
