package app_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/published"
)

// archive is a package as it is uploaded.
func archive(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	if err := z.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sendArchive uploads an archive to a path, and returns the status and what is said. A replica that hasn't heard
// in time of what another has made is asked again.
func sendArchive(t *testing.T, s *process.Server, one string, archive []byte) (status int, said string) {
	t.Helper()
	for {
		if status, said = putArchive(t, s, one, archive); status != http.StatusServiceUnavailable || !strings.Contains(said, "what the others have") {
			return status, said
		}
	}
}

func putArchive(t *testing.T, s *process.Server, one string, archive []byte) (status int, said string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+one+"/package_content", bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Version": {"2.1.0"}, "Authorization": {"Bearer " + s.Token}, "Content-Type": {"application/zip"}}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Error(err)
	}
	return a.StatusCode, string(text)
}

// uploaded brings a package to the server by API and returns its path there.
func uploaded(t *testing.T, s *process.Server, dir string) string {
	t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	const list = "/vnfpkgm/v2/vnf_packages"
	s.Want(t, http.StatusCreated, http.MethodPost, list, map[string]any{}, &made, "Version", "2.1.0")
	one := list + "/" + made.ID
	if status, said := sendArchive(t, s, one, archive(t, dir)); status != http.StatusAccepted {
		t.Fatalf("the upload was answered %d %s", status, said)
	}
	kit.Eventually(t, func() error {
		var p map[string]any
		s.Want(t, http.StatusOK, http.MethodGet, one, nil, &p, "Version", "2.1.0")
		if p["onboardingState"] != "ONBOARDED" {
			return fmt.Errorf("%v", p)
		}
		return nil
	})
	return one
}

func TestSubscribersAreToldOfPackagesThatComeByAPIAndByGit(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	defer stop()
	told := make(chan string, 100)
	subscriber := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); r.Method == http.MethodPost {
			if err = errors.Join(err, published.Notification(body)); err != nil {
				t.Errorf("%v: %s", err, body)
			}
			var n map[string]any
			if err := json.Unmarshal(body, &n); err != nil {
				t.Error(err)
			}
			told <- strings.TrimSpace(fmt.Sprint(n["notificationType"], " ", n["vnfdId"], " ", n["changeType"], " ", n["operationalState"]))
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer subscriber.Close()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Errorf("told %q, not %q", got, want)
			}
		case <-time.After(kit.Patience):
			t.Fatalf("nobody was told %q", want)
		}
	}
	subscribe := map[string]any{"callbackUri": subscriber.URL, "filter": map[string]any{"vnfProductsFromProviders": []any{map[string]any{"vnfProvider": "Jibe Examples"}}}}
	s.Want(t, http.StatusCreated, http.MethodPost, "/vnfpkgm/v2/subscriptions", subscribe, nil, "Version", "2.1.0")
	s.Want(t, http.StatusBadRequest, http.MethodPost, "/vnfpkgm/v2/subscriptions", map[string]any{"callbackUri": subscriber.URL, "filter": map[string]any{"usageState": "NEVER"}}, nil, "Version", "2.1.0")
	one := uploaded(t, s, filepath.Join(process.Root(), "examples", "packages", "cnf-sample-1.0"))
	const first, second = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1ba0", "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1ba1"
	next("VnfPackageOnboardingNotification " + first + " <nil> <nil>")
	s.Want(t, http.StatusOK, http.MethodPatch, one, map[string]any{"operationalState": "DISABLED"}, nil, "Version", "2.1.0")
	next("VnfPackageChangeNotification " + first + " OP_STATE_CHANGE DISABLED")
	packagesOf(t, s).CopyTree("Add the next version", "cnf-sample-1.1", filepath.Join(process.Root(), "examples", "packages", "cnf-sample-1.1"), nil)
	next("VnfPackageOnboardingNotification " + second + " <nil> <nil>")
	s.Want(t, http.StatusNoContent, http.MethodDelete, one, nil, nil, "Version", "2.1.0")
	next("VnfPackageChangeNotification " + first + " PKG_DELETE <nil>")
	if len(told) > 0 {
		t.Errorf("told more: %s", <-told)
	}
}

func TestAPackageThatIsUploadedRunsAndOneThatIsDisabledDoesNot(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	defer stop()
	const vnfdID = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1ba0"
	one := uploaded(t, s, filepath.Join(process.Root(), "examples", "packages", "cnf-sample-1.0"))
	change(desiredOf(t, s), map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
	patch := func(status int, state string) {
		t.Helper()
		s.Want(t, status, http.MethodPatch, one, map[string]any{"operationalState": state}, nil, "Version", "2.1.0")
	}
	create := func(status int) (a *process.Answer, id string) {
		t.Helper()
		var in struct {
			ID string `json:"id"`
		}
		a = s.Want(t, status, http.MethodPost, "/vnflcm/v2/vnf_instances", map[string]any{"vnfdId": vnfdID}, &in)
		return a, in.ID
	}
	_, id := create(http.StatusCreated)
	var p map[string]any
	s.Want(t, http.StatusOK, http.MethodGet, one, nil, &p, "Version", "2.1.0")
	if p["usageState"] != "IN_USE" {
		t.Errorf("usageState: %v", p["usageState"])
	}
	patch(http.StatusOK, "DISABLED")
	s.Want(t, http.StatusConflict, http.MethodDelete, one, nil, nil, "Version", "2.1.0")
	if a, _ := create(http.StatusUnprocessableEntity); !strings.Contains(string(a.Body), "disabled") {
		t.Errorf("%s", a.Body)
	}
	instantiate := map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"lcm-kubernetes-def-files": []string{"Files/kubernetes/deployment.yaml"}}}
	if a := s.Want(t, http.StatusUnprocessableEntity, http.MethodPost, "/vnflcm/v2/vnf_instances/"+id+"/instantiate", instantiate, nil); !strings.Contains(string(a.Body), "disabled") {
		t.Errorf("%s", a.Body)
	}
	// Push and API are held against the same. There is no hook here, so that the commit stays.
	change(desiredOf(t, s), map[string]string{"instances/x/amf/vnf.yaml": "vnfdId: " + vnfdID + "\nflavour: simple\nparams:\n  lcm-kubernetes-def-files: [Files/kubernetes/deployment.yaml]\n"})
	kit.Eventually(t, func() error {
		var list []map[string]any
		s.Want(t, http.StatusOK, http.MethodGet, "/jibe/v1/problems", nil, &list)
		if len(list) != 1 || !strings.Contains(fmt.Sprint(list[0]["message"]), "disabled") {
			return fmt.Errorf("problems: %v", list)
		}
		return nil
	})
	change(desiredOf(t, s), map[string]string{"instances/x": ""})
	patch(http.StatusOK, "ENABLED")
	a := s.Want(t, http.StatusAccepted, http.MethodPost, "/vnflcm/v2/vnf_instances/"+id+"/instantiate", instantiate, nil)
	s.Await(t, a.ID(), "COMPLETED")
	patch(http.StatusOK, "DISABLED")
	// What runs goes on.
	a = s.Want(t, http.StatusAccepted, http.MethodPost, "/vnflcm/v2/vnf_instances/"+id+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}, nil)
	s.Await(t, a.ID(), "COMPLETED")
	a = s.Want(t, http.StatusAccepted, http.MethodPost, "/vnflcm/v2/vnf_instances/"+id+"/terminate", map[string]any{"terminationType": "FORCEFUL"}, nil)
	s.Await(t, a.ID(), "COMPLETED")
	s.Want(t, http.StatusNoContent, http.MethodDelete, "/vnflcm/v2/vnf_instances/"+id, nil, nil)
	s.Want(t, http.StatusNoContent, http.MethodDelete, one, nil, nil, "Version", "2.1.0")
	var rows []json.RawMessage
	s.Want(t, http.StatusOK, http.MethodGet, "/jibe/v1/packages", nil, &rows)
	if len(rows) != 0 {
		t.Errorf("left: %s", rows)
	}
}
