package app

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

const cloudsYAML = `clouds:
  lab:
    auth: {auth_url: "https://k:5000/v3", username: ann, password: PASSWORD, project_name: vnf, project_domain_name: d1, user_domain_name: d2}
    region_name: east
`

func TestAConnectionToOpenStackIsTheSameInAllItsForms(t *testing.T) {
	data := &datadir.Dir{Path: t.TempDir()}
	keeper, err := data.Keeper(secret.LockOptions{}, secret.Reach{Env: []string{"VIM_PASSWORD"}})
	if err != nil {
		t.Fatal(err)
	}
	clouds := filepath.Join(data.Secrets(), "clouds.yaml")
	if err := os.WriteFile(clouds, []byte(cloudsYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VIM_PASSWORD", "PASSWORD")
	s := secrets{keeper}
	want := drivers.VIM{
		Name: "lab", Type: desired.VIMOpenStack, Endpoint: "https://k:5000/v3", Username: "ann", Password: "PASSWORD",
		Project: "vnf", ProjectDomain: "d1", UserDomain: "d2", Region: "east",
	}
	for name, resolve := range map[string]func() (drivers.VIM, error){
		"a file under vims/": func() (drivers.VIM, error) {
			return s.VIM(&desired.VIM{Name: "lab", Type: desired.VIMOpenStack, Endpoint: want.Endpoint, Region: "east", Project: "vnf",
				ProjectDomain: "d1", UserDomain: "d2", Credentials: desired.Credentials{Username: "ann", Password: "env:VIM_PASSWORD"}})
		},
		"an entry of a clouds.yaml": func() (drivers.VIM, error) {
			return s.VIM(&desired.VIM{Name: "lab", Type: desired.VIMOpenStack, Clouds: "file:" + clouds, Cloud: "lab"})
		},
		"vimConnectionInfo": func() (drivers.VIM, error) {
			return s.Connection("lab", desired.VIMConnection{VimType: desired.VIMOpenStack,
				InterfaceInfo: map[string]string{"endpoint": want.Endpoint},
				AccessInfo: map[string]string{"username": "ann", "password": "env:VIM_PASSWORD", "project": "vnf",
					"projectDomain": "d1", "userDomain": "d2", "region": "east"}})
		},
	} {
		got, err := resolve()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(drivers.VIM{}, "Requested")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	got, err := s.VIM(&desired.VIM{Name: "lab", Type: desired.VIMOpenStack, Endpoint: want.Endpoint,
		Credentials: desired.Credentials{ApplicationCredentialID: "abc", ApplicationCredentialSecret: "env:VIM_PASSWORD"}})
	if err != nil || got.ApplicationCredential != "abc" || got.ApplicationCredentialSecret != "PASSWORD" || got.Username != "" {
		t.Errorf("an application credential is resolved to %+v (%v)", got, err)
	}
}

func TestARequestSwitchesTheCheckOfCertificatesOffOnlyWhereTheOperatorLetsIt(t *testing.T) {
	asking := func(skip string) *desired.Instance {
		return &desired.Instance{VIMConnections: map[string]desired.VIMConnection{"lab": {VimType: desired.VIMKubernetes,
			InterfaceInfo: map[string]string{"endpoint": "https://k", desired.SkipVerification: skip},
			AccessInfo:    map[string]string{"username": "ann"}}}}
	}
	for _, allowed := range []bool{false, true} {
		keeper, err := (&datadir.Dir{Path: t.TempDir()}).Keeper(secret.LockOptions{}, secret.Reach{SkipVerification: allowed})
		if err != nil {
			t.Fatal(err)
		}
		s := secrets{keeper}
		for skip, want := range map[string]string{"true": "--allow-skip-certificate-verification", "TRUE": "--allow-skip-certificate-verification", "false": "", "": "", "perhaps": "true or false"} {
			if allowed && want != "true or false" {
				want = ""
			}
			err := s.Permit(&desired.Settings{}, nil, asking(skip), false)
			if want == "" && err != nil {
				t.Errorf("allowed %v, %q: %v", allowed, skip, err)
			}
			if want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "vimConnectionInfo.lab.interfaceInfo.skipCertificateVerification")) {
				t.Errorf("allowed %v, %q: %v, want %q", allowed, skip, err, want)
			}
		}
		// What an instance has from before counts for nothing, and keeps no change from it.
		if err := s.Permit(&desired.Settings{}, asking("true"), asking("true"), false); err != nil {
			t.Error(err)
		}
		c := asking("true").VIMConnections["lab"]
		c.VimType = desired.VIMOpenStack
		c.AccessInfo = map[string]string{"applicationCredentialId": "i", "applicationCredentialSecret": "env:JIBE_SECRET_TEST"}
		t.Setenv("JIBE_SECRET_TEST", "secret")
		if got, err := s.Connection("lab", c); err != nil || got.Insecure != allowed {
			t.Errorf("allowed %v: the check is off: %v (%v)", allowed, got.Insecure, err)
		}
	}
}

func TestEveryKnownTypeOfVIMHasADriverThatRendersWithoutOne(t *testing.T) {
	t.Parallel()

	make := driverOptions{
		key: []byte("key"), installation: "test", cloud: sim.NewCloud(), log: slog.New(slog.DiscardHandler),
		wrap: func(_ string, next http.RoundTripper) http.RoundTripper { return next }, made: func(string) {},
	}.drivers()
	for _, vimType := range []string{desired.VIMKubernetes, desired.VIMOpenStack, desired.VIMSim} {
		v := drivers.VIM{Name: "none", Type: vimType, Endpoint: "https://nowhere.invalid", Username: "nobody", Password: "none", Project: "none"}
		if drv, err := make(v); err != nil || drv == nil {
			t.Errorf("%s: %v", vimType, err)
		}
	}
	if _, err := make(drivers.VIM{Type: "vcenter"}); err == nil {
		t.Error("a type that isn't known has a driver")
	}
}
