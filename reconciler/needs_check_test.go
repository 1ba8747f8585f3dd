package reconciler_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// parsed is an instance as its file says.
func parsed(t *testing.T, dir, text string) *desired.Instance {
	t.Helper()
	in, err := desired.ParseInstance(dir+"/"+desired.InstanceFile, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// asking is a file that needs instances, in a directory of its own id.
func asking(dirs ...string) string {
	text := strings.Replace(udm("notInstantiated", ""), "id: "+udmID+"\n", "", 1)
	if len(dirs) > 0 {
		text += "needs:\n- " + strings.Join(dirs, "\n- ") + "\n"
	}
	return text
}

func TestNeedsThatCanNeverBeMetAreRefused(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	if err := w.repo.Seed(t.Context(), map[string][]byte{
		udmDir + "/vnf.yaml":           []byte(udm("instantiated", "needs: [instances/core/udr]\n")),
		"instances/core/udr/vnf.yaml":  []byte(asking()),
		"instances/far/nrf/vnf.yaml":   []byte(asking()),
		"instances/core/pcf/vnf.yaml":  []byte(asking(udmDir)),
		"projects/far.yaml":            []byte("instances: [far/**]\n"),
		"instances/core/idle/vnf.yaml": []byte(asking()),
	}, "others"); err != nil {
		t.Fatal(err)
	}
	w.op(udmID, lcm.Instantiate, lcm.Starting)
	settings, err := w.repo.Settings()
	if err != nil || len(settings.Projects) == 0 {
		t.Fatalf("projects %v: %v", settings.Projects, err)
	}
	in := func(dir, text string) *desired.Instance { return parsed(t, dir, text) }
	udr, pcf := "instances/core/udr", "instances/core/pcf"
	for name, c := range map[string]struct {
		changes []*desired.Instance // the first is checked
		gone    []string            // directories that go, of which the first is checked where nothing changes
		want    string              // "" passes
		line    int
	}{
		"what stands":        {changes: []*desired.Instance{in("instances/x", asking(udmDir, udr))}},
		"what comes along":   {changes: []*desired.Instance{in("instances/x", asking("instances/y")), in("instances/y", asking())}},
		"itself":             {changes: []*desired.Instance{in("instances/x", asking(udr, "instances/x"))}, want: "would need itself", line: 9},
		"an unknown one":     {changes: []*desired.Instance{in("instances/x", asking(udmDir, udr+"s"))}, want: "no instance stands in instances/core/udrs", line: 9},
		"one that goes":      {changes: []*desired.Instance{in("instances/x", asking("instances/core/idle"))}, gone: []string{"instances/core/idle"}, want: "no instance stands in"},
		"another project's":  {changes: []*desired.Instance{in("instances/x", asking("instances/far/nrf"))}, want: "isn't of project default"},
		"a circle with head": {changes: []*desired.Instance{in(udr, asking(pcf))}, want: "instances/core/udr -> instances/core/pcf -> instances/core/udm -> instances/core/udr", line: 8},
		"a circle within one change": {changes: []*desired.Instance{in("instances/x", asking("instances/y")), in("instances/y", asking("instances/x"))},
			want: "instances/x -> instances/y -> instances/x"},
		"a circle that another change opens":  {changes: []*desired.Instance{in(udr, asking(pcf)), in(pcf, asking())}},
		"one that is needed goes":             {gone: []string{udr}, want: udmDir + " needs the instance in " + udr},
		"it goes along with those":            {gone: []string{udr, udmDir, pcf}},
		"it goes, and those need it no more":  {gone: []string{udr}, changes: []*desired.Instance{nil, in(udmDir, udm("instantiated", ""))}},
		"one that nobody needs goes":          {gone: []string{pcf}},
		"it goes, and another takes its name": {gone: []string{udr}, changes: []*desired.Instance{nil, in(udr, strings.Replace(asking(), "name:", "id: 5b0e1d52-9a0c-4a3c-8a3f-6f1a64b1e0cc\nname:", 1))}},
	} {
		all := map[string]*desired.Instance{}
		var before, after *desired.Instance
		for i, dir := range c.gone {
			head, ok := w.repo.InDir(dir)
			if !ok {
				t.Fatalf("%s: %s is unknown", name, dir)
			}
			all[head.Instance] = nil
			if i == 0 && (len(c.changes) == 0 || c.changes[0] == nil) {
				if before, err = w.repo.Read(t.Context(), head.Revision); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, x := range c.changes {
			if x != nil {
				all[x.ID] = x
			}
		}
		if len(c.changes) > 0 {
			after = c.changes[0]
		}
		err := w.recon.View().Together(t.Context(), settings, all).Check(t.Context(), settings, before, after)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "":
			text := ""
			if after != nil {
				text = asking(dirsOf(after)...)
			}
			p, ok := reconciler.ProblemOf("instances/x", text, err)
			if !ok || !strings.Contains(p.Message, c.want) || c.line > 0 && p.Line != c.line {
				t.Errorf("%s: %+v, want %q at line %d", name, p, c.want, c.line)
			}
		}
	}
}

func dirsOf(in *desired.Instance) (dirs []string) {
	for _, n := range in.Needs {
		dirs = append(dirs, n.Instance)
	}
	return dirs
}

func TestANeedThatWasThereBeforeKeepsNobodyFromOtherChanges(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", needs), udm("instantiated", ""))
	w.op(id, lcm.Instantiate, lcm.Completed)
	w.remove(udmID, udmDir) // as a forge may have it
	settings, err := w.repo.Settings()
	if err != nil {
		t.Fatal(err)
	}
	before, after := parsed(t, dir, file("instantiated", needs)), parsed(t, dir, file("instantiated", "levels: {web: 2}\n"+needs))
	if err := w.recon.View().Check(t.Context(), settings, before, after); err != nil {
		t.Errorf("a scaling is refused: %v", err)
	}
	w.waitsFor(udmID, lcm.Terminate, dir)
}

func TestACommitOfAForgeWhoseNeedsCanNeverBeMetIsNotObeyedAndShown(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", "needs:\n- instances/core/none\n"))
	w.until("it is shown", func() bool {
		p, ok := w.recon.View().Problem(id)
		return ok && p.File == dir+"/vnf.yaml" && p.Line == 9 && strings.Contains(p.Message, "no instance stands in instances/core/none")
	})
	if n := w.begun(); n != 0 {
		t.Errorf("%d operations", n)
	}
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
}
