package openstack_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/osenv"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// configured is an instance whose VDU1, a group, gets what only Heat knows: the id of a
// resource of that name and content, and a hidden parameter.
func configured(id, name, content string) drivers.Source {
	return configuredAs(grouped, "img1", id, name, content)
}

// configuredAs is configured with that top template and image.
func configuredAs(top, image, id, name, content string) drivers.Source {
	const network = "network: {get_param: [nfv, CP, CP1, network]}"
	indent := top[strings.LastIndex(top[:strings.Index(top, network)], "\n"):strings.Index(top, network)]
	top = strings.Replace(top, network, fmt.Sprintf("%[2]s%[1]sboot: {list_join: [' ', [{get_resource: %[3]s}]]}%[1]sword: {get_param: word}", indent, network, name), 1)
	top = strings.Replace(top, "resources:\n", fmt.Sprintf("  word: {type: string, hidden: true}\nresources:\n  %s: {type: OS::Heat::SoftwareConfig, properties: {config: %q}}\n", name, content), 1)
	nested := strings.Replace(front, "resources:\n", "  boot: {type: string}\n  word: {type: string}\nresources:\n", 1)
	nested = strings.Replace(nested, "      networks:", "      user_data_format: RAW\n      user_data: {get_param: boot}\n      networks:", 1)
	src := source(id, top, 2, image)
	files := src.Package.Files.(fstest.MapFS)
	files["BaseHOT/simple/nested/VDU1.yaml"] = &fstest.MapFile{Data: []byte(nested)}
	src.Instance.Params["word"] = "of " + content
	return src
}

func TestAGroupThatGetsWhatOnlyHeatKnowsIsRenewedOneByOneAtAFakeCloud(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	renewedOneByOne(t, start(t, cloud))
	if left := cloud.Left(); len(left) > 0 {
		t.Errorf("terminating left %v", left)
	}
}

func TestAGroupThatGetsWhatOnlyHeatKnowsIsRenewedOneByOneAtARealCloud(t *testing.T) {
	t.Parallel()
	vim := lab(t)
	osenv.NeedFull(t)
	renewedOneByOne(t, begin(t, vim, realSpeed))
}

func renewedOneByOne(t *testing.T, v *vnf) {
	t.Helper()
	before, after := configured(v.id, "boot_1", "first"), configured(v.id, "boot_2", "second")
	after.Instance.Update.Strategy = desired.Rolling
	if err := v.d.Change(before, after); err != nil {
		t.Error(err)
	}
	was, back, now := rolls(t, v, before, after, 1)
	if n := len(differing(was, back, "VDU1")); n != 1 {
		t.Errorf("after the rollback %d servers have other ids, want that of the one that had been renewed", n)
	}
	if n := len(differing(back, now, "VDU1")); n != 2 {
		t.Errorf("after the change %d of 2 servers have other ids: their user data are others", n)
	}
	v.gone()
}

func TestAMemberIsNotRenewedWithWhatHeatCantResolve(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := start(t, cloud)
	before, after := configured(v.id, "boot_1", "first"), configured(v.id, "boot_2", "second")
	files := after.Package.Files.(fstest.MapFS)
	top := strings.Replace(string(files["BaseHOT/simple/top.yaml"].Data), "{list_join: [' ', [{get_resource: boot_2}]]}", "{get_attr: [boot_2, nothing]}", 1)
	files["BaseHOT/simple/top.yaml"] = &fstest.MapFile{Data: []byte(top)}
	was := v.reach(before)
	want := v.render(after)
	j := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true, Hooks: []string{"change_current_package_start"}}
	kit.Eventually(t, func() error {
		o, err := v.d.Observe(t.Context(), want)
		if err != nil {
			return err
		}
		next := plan.Next(plan.Compute(want.Desired, o, j))
		if j, _ = j.Issue(next); next[0].Action == plan.Wait {
			return fmt.Errorf("%v", next)
		}
		err = v.d.Do(t.Context(), want, next...)
		if next[0].Action == plan.Renew && err != nil {
			refused(t, err, "Heat doesn't resolve what the group of VDU VDU1 passes to its members (the stack's output jibe_next has no value)")
			return nil
		}
		return fmt.Errorf("%v: %w", next, err)
	})
	if n := len(differing(was, v.observe(after), "VDU1")); n != 0 {
		t.Errorf("%d servers are others", n)
	}
	v.gone()
}

// Of the same name in both versions, Heat would make the resource anew, and with it both servers
// at once.
func TestAChangeThatRenewsSeveralVNFCsAtOnceIsRefusedUnlessItMay(t *testing.T) {
	t.Parallel()

	d := renderer(t)
	before, after := configured("i1", "boot", "first"), configured("i1", "boot", "second")
	refused(t, d.Change(before, after), "BaseHOT/simple/top.yaml: resource boot is another (its property config), and VDU VDU1 is made of it")
	refused(t, d.Change(before, after), "give the resource another name in the new version")
	after.Instance.Update.AllAtOnce = true
	if err := d.Change(before, after); err != nil {
		t.Errorf("though update.allAtOnce allows it: %v", err)
	}
	after.Instance.Update = desired.UpdatePolicy{Strategy: desired.BlueGreen}
	after.Instance.Generation = "1"
	if err := d.Change(before, after); err != nil {
		t.Errorf("though two stacks stand side by side: %v", err)
	}
	// Those who run aren't made of it, and those who are renewed would be in a rollback.
	before, after = configured("i1", "boot", "first"), configured("i1", "boot", "second")
	unused := before.Package.Files.(fstest.MapFS)["BaseHOT/simple/top.yaml"]
	unused.Data = []byte(strings.Replace(string(unused.Data), "{list_join: [' ', [{get_resource: boot}]]}", "nothing", 1))
	refused(t, d.Change(before, after), "VDU VDU1 is made of it: in a rollback, Heat would renew all VNFCs of the VDU at once")
	// Where nobody runs, nobody is renewed.
	before, after = configured("i1", "boot", "first"), configured("i1", "boot", "second")
	before.Package.VNFD.Flavours[0].VDUs[0] = vnfd.VDU{ID: "VDU1", Name: "VDU1", Initial: 0, Deltas: map[string]int{"front_aspect": 1}, Max: 5}
	before.Instance.Levels["front_aspect"] = 0
	if err := d.Change(before, after); err != nil {
		t.Errorf("though there is no VNFC: %v", err)
	}
}

// Where Heat makes both servers anew with the shared resource, they are made of the next version
// then, so that their turn brings each its script and no further renewal.
func TestVNFCsThatMayBeRenewedTogetherAreRenewedOnceAndOneAtATimeWhereTheyCanBe(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		name, top, next string
		others, turns   int // servers with other ids, and renewals one at a time
	}{
		{"a group whose resource is another", grouped, "second", 2, 0},
		{"resources for each VNFC whose resource is another", expanded, "second", 2, 0},
		{"a group whose image alone is another", grouped, "first", 0, 2},
		{"resources for each VNFC whose image alone is another", expanded, "first", 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := start(t, fakeCloud(t))
			before, after := configuredAs(c.top, "img1", v.id, "boot", "first"), configuredAs(c.top, "img2", v.id, "boot", c.next)
			after.Instance.Update = desired.UpdatePolicy{Strategy: desired.Rolling, AllAtOnce: true}
			was := v.reach(before)
			v.coordinate = true
			journal := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}
			now := v.succeed(after, &journal)
			if n := len(differing(was, now, "VDU1")); n != c.others {
				t.Errorf("%d of 2 servers are others, want %d", n, c.others)
			}
			turns := slices.DeleteFunc(slices.Clone(journal.Issued), func(s plan.StepKey) bool { return !strings.HasPrefix(string(s), string(plan.Renew)+":Server/VDU1/") })
			if len(turns) != c.turns {
				t.Errorf("they were renewed by %v, want %d such steps", turns, c.turns)
			}
			if scripts := scriptsFor(journal); len(scripts) != 2 {
				t.Errorf("the scripts were %v, want one for each of 2 VNFCs", scripts)
			}
			v.coordinate = false
			v.gone()
		})
	}
}

// The change may be what replaces the reference.
func TestAReferenceThatLeadsNowhereInWhatRunsPreventsNoChangeButOneOfWhatIsMadeOfIt(t *testing.T) {
	t.Parallel()

	d := renderer(t)
	sealed := func(src drivers.Source) drivers.Source {
		src.Instance.Params["word"] = "file:/secrets/former"
		src.Sealed = errors.New("open /secrets/former: no such file")
		return src
	}
	before, after := sealed(configured("i1", "boot", "first")), configured("i1", "boot", "first")
	if err := d.Change(before, after); err != nil {
		t.Errorf("a hidden parameter that each VNFC gets by itself: %v", err)
	}
	refused(t, d.Change(configured("i1", "boot", "first"), sealed(after)), "no such file")
	before, after = sealed(configured("i1", "boot", "first")), configured("i1", "boot", "first")
	for _, src := range []drivers.Source{before, after} {
		top := src.Package.Files.(fstest.MapFS)["BaseHOT/simple/top.yaml"]
		top.Data = []byte(strings.Replace(string(top.Data), `config: "first"`, "config: {get_param: word}", 1))
	}
	refused(t, d.Change(before, after), "resource boot is another (its property config)")
}
