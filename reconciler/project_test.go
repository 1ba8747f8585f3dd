package reconciler_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// simulated makes a driver of a cloud of its own.
func simulated(v drivers.VIM) (drivers.Driver, error) { return sim.New(sim.NewCloud(), v), nil }

// inProjects are settings with the projects; the VIMs lab, of mine, and edge, of others.
func inProjects(t *testing.T, files map[string]string) *desired.Settings {
	t.Helper()
	s := &desired.Settings{VIMs: map[string]*desired.VIM{
		"lab":  {Name: "lab", Type: "sim", Default: true},
		"edge": {Name: "edge", Type: "sim", Endpoint: "https://edge:6443"},
	}}
	for name, text := range files {
		p, err := desired.ParseProject(desired.ProjectFile(name), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if problems := s.AddProject(p); len(problems) > 0 {
			t.Fatal(problems[0])
		}
	}
	return s
}

func TestAChangeIsHeldAgainstTheProjectOfTheInstance(t *testing.T) {
	t.Parallel()

	const folder = "instances/mine/amf"
	both := map[string]string{
		"mine":   "{instances: [mine], vims: [lab], repositories: [shelf]}",
		"others": "{instances: [others], vims: [edge], repositories: [elsewhere]}",
	}
	at := func(dir string, changes ...func(*desired.Instance)) *desired.Instance {
		return intended(func(in *desired.Instance) {
			in.Dir, in.VIM = dir, "lab"
			for _, change := range changes {
				change(in)
			}
		})
	}
	vim := func(name string) func(*desired.Instance) { return func(in *desired.Instance) { in.VIM = name } }
	own := func(in *desired.Instance) {
		in.VIM = ""
		in.VIMConnections = map[string]desired.VIMConnection{"own": {VimType: "sim", InterfaceInfo: map[string]string{"endpoint": "https://EDGE:6443/"}}}
	}
	unknown := func(in *desired.Instance) {
		in.VIM = ""
		in.VIMConnections = map[string]desired.VIMConnection{"own": {VimType: "sim", InterfaceInfo: map[string]string{"endpoint": "https://far:6443"}}}
	}
	placed := func(in *desired.Instance) { in.Placement = map[string]string{"VDU2": "edge"} }
	granted := func(in *desired.Instance) { in.Granted = &desired.Granted{VIM: "edge"} }
	scaled := func(in *desired.Instance) { in.Levels = map[string]int{"web": 2} }
	params := func(in *desired.Instance) { in.Params = map[string]any{"x": "y"} }
	without := func(key string) map[string]string {
		return map[string]string{"mine": strings.Replace(both["mine"], key, key+"x", 1)}
	}
	for name, c := range map[string]struct {
		projects      map[string]string
		before, after *desired.Instance
		says          string // "" is accepted
	}{
		"what it has":                                  {both, nil, at(folder), ""},
		"without any project":                          {nil, nil, at(folder, vim("edge")), ""},
		"another project's VIM":                        {both, nil, at(folder, vim("edge")), "project mine may not use VIM edge"},
		"another project's VIM, for one VDU":           {both, nil, at(folder, placed), "project mine may not use VIM edge"},
		"another project's VIM, as it was granted":     {both, nil, at(folder, granted), "project mine may not use VIM edge"},
		"another project's VIM, by its endpoint":       {both, nil, at(folder, own), "project mine may not use its own connection own"},
		"a VIM that no file knows":                     {both, nil, at(folder, unknown), "project mine may not use its own connection own"},
		"a VIM that no file knows, of default":         {both, nil, at("instances/x", unknown), "project default may not run package"},
		"another project's VIM, of default":            {both, nil, at("instances/x"), "project default may not use VIM lab"},
		"a package that it has no repository for":      {without("shelf"), nil, at(folder), "project mine may not run package " + tree1},
		"a move into another project":                  {both, at(folder), at("instances/others/amf"), "project others may not use VIM lab"},
		"a scale of what runs where it no longer may":  {without("lab"), at(folder), at(folder, scaled), ""},
		"a scale of what no repository has any more":   {without("shelf"), at(folder), at(folder, scaled), ""},
		"other parameters of a package that it runs":   {without("shelf"), at(folder), at(folder, params), ""},
		"another package that it has no repository of": {without("shelf"), at(folder, func(in *desired.Instance) { in.VnfdID, in.Package = vnfd2, tree2 }), at(folder), "may not run package"},
		"the end of what runs where it no longer may":  {without("lab"), at(folder), at(folder, func(in *desired.Instance) { in.State = desired.NotInstantiated }), ""},
		"the removal of what runs where it may not":    {without("lab"), at(folder), nil, ""},
		"an instantiation of what had ended":           {without("lab"), at(folder, func(in *desired.Instance) { in.State = desired.NotInstantiated }), at(folder), "may not use VIM lab"},
	} {
		err := newChecker().Check(t.Context(), inProjects(t, c.projects), c.before, c.after)
		_, reason, refused := reconciler.Refused(err)
		if c.says == "" && err != nil || c.says != "" && (!refused || !strings.Contains(reason, c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if refused && c.says != "" && !strings.Contains(reason, "projects/") {
			t.Errorf("%s: it doesn't say what to do: %s", name, reason)
		}
	}
}

func TestAProjectMayLetNoHooksRun(t *testing.T) {
	t.Parallel()

	settings := func(hooks string) *desired.Settings {
		return inProjects(t, map[string]string{"mine": "{instances: [mine], vims: [lab], repositories: [shelf]" + hooks + "}"})
	}
	checker := reconciler.NewChecker(newVendor(true, "scale_start"), simulated, nil)
	at := func(levels map[string]int, skip string) *desired.Instance {
		return intended(func(in *desired.Instance) {
			in.Dir, in.VIM, in.Levels, in.Hooks = "instances/mine/amf", "lab", levels, skip
		})
	}
	before, more := at(nil, ""), map[string]int{"web": 2}
	err := checker.Check(t.Context(), settings(", hooks: false"), before, at(more, ""))
	if field, reason, refused := reconciler.Refused(err); !refused || field != "hooks" || !strings.Contains(reason, "project mine lets none run") || !strings.Contains(reason, "projects/mine.yaml") {
		t.Errorf("hooks that the project doesn't let run: %v", err)
	}
	for what, err := range map[string]error{
		"hooks that it lets run":  checker.Check(t.Context(), settings(""), before, at(more, "")),
		"hooks that are left out": checker.Check(t.Context(), settings(", hooks: false"), before, at(more, desired.HooksSkip)),
		"no hooks":                reconciler.NewChecker(newVendor(true), simulated, nil).Check(t.Context(), settings(", hooks: false"), before, at(more, "")),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// numbered is an instance of the project mine, with its VNFCs: one of VDU1 and more by the level
// of web, two of VDU2.
func numbered(n, web int, state string) (instance, text string) {
	instance = uuid.NewSHA1(uuid.NameSpaceDNS, fmt.Append(nil, n)).String()
	return instance, fmt.Sprintf("id: %s\nname: n%d\nvnfdId: %s\nstate: %s\nflavour: simple\npackage: %s\nvim: lab\nlevels: {web: %d}\n", instance, n, vnfdID, state, pkgTree, web)
}

// ask writes as a request does.
func (w *world) ask(repo desired.Repo, instance, text string) error {
	_, err := repo.Write(w.t.Context(), desired.Write{Instance: instance, Dir: "instances/mine/" + instance, Subject: "ask", By: "Ann <ann@example.com>",
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{desired.InstanceFile: []byte(text)}, nil
		}})
	return err
}

// project pushes the file of the project mine.
func (w *world) project(more string) {
	w.t.Helper()
	l := &lives{world: w}
	l.push(map[string]string{"projects/mine.yaml": "instances: [mine, site-a]\nvims: ['*']\nrepositories: ['*']\n" + more})
}

func TestRequestsAtOnceNeverExceedAQuotaTogether(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.project("quotas: {instances: 5, vnfcs: 40}\n")
	repo := w.recon.View().Counted(w.repo)
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := 0
	for n := range 20 {
		wg.Go(func() {
			instance, text := numbered(n, 0, "instantiated")
			err := w.ask(repo, instance, text)
			mu.Lock()
			defer mu.Unlock()
			refused, isRefused := errors.AsType[*drivers.RefusedError](err)
			switch {
			case err == nil:
				accepted++
			case !isRefused || !refused.Conflict || !strings.Contains(refused.Reason, "the quota instances of project mine is 5"):
				t.Errorf("instance %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	if use := w.use("mine"); accepted != 5 || use.InstancesUsed != 5 || use.VNFCsUsed != 15 {
		t.Errorf("%d of 20 are accepted, and %d count with %d VNFCs, want 5 with 15", accepted, use.InstancesUsed, use.VNFCsUsed)
	}
}

func TestAQuotaOfVNFCsBoundsScaleOutsAndNothingElse(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.project("quotas: {vnfcs: 8}\n")
	repo := w.recon.View().Counted(w.repo)
	one, text := numbered(1, 0, "instantiated")
	two, other := numbered(2, 2, "instantiated")
	for id, text := range map[string]string{one: text, two: other} { // 3 and 5
		if err := w.ask(repo, id, text); err != nil {
			t.Fatal(err)
		}
	}
	scaled := func(n, web int) (string, string) { return numbered(n, web, "instantiated") }
	id, more := scaled(1, 1)
	if err := w.ask(repo, id, more); err == nil || !strings.Contains(err.Error(), "the quota vnfcs of project mine is 8, and with this change it would use 9") {
		t.Errorf("a scale-out beyond the quota: %v", err)
	}
	w.project("quotas: {vnfcs: 2}\n") // which is exceeded already
	for what, err := range map[string]error{
		"a scale-in":               w.ask(repo, two, strings.Replace(other, "web: 2", "web: 1", 1)),
		"another name":             w.ask(repo, one, strings.Replace(text, "name: n1", "name: other", 1)),
		"an end":                   w.ask(repo, one, strings.Replace(text, "state: instantiated", "state: notInstantiated", 1)),
		"what Jibe does by itself": w.ask(w.repo, two, other),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if use := w.use("mine"); use.InstancesUsed != 1 || use.VNFCsUsed != 5 || use.Quotas.VNFCs != 2 {
		t.Errorf("mine uses %+v", use)
	}
}

func TestACommitOfAForgeBeyondTheQuotaIsAProblemAndBeginsWhenThereIsRoom(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.project("quotas: {instances: 1}\n")
	first, text := numbered(1, 0, "instantiated")
	if err := w.ask(w.repo, first, text); err != nil {
		t.Fatal(err)
	}
	w.commit(file("instantiated", ""))
	w.problem("the quota instances of project mine is 1")
	if err := w.ask(w.repo, first, strings.Replace(text, "state: instantiated", "state: notInstantiated", 1)); err != nil {
		t.Fatal(err)
	}
	w.recon.EnqueueUnobeyed()
	w.last(lcm.Instantiate, lcm.Completed)
	w.obeyed()
}

func (w *world) use(project string) reconciler.ProjectUse {
	w.t.Helper()
	list, err := w.recon.View().Projects(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range list {
		if p.Name == project {
			return p
		}
	}
	w.t.Fatalf("no project %s in %+v", project, list)
	return reconciler.ProjectUse{}
}

func TestARetryMeetsTheRulesOfNowAndARollbackDoesNot(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.project("")
	w.cloud.Fail(web, "no luck")
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.FailedTemp)
	w.cloud.Fail(web, "")
	(&lives{world: w}).push(map[string]string{"projects/mine.yaml": "instances: [site-a]\nvims: [edge]\nrepositories: ['*']\n"})
	if _, err := w.log.Retry(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.until("the retry is refused", func() bool {
		op, err := w.log.Operation(t.Context(), op.ID)
		return err == nil && op.State == lcm.FailedTemp && op.Error != nil && strings.Contains(op.Error.Detail, "project mine may not use VIM lab")
	})
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.RolledBack)
}

func TestAClusterCanNotBeAVIMThatAnotherProjectClaims(t *testing.T) {
	t.Parallel()

	w, _, s := managed(t)
	s.leaves(edgeVIM("https://10.0.0.1:6443"))
	(&lives{world: w}).push(map[string]string{"projects/others.yaml": "instances: [others]\nvims: ['e*']\n"})
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	if op := w.last(lcm.Scale, lcm.FailedTemp); op.Error == nil || !strings.Contains(op.Error.Detail, "isn't one of project default") {
		t.Errorf("it ends with %+v", op.Error)
	}
	if v := w.provides(); v != nil {
		t.Errorf("the VIM is %+v", v)
	}
}

func TestAPushCountsAsAWhole(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.project("quotas: {instances: 2}\n")
	parsed := func(n int, state string) *desired.Instance {
		instance, text := numbered(n, 0, state)
		in, err := desired.ParseInstance("instances/mine/"+instance+"/"+desired.InstanceFile, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	standing := parsed(1, "instantiated")
	_, text := numbered(1, 0, "instantiated")
	if err := w.ask(w.repo, standing.ID, text); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		changes []*desired.Instance
		goes    bool // what stands goes in the same push
		refused int
	}{
		"one more":                  {[]*desired.Instance{parsed(2, "instantiated")}, false, 0},
		"two more":                  {[]*desired.Instance{parsed(2, "instantiated"), parsed(3, "instantiated")}, false, 2},
		"two in the place of one":   {[]*desired.Instance{parsed(2, "instantiated"), parsed(3, "instantiated")}, true, 0},
		"one, and one that is idle": {[]*desired.Instance{parsed(2, "instantiated"), parsed(3, "notInstantiated")}, false, 0},
	} {
		all := map[string]*desired.Instance{}
		for _, in := range c.changes {
			all[in.ID] = in
		}
		if c.goes {
			all[standing.ID] = nil
		}
		settings, err := w.repo.Settings()
		if err != nil {
			t.Fatal(err)
		}
		view, refused := w.recon.View().Together(t.Context(), settings, all), 0
		for _, in := range c.changes {
			if err := view.Check(t.Context(), settings, nil, in); err != nil {
				refused++
				if !strings.Contains(err.Error(), "the quota instances of project mine is 2") {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if refused != c.refused {
			t.Errorf("%s: %d are refused, want %d", name, refused, c.refused)
		}
	}
}
