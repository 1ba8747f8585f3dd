package openstack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/openstack"
)

func TestOpenStacksOwnClientFindsTheVIMByWhatProgramsAreGiven(t *testing.T) {
	vim := lab(t)
	client, err := exec.LookPath("openstack")
	if err != nil {
		t.Skip("the client of OpenStack is not installed")
	}
	files, err := connect(t, vim, openstack.Options{}).Access()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), client, "--os-cloud", "openstack", "token", "issue", "-f", "value", "-c", "project_id")
	cmd.Env = []string{"PATH=/usr/bin:" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	for variable, content := range files {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, variable+"="+path)
	}
	if said, err := cmd.CombinedOutput(); err != nil || len(said) < 32 {
		t.Errorf("openstack token issue: %v: %s", err, said)
	}
}
