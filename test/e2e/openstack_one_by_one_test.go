package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// together is a server at a cloud in this process, with a VNF whose VDU1 is made of a resource
// that it shares: Heat makes that anew, and with it both servers at once, where the package's
// text or the parameter "word" is another.
type together struct {
	*bench
	cloud    *openstacktest.Cloud
	id, file string
	d        *process.WorkTree
}

// shares makes of the grouped sample one whose VDU1 is made of the shared resource.
func shares(t *testing.T, vnfd, text string) string {
	t.Helper()
	dir := process.NextVersion(t, filepath.Join(process.Root(), "examples", "packages", samples[grouped1]), "shares-"+text, grouped1, vnfd)
	d := process.WorkTreeAt(t, dir)
	const top, nested = "BaseHOT/simple/top.yaml", "BaseHOT/simple/nested/VDU1.yaml"
	d.Replace(top, "resources:\n", "  word: {type: string}\nresources:\n  boot: {type: OS::Heat::SoftwareConfig, properties: {config: {list_join: [' ', ["+text+", {get_param: word}]]}}}\n")
	d.Replace(top, "          network: { get_param: [nfv, CP, CP1", "          boot: {get_resource: boot}\n          network: { get_param: [nfv, CP, CP1")
	d.Replace(nested, "resources:\n", "  boot: {type: string}\nresources:\n")
	d.Replace(nested, "      networks:", "      user_data_format: RAW\n      user_data: {get_param: boot}\n      networks:")
	return dir
}

// newTogether starts the server and pushes the VNF. args are the server's, and desired is what
// it takes its intent from, nil for its own repository.
func newTogether(t *testing.T, desired *process.WorkTree, args ...string) *together {
	t.Helper()
	x := &together{bench: &bench{T: t}, cloud: openstacktest.New(t, openstacktest.Options{}), file: "instances/site-a/vnf/vnf.yaml", d: desired}
	x.server = serve(t, filepath.Join(process.ShortTempDir(t), "data"), args...)
	if x.d == nil {
		x.d = x.clone(t, "desired.git")
	}
	at := x.cloud.VIM()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(at.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	x.d.Write("repositories.yaml", "- name: packages\n  url: packages.git\n  branch: main\n")
	x.d.Write("vims/openstack-a.yaml", x.process.Keep(t, fmt.Sprintf("type: openstack\nendpoint: %s\nregion: %s\nproject: %s\ncredentials: {username: %s, password: 'file:%s'}\n",
		at.Endpoint, at.Region, at.Project, at.Username, password)))
	x.d.Push("Begin")
	x.process.PushPackages(t, []string{grouped1, grouped2}, shares(t, grouped1, "first"), shares(t, grouped2, "second"))
	x.d.Write(x.file, machinesFile("together", grouped1, "openstack-a", "levels: {VDU1_aspect: 1}\nparams: {word: old}\n",
		link("front", "net0", "CP1"), link("back", "net0", "CP2")))
	x.d.Push("Run")
	x.id = x.idOf("together")
	x.outcome(x.id, 0, "INSTANTIATE COMPLETED")
	x.d.Pull()
	return x
}

// fronts are the ids of the servers of VDU1.
func (x *together) fronts() []string {
	var all []string
	for _, s := range x.cloud.Servers() {
		if s.Metadata["jibe_vdu"] == "VDU1" {
			all = append(all, s.ID)
		}
	}
	slices.Sort(all)
	return all
}

// stays fails unless f changes neither a server nor the head of the desired repository as Jibe
// has it, and begins no operation.
func (x *together) stays(f func()) {
	x.Helper()
	head := func() string {
		out, err := process.Git(x.Context(), x.process.Desired(), "rev-parse", "main")
		if err != nil {
			x.Fatal(err, out)
		}
		return out
	}
	servers, at, n := x.fronts(), head(), len(x.history(x.T, x.id))
	f()
	if now := x.fronts(); !slices.Equal(now, servers) || head() != at {
		x.Errorf("the servers were %v and are %v; head was %s and is %s", servers, now, at, head())
	}
	if err := x.counted(x.id, n); err != nil {
		x.Error(err)
	}
}

// What a user is told of such a change, wherever it comes from.
var toldOfTogether = []string{
	"BaseHOT/simple/top.yaml", "resource boot is another (its property config)", "VDU VDU1 is made of it",
	"give the resource another name in the new version", "blue-green", "update.allAtOnce",
}

// tells fails unless the text has all that a user needs to know, and the words.
func (x *together) tells(text string, words ...string) {
	x.Helper()
	for _, w := range append(words, toldOfTogether...) {
		if !strings.Contains(text, w) {
			x.Errorf("%q isn't in:\n%s", w, text)
		}
	}
}

// others are changes that renew both servers at once, with the text that they replace.
var others = map[string][2]string{
	"another package":  {"vnfdId: " + grouped1, "vnfdId: " + grouped2},
	"parameters alone": {"word: old", "word: new"},
}

func TestAChangeThatWouldRenewSeveralVirtualMachinesAtOnceIsRefusedByAPIPushAndPreviewUnlessItMay(t *testing.T) {
	t.Parallel()
	x := newTogether(t, nil)
	changing := object{"vnfdId": grouped2, "additionalParams": object{"upgrade_type": "RollingUpdate"}}
	x.stays(func() {
		a := x.rest(t, http.MethodPost, instances+"/"+x.id+"/change_vnfpkg", changing)
		if a.Status != http.StatusBadRequest {
			t.Errorf("the request is answered with %d: %s", a.Status, a.Body)
		}
		x.tells(a.object(t).text("detail"))
		changing := object{"vnfdId": grouped1, "additionalParams": object{"upgrade_type": "RollingUpdate", "word": "new"}}
		a = x.rest(t, http.MethodPost, instances+"/"+x.id+"/change_vnfpkg", changing)
		if a.Status != http.StatusBadRequest {
			t.Errorf("the request for other parameters is answered with %d: %s", a.Status, a.Body)
		}
		x.tells(a.object(t).text("detail"))
		for what, change := range others {
			x.d.Replace(x.file, change[0], change[1])
			x.d.Commit(what)
			out, errs, code := x.cli(t, "plan", x.d.Dir())
			if code != 1 {
				t.Errorf("%s: jibe plan ends with %d:\n%s%s", what, code, out, errs)
			}
			x.tells(out+errs, x.file)
			out, err := x.d.TryPush()
			if err == nil {
				t.Fatalf("%s: the push is accepted:\n%s", what, out)
			}
			x.tells(out, x.file)
			x.d.Reset()
		}
	})

	// Each server is another one afterwards, as its user data are.
	before := x.fronts()
	x.amend(x.d, x.file, "Allow it", "word: old}", "word: new}\nupdate: {allAtOnce: true}")
	x.outcome(x.id, 1, "CHANGE_VNFPKG COMPLETED")
	between := x.fronts()
	x.outcome(x.id, 2, x.server.run(t, x.id, "change_vnfpkg", changing).text("operation")+" COMPLETED")
	after := x.fronts()
	for _, servers := range [][]string{between, after} {
		if len(servers) != 2 || slices.ContainsFunc(servers, func(id string) bool { return slices.Contains(before, id) }) {
			t.Errorf("the servers were %v, then %v, and are %v", before, between, after)
		}
		before = servers
	}
}

func TestACommitOnAForgeThatWouldRenewSeveralVirtualMachinesAtOnceIsShownAndNotBegunUntilItMay(t *testing.T) {
	t.Parallel()
	forge := process.NewForge(t, nil)
	x := newTogether(t, process.NewWorkTree(t, forge), "--remote", "file://"+forge, "--poll", "1s")
	shown := func() []object {
		return decodeList(t, x.must(t, http.StatusOK, http.MethodGet, "/jibe/v1/problems", nil).Body)
	}
	servers := x.fronts()
	for what, change := range others {
		x.amend(x.d, x.file, what, change[0], change[1])
		var problem object
		kit.Eventually(t, func() error {
			list := shown()
			if len(list) != 1 {
				return fmt.Errorf("%s: the problems are %v", what, list)
			}
			problem = list[0]
			return nil
		})
		x.tells(problem.text("message"))
		if problem.text("file") != x.file || problem.text("instance") != x.id {
			t.Errorf("%s: the problem is %v", what, problem)
		}
		if out, _, _ := x.cli(t, "get", "instances"); !strings.Contains(out, "not obeyed: ") {
			t.Errorf("%s: jibe get instances has no note of it:\n%s", what, out)
		}
		if err := x.counted(x.id, 1); err != nil || !slices.Equal(x.fronts(), servers) {
			t.Errorf("%s: %v; the servers were %v and are %v", what, err, servers, x.fronts())
		}
		x.amend(x.d, x.file, "Take it back", change[1], change[0])
		kit.Eventually(t, func() error {
			if list := shown(); len(list) > 0 {
				return fmt.Errorf("%s: taken back, the problems are %v", what, list)
			}
			return nil
		})
	}
	x.amend(x.d, x.file, "Allow it", "vnfdId: "+grouped1, "update: {allAtOnce: true}\nvnfdId: "+grouped2)
	x.outcome(x.id, 1, "CHANGE_VNFPKG COMPLETED")
	if now := x.fronts(); len(now) != 2 || slices.ContainsFunc(now, func(id string) bool { return slices.Contains(servers, id) }) {
		t.Errorf("the servers were %v and are %v", servers, now)
	}
}
