package process_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// The git server kills the replica at the moment when its branch has moved and nobody has said so yet: the
// other replicas aren't told, and the archive is still on the disk.
func TestAnUploadWhoseReplicaIsKilledBehindItsPushIsThereOnce(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	r := redisserver.Start(t)
	uploads := filepath.Join(t.TempDir(), "uploads.git")
	process.InitBare(t, uploads)
	args := []string{"--store", r.URL(), "--remote", process.NewForge(t, map[string]string{
		"repositories.yaml": "- {name: uploads, url: " + uploads + ", branch: main, onboarding: true}\n",
	})}
	data := filepath.Join(t.TempDir(), "one")
	one := process.Start(t, data, args...)
	other := process.Start(t, filepath.Join(t.TempDir(), "other"), append(args, "--identity", filepath.Join(data, secret.IdentityFile), "--poll", "1h")...)
	const list = "/vnfpkgm/v2/vnf_packages"
	place := list + "/" + one.Want(t, http.StatusCreated, http.MethodPost, list, map[string]any{}, nil, "Version", "2.1.0").ID()

	// It waits until the upload's answer has come, which a kill would cut off.
	hook, answered := filepath.Join(uploads, "hooks", "post-receive"), filepath.Join(t.TempDir(), "answered")
	if err := os.WriteFile(hook, fmt.Appendf(nil, "#!/bin/sh\nn=0; until [ -e '%s' ] || [ $n -gt 5000 ]; do sleep 0.05; n=$((n+1)); done\nkill -9 %d\n", answered, one.Pid()), 0o755); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	if err := z.AddFS(os.DirFS(process.SmallPackage())); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, one.URL+place+"/package_content", &archive)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Version": {"2.1.0"}, "Authorization": {"Bearer " + one.Token}, "Content-Type": {"application/zip"}}
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != http.StatusAccepted {
		t.Fatal(a.Status)
	}
	if err := os.WriteFile(answered, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-one.Exited():
	case <-time.After(kit.Patience):
		t.Fatal("the replica isn't killed")
	}
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	onboarded := func() (n int) {
		out, err := process.Git(t.Context(), uploads, "log", "--format=%s", "main")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(out, "Onboard ")
	}
	if n := onboarded(); n != 1 {
		t.Fatalf("the branch has %d commits of the upload", n)
	}

	one = process.Start(t, data, args...)
	for _, s := range []*process.Server{one, other} {
		kit.Eventually(t, func() error {
			var p struct {
				State  string `json:"onboardingState"`
				VnfdID string `json:"vnfdId"`
			}
			s.Want(t, http.StatusOK, http.MethodGet, place, nil, &p, "Version", "2.1.0")
			if p.State != "ONBOARDED" || p.VnfdID != process.SmallVnfd {
				return fmt.Errorf("the package is %+v", p)
			}
			return nil
		})
	}
	kit.Until(t, "the archive is gone", func() bool {
		left, err := filepath.Glob(filepath.Join(data, "uploads", "*"))
		return err == nil && len(left) == 0
	})
	if n := onboarded(); n != 1 {
		t.Errorf("after the next start the branch has %d commits of the upload", n)
	}
}
