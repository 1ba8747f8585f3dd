package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// refusals are the problems for which a proposal is refused, a line each.
func (f *followed) refusals(p admission.Proposal) string {
	f.Helper()
	a, err := f.Do(f.Context(), http.MethodPost, "/jibe/v1/check", p)
	if err != nil || a.Status != http.StatusOK {
		f.Fatalf("check: %v %+v", err, a)
	}
	var v admission.Verdict
	if err := json.Unmarshal(a.Body, &v); err != nil {
		f.Fatal(err)
	}
	var lines []string
	for _, p := range v.Problems {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// small is where the package comes from, and cloud where it runs.
func small() []desired.Repository {
	return []desired.Repository{{Name: "small", URL: "packages.git", Path: "small", Tags: "v*"}}
}

func cloud() map[string]*desired.VIM {
	return map[string]*desired.VIM{"cloud": {Type: "sim", Default: true}}
}

func TestSettingsThatInstancesNeedCanNotGo(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFollowed(t, "")
	f.upstream("same.git", nil, "1.4.0")
	f.upstream("other.git", nil, "2.0.0")
	change(f.desired, map[string]string{"vims/spare.yaml": "type: sim\n"})
	spare := cloud()
	spare["spare"] = &desired.VIM{Type: "sim"}
	gone := []admission.Candidate{{Dir: "instances/a", Instance: followID}}
	ended := []admission.Candidate{{Dir: "instances/a", File: f.file("state: notInstantiated\n")}}
	moved := []admission.Candidate{{Dir: "instances/a", Instance: followID}, {Dir: "instances/b", File: f.file("")}}
	const (
		needsVIM  = "vims/cloud.yaml: can't go: 1 instance runs at VIM cloud: instances/a (terminate them first"
		needsRepo = "repositories.yaml: can't go: 1 instance runs packages that repository small alone has: instances/a (terminate them first"
	)
	for name, tc := range map[string]struct {
		repos []desired.Repository
		vims  map[string]*desired.VIM
		of    []admission.Candidate
		want  string
	}{
		"no VIM":                     {small(), nil, nil, needsVIM},
		"another VIM":                {small(), map[string]*desired.VIM{"spare": {Type: "sim", Default: true}}, nil, needsVIM},
		"no VIM, and it is moved":    {small(), nil, moved, needsVIM},
		"no spare VIM":               {small(), cloud(), nil, ""},
		"no VIM and no instance":     {small(), nil, gone, ""},
		"no VIM and nothing on it":   {small(), nil, ended, ""},
		"no repositories":            {nil, spare, nil, needsRepo},
		"an entry that has it not":   {[]desired.Repository{{Name: "small", URL: "other.git", Path: "small", Tags: "v*"}}, spare, nil, needsRepo},
		"another that has it too":    {[]desired.Repository{{Name: "new", URL: "same.git", Path: "small", Tags: "v*"}}, spare, nil, ""},
		"no repository, no instance": {nil, spare, gone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.refusals(admission.Proposal{Settings: &desired.Settings{Repositories: tc.repos, VIMs: tc.vims}, Instances: tc.of})
			if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) || len(tc.of) < 2 && strings.Contains(got, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestAVIMCanNotGoWhileATerminationIsUnderWayThere(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, "")
	f.cloud.Hold(followObject, true)
	change(f.desired, map[string]string{"instances/a/vnf.yaml": f.file("state: notInstantiated\n")})
	f.terminates("PROCESSING")
	const want = "vims/cloud.yaml: can't go: 1 instance runs at VIM cloud: instances/a"
	if got := f.refusals(admission.Proposal{Settings: &desired.Settings{Repositories: small()}}); !strings.HasPrefix(got, want) {
		t.Errorf("while it is terminated: %q", got)
	}
	f.cloud.Hold(followObject, false)
	f.terminates("COMPLETED")
	if got := f.refusals(admission.Proposal{Settings: &desired.Settings{Repositories: small()}}); got != "" {
		t.Errorf("afterwards: %q", got)
	}
}

// terminates waits until the termination has the state.
func (f *followed) terminates(state string) {
	f.Helper()
	kit.Eventually(f.T, func() error {
		var ops []operation
		if err := f.Get(f.Context(), "/vnflcm/v2/vnf_lcm_op_occs?all_fields&filter=(eq,operation,TERMINATE)", &ops); err != nil {
			return err
		}
		if len(ops) != 1 || ops[0].OperationState != state {
			return fmt.Errorf("%+v", ops)
		}
		return nil
	})
}

func TestAnInstanceThatGoesInThePushOfItsVIMIsTerminatedByTheDefinitionBefore(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	for name, how := range map[string]func(f *followed) map[string]string{
		"removed": func(*followed) map[string]string { return map[string]string{"vims": "", "instances": ""} },
		"notInstantiated": func(f *followed) map[string]string {
			return map[string]string{"vims": "", "instances/a/vnf.yaml": f.file("state: notInstantiated\n")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFollowed(t, "")
			if len(f.cloud.Instances()) == 0 {
				t.Fatal("nothing runs: the rest proves nothing")
			}
			f.cloud.Hold(followObject, true)
			f.desired.Change("Close the site", how(f))
			f.terminates("PROCESSING")
			// The next process finds it, too.
			f.stop()
			f.start(f.Data)
			f.cloud.Hold(followObject, false)
			f.terminates("COMPLETED")
			if left := f.cloud.Instances(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// newForged is newFollowed where the desired repository is a mirror of a forge's.
func newForged(t *testing.T) *followed {
	t.Helper()
	f := &followed{T: t, cloud: sim.NewCloud(), desired: process.NewBare(t)}
	f.remote = f.desired.Dir
	f.onForge("Begin", map[string]string{
		"repositories.yaml":    "- {name: small, url: packages.git, path: small, tags: \"v*\"}\n",
		"vims/cloud.yaml":      "type: sim\ndefault: true\n",
		"instances/a/vnf.yaml": f.file(""),
	})
	f.start(t.TempDir())
	t.Cleanup(func() { f.stop() })
	f.packages = packagesOf(t, f.Server)
	f.release(nil, "1.4.0", "1.4.1")
	f.runs("1.4.0")
	return f
}

// onForge pushes a change to the forge, where no hook stands; "" removes a file or folder.
func (f *followed) onForge(why string, files map[string]string) {
	f.Helper()
	f.desired.Change(why, files)
	if f.Server != nil {
		poke(f.T, f.Server)
	}
}

// problems waits until as many problems of the desired state are counted.
func (f *followed) problems(n int) {
	f.Helper()
	kit.Eventually(f.T, func() error {
		a, err := f.Do(f.Context(), http.MethodGet, "/metrics", nil)
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("\njibe_desired_problems %d\n", n); !strings.Contains(string(a.Body), want) {
			_, now, _ := strings.Cut(string(a.Body), "\njibe_desired_problems ")
			return fmt.Errorf("not %d problems but %.3s", n, now)
		}
		return nil
	})
}

func TestOnAForgeWhatInstancesNeedOfTheSettingsCountsUntilTheyHaveGone(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newForged(t)
	f.onForge("Tidy up", map[string]string{"vims": "", "repositories.yaml": "", "README.md": "nothing here\n"})
	f.problems(2)
	f.stop()
	f.start(f.Data)
	f.problems(2)
	// Both the VIM and the repository are still those that count.
	a, err := f.Do(t.Context(), http.MethodPost, "/vnflcm/v2/vnf_instances/"+followID+"/change_vnfpkg", map[string]any{"vnfdId": vnfdID("1.4.1")})
	if err != nil || a.Status != http.StatusAccepted {
		t.Fatalf("change_vnfpkg: %v %+v", err, a)
	}
	f.runs("1.4.1")
	f.problems(2)
	f.onForge("Close", map[string]string{"instances": ""})
	f.terminates("COMPLETED")
	f.problems(0)
	if left := f.cloud.Instances(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	kit.Eventually(t, func() error {
		if now := f.git(f.Desired(), "for-each-ref", "refs/jibe/upstream"); now != "" {
			return fmt.Errorf("packages are still known: %s", now)
		}
		return nil
	})
}
