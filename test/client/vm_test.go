package client

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/test/process"
)

// machines is the vnfdId of the guide's VNF of virtual machines.
const machines = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b40"

// startWith starts a server that takes Keystone's tokens, with a VIM and the package.
func startWith(t *testing.T, keystone, project, vim string) *process.Server {
	t.Helper()
	s := process.Start(t, filepath.Join(process.ShortTempDir(t), "data"),
		"--keystone", keystone, "--keystone-role", "reader=read,member=operate", "--keystone-project", project)
	s.PushFiles(t, map[string]string{"vims/openstack-a.yaml": s.Keep(t, vim)})
	s.PushPackages(t, []string{machines}, example("vm-asg-1.0"))
	return s
}

func TestTheLifeOfAVNFOfVirtualMachinesIsAsTheGuideShowsIt(t *testing.T) {
	t.Parallel()
	cloud := openstacktest.New(t, openstacktest.Options{})
	at := cloud.VIM()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(at.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startWith(t, at.Endpoint, at.Project+"@Default", fmt.Sprintf("type: openstack\ndefault: true\nendpoint: %s\nregion: %s\nproject: %s\ncredentials: {username: %s, password: 'file:%s'}\n",
		at.Endpoint, at.Region, at.Project, at.Username, password))
	cloud.AddNetwork("net1", "subnet1", "10.11.0.0/16")
	cloud.AddEndpoint("nfv-orchestration", s.URL)
	names := map[string]string{
		"http://keystone.example:5000/v3": at.Endpoint, "http://127.0.0.1:9890": s.URL, "$TOKEN": s.Token, "$PASSWORD": at.Password,
		"OS_USERNAME=ann": "OS_USERNAME=" + at.Username, "OS_PROJECT_NAME=vnf": "OS_PROJECT_NAME=" + at.Project,
	}
	r := newReader(t, names)
	r.follow("Log in")
	r.follow("The life of a VNF of virtual machines")
	if left := cloud.Servers(); len(left) > 0 {
		t.Errorf("%d servers are left", len(left))
	}
	newReader(t, names).follow("With a password")
}

func TestPackagesAndVIMsAreBroughtAsTheGuideShowsIt(t *testing.T) {
	t.Parallel()
	cloud := openstacktest.New(t, openstacktest.Options{})
	at := cloud.VIM()
	s := process.Start(t, filepath.Join(process.ShortTempDir(t), "data"))
	r := newReader(t, map[string]string{
		"http://keystone.example:5000/v3": at.Endpoint, "$PASSWORD": at.Password,
		"username: ann": "username: " + at.Username, "project_name: vnf": "project_name: " + at.Project,
	})
	r.env = []string{"OS_AUTH_TYPE=admin_token", "OS_ENDPOINT=" + s.URL, "OS_TOKEN=" + s.Token}
	if out, said, code := s.CLI(t, "package", "build", example("rolling-1.0"), "--output", filepath.Join(r.dir, "rolling.csar")); code != 0 {
		t.Fatalf("%s%s", out, said)
	}
	r.follow("Packages")
	r.follow("VIMs")
}

func TestTheClientNeedsNoTokenWhereNobodyDoes(t *testing.T) {
	t.Parallel()
	s := process.Start(t, filepath.Join(process.ShortTempDir(t), "data"), "--insecure-dev")
	newReader(t, map[string]string{"http://127.0.0.1:9890": s.URL}).follow("Without any token")
}
