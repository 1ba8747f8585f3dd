package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	followID     = "3a5c1f0e-0000-4000-8000-00000000000f"
	followObject = "Workload/a/vdu1"
)

// followed is an instance that follows its package, and the package's repository.
type followed struct {
	*testing.T
	*process.Server
	cloud    *sim.Cloud
	packages *process.Bare
	desired  *process.Bare
	remote   string // of which the desired repository is a mirror, "" where it is the one
	stop     func()
}

// newFollowed runs an instance at version 1.4.0, with more lines in its vnf.yaml.
func newFollowed(t *testing.T, extra string) *followed {
	t.Helper()
	return newFollowedWith(t, extra, map[string]string{"vims/cloud.yaml": "type: sim\ndefault: true\n"})
}

// newFollowedWith is newFollowed with other files of the desired repository.
func newFollowedWith(t *testing.T, extra string, files map[string]string) *followed {
	t.Helper()
	f := &followed{T: t, cloud: sim.NewCloud()}
	// All of it is there before the server is.
	data := t.TempDir()
	lay(t, data)
	f.packages = process.BareAt(t, filepath.Join(data, "packages", "packages.git"))
	f.release(nil, "1.4.0")
	f.desired = process.BareAt(t, filepath.Join(data, "desired.git"))
	all := map[string]string{
		"repositories.yaml":    "- {name: small, url: packages.git, path: small, tags: \"v*\"}\n",
		"instances/a/vnf.yaml": f.file(extra),
	}
	maps.Copy(all, files)
	change(f.desired, all)
	f.start(data)
	t.Cleanup(func() { f.stop() })
	f.runs("1.4.0")
	return f
}

func (f *followed) file(extra string) string {
	return "id: " + followID + "\nname: web\nvnfdId: " + vnfdID("1.4.0") + "\nflavour: simple\nparams: {namespace: a}\n" + extra
}

// start runs a process on the data directory.
func (f *followed) start(data string) {
	f.Helper()
	f.Server, f.stop = start(f.T, data, f.cloud, f.remote)
}

// vnfdID is that of a version of the package.
func vnfdID(version string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("small "+version)).String()
}

// release tags versions of the package, which edit may alter, and pushes all at once.
func (f *followed) release(edit func(text string) string, versions ...string) {
	f.Helper()
	slices.SortFunc(versions, func(a, b string) int { return semver.MustParse(a).Compare(semver.MustParse(b)) })
	commits := map[string]string{}
	for _, v := range versions {
		commits[v] = f.packages.CopyTree("Release "+v, "small", process.SmallPackage(), func(file, text string) string {
			if !strings.HasPrefix(file, "Definitions/") {
				return text
			}
			next := strings.NewReplacer(process.SmallVnfd, vnfdID(v), "'1.0'", "'"+v+"'").Replace(text)
			if edit != nil {
				next = edit(next)
			}
			return next
		})
	}
	// The last comes last: whoever sees some of them sees no step missing.
	for _, v := range versions {
		f.packages.Move("refs/tags/v"+v, commits[v])
	}
}

func (f *followed) git(dir string, args ...string) string {
	f.Helper()
	out, err := process.Git(f.Context(), dir, args...)
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// revert takes a commit of the desired repository back with git, on top of what is there.
func (f *followed) revert(commit string) {
	f.Helper()
	clone := process.NewClone(f.T, f.Desired())
	f.git(clone.Dir, "revert", "--no-edit", commit)
	f.lands(clone)
}

// lands pushes what a clone has, on top of what Jibe commits meanwhile.
func (f *followed) lands(clone *process.Clone) {
	f.Helper()
	for {
		err := clone.Push(f.Context())
		if err == nil {
			return
		}
		if !process.Overtaken(err) {
			f.Fatal(err)
		}
		if err := clone.Rebase(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// operation is one as the API shows it.
type operation struct {
	ID, Operation, OperationState string
	StartTime, StateEnteredTime   time.Time
}

// upgrades are the changes of package, the oldest first.
func (f *followed) upgrades() []operation {
	f.Helper()
	var ops []operation
	if err := f.Get(f.Context(), "/vnflcm/v2/vnf_lcm_op_occs?all_fields", &ops); err != nil {
		f.Fatal(err)
	}
	ops = slices.DeleteFunc(ops, func(o operation) bool { return o.Operation != "CHANGE_VNFPKG" })
	slices.SortFunc(ops, func(a, b operation) int { return a.StartTime.Compare(b.StartTime) })
	return ops
}

// runs waits until the version runs and nothing is under way.
func (f *followed) runs(version string) {
	f.Helper()
	kit.Eventually(f.T, func() error {
		var got struct{ VnfdID, InstantiationState string }
		if err := f.Get(f.Context(), "/vnflcm/v2/vnf_instances/"+followID, &got); err != nil {
			return err
		}
		if got.VnfdID != vnfdID(version) || got.InstantiationState != "INSTANTIATED" {
			return fmt.Errorf("%+v is not %s", got, version)
		}
		return nil
	})
}

// known waits until the catalogue has the version.
func (f *followed) known(version string) {
	f.Helper()
	kit.Eventually(f.T, func() error {
		var list []struct{ VnfdID string }
		if err := f.Get(f.Context(), "/jibe/v1/packages", &list); err != nil {
			return err
		}
		for _, p := range list {
			if p.VnfdID == vnfdID(version) {
				return nil
			}
		}
		return fmt.Errorf("version %s isn't known: %v", version, list)
	})
}

// commits are the subjects of the follower's commits on a branch, the oldest first.
func (f *followed) commits(branch string) string {
	f.Helper()
	return f.git(f.Desired(), "log", "--reverse", "--fixed-strings", "--grep=Requested-By: follow", "--format=%s", branch)
}

// settles gives a commit that must not come several times the time that it would take, and
// then wants the same commits as before. On a slow machine it may miss such a commit, but
// never fails without one.
func (f *followed) settles(branch, want string) {
	f.Helper()
	kit.Stays(f.T, 300*time.Millisecond, func() error {
		if got := f.commits(branch); got != want {
			return fmt.Errorf("commits to follow: %q, want %q", got, want)
		}
		return nil
	})
}

func TestAnInstanceFollowsItsPackageOneStepAtATime(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, "follow: ~1.4 # not further\n")
	f.cloud.SetLatency(200 * time.Millisecond)
	f.release(nil, "1.4.2", "1.5.0", "1.4.10", "1.4.1", "1.4.11-rc.1", "1.3.9")
	f.runs("1.4.10")
	const want = "Follow ~1.4: web to 1.4.1\nFollow ~1.4: web to 1.4.2\nFollow ~1.4: web to 1.4.10"
	f.settles("main", want)
	ops := f.upgrades()
	if len(ops) != 3 {
		t.Fatalf("%d changes of package: %+v", len(ops), ops)
	}
	for i, op := range ops {
		if op.OperationState != "COMPLETED" || i > 0 && op.StartTime.Before(ops[i-1].StateEnteredTime) {
			t.Errorf("step %d began before the one before had ended, or failed: %+v", i+1, ops)
		}
	}
	text := f.git(f.Desired(), "show", "main:instances/a/vnf.yaml")
	if !strings.Contains(text, "follow: ~1.4 # not further") || !strings.Contains(text, "vnfdId: "+vnfdID("1.4.10")+"\n") {
		t.Error(text)
	}
	if body := f.git(f.Desired(), "log", "-1", "--fixed-strings", "--grep=to 1.4.10", "--format=%an: %b", "main"); !strings.HasPrefix(body, "Jibe: Package repository small, v1.4.10") {
		t.Error(body)
	}
}

func TestAVersionThatFailedIsNotTriedAgainNotEvenByTheNextProcess(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFollowed(t, "follow: ~1.4\n")
	f.cloud.Fail(followObject, "the image can't be pulled")
	f.release(nil, "1.4.1")
	var op operation
	kit.Eventually(t, func() error {
		if ops := f.upgrades(); len(ops) != 1 || ops[0].OperationState != "FAILED_TEMP" {
			return fmt.Errorf("%+v", ops)
		} else {
			op = ops[0]
		}
		return nil
	})
	f.release(nil, "1.4.2")
	f.known("1.4.2")
	const first = "Follow ~1.4: web to 1.4.1"
	f.settles("main", first) // while the operation isn't settled

	f.cloud.Fail(followObject, "")
	if a, err := f.Do(t.Context(), http.MethodPost, "/vnflcm/v2/vnf_lcm_op_occs/"+op.ID+"/rollback", nil); err != nil || a.Status != http.StatusAccepted {
		t.Fatalf("rollback: %v %+v", err, a)
	}
	f.runs("1.4.2")
	f.settles("main", first+"\nFollow ~1.4: web to 1.4.2")

	// A person takes the next one back after it was completed, and another process comes.
	f.release(nil, "1.4.3")
	f.runs("1.4.3")
	kit.Eventually(t, func() error {
		if ops := f.upgrades(); len(ops) != 3 || ops[2].OperationState != "COMPLETED" {
			return fmt.Errorf("%+v", ops)
		}
		return nil
	})
	f.revert(f.desired.Head())
	f.runs("1.4.2")
	const three = first + "\nFollow ~1.4: web to 1.4.2\nFollow ~1.4: web to 1.4.3"
	f.settles("main", three)
	f.stop()
	f.start(f.Data)
	f.settles("main", three)
	f.release(nil, "1.4.4")
	f.runs("1.4.4")
	f.settles("main", three+"\nFollow ~1.4: web to 1.4.4")
}

func TestWithABranchTheNextVersionIsProposedThereOnce(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFollowed(t, "follow: {versions: ~1.4, branch: upgrades/web}\n")
	f.release(nil, "1.4.1")
	const branch, first = "upgrades/web", "Follow ~1.4: web to 1.4.1"
	proposed := func(want string) {
		t.Helper()
		kit.Eventually(t, func() error {
			if out, err := process.Git(t.Context(), f.Desired(), "log", "--reverse", "--fixed-strings", "--grep=Requested-By: follow", "--format=%s", branch); err != nil || out != want {
				return fmt.Errorf("%w: %q", err, out)
			}
			return nil
		})
	}
	proposed(first)
	f.release(nil, "1.4.2")
	f.known("1.4.2")
	f.settles(branch, first)
	f.settles("main", "")
	f.stop()
	f.start(f.Data) // has forgotten what it proposed, and finds it
	f.settles(branch, first)
	f.runs("1.4.0")

	// It is previewed as any other commit is.
	preview, err := f.Do(t.Context(), http.MethodPost, "/jibe/v1/plan", json.RawMessage(`{"instances":[{"dir":"instances/a","file":`+
		string(must(json.Marshal(f.git(f.Desired(), "show", branch+":instances/a/vnf.yaml")+"\n")))+`}]}`))
	if err != nil || !strings.Contains(string(preview.Body), `"operation":"CHANGE_VNFPKG"`) {
		t.Errorf("preview: %v %s", err, preview.Body)
	}

	clone := process.NewClone(t, f.Desired())
	f.git(clone.Dir, "merge", "--quiet", "--no-edit", "origin/"+branch)
	if err := clone.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.runs("1.4.1")
	proposed(first + "\nFollow ~1.4: web to 1.4.2")
	f.runs("1.4.1")
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestASuspendedInstanceFollowsNothingUntilItIsReleased(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFollowed(t, "follow: \">=1.4, <2\"\nsuspend: false\n")
	suspend := func(from, to string) {
		t.Helper()
		f.desired.Edit("Suspend, or not", "instances/a/vnf.yaml", func(text string) string { return strings.Replace(text, "suspend: "+from, "suspend: "+to, 1) })
	}
	suspend("false", "true")
	f.release(nil, "1.5.0")
	f.known("1.5.0")
	f.settles("main", "")
	suspend("true", "false")
	f.runs("1.5.0")
	f.settles("main", "Follow >=1.4, <2: web to 1.5.0")
}

func TestAVersionThatWouldBeRefusedIsPassedOver(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFollowed(t, "follow: ~1.4\nlevels: {front: 2}\n")
	f.release(strings.NewReplacer("front:", "rear:", "aspect: front", "aspect: rear").Replace, "1.4.1")
	f.known("1.4.1")
	f.settles("main", "")
	f.release(nil, "1.4.2")
	f.runs("1.4.2")
	f.settles("main", "Follow ~1.4: web to 1.4.2")
}

func TestManyThatFollowMakeOneCommitEachAndThoseThatDoNotNone(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFollowed(t, "")
	const many = 100
	files := map[string]string{}
	for i := range many {
		name := fmt.Sprintf("many%d", i)
		files["instances/"+name+"/vnf.yaml"] = fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s}\nfollow: \"*\"\n", name, vnfdID("1.4.0"))
	}
	change(f.desired, files)
	run := func(version string, want int) {
		t.Helper()
		kit.Eventually(t, func() error {
			var list []struct{ VnfdID, InstantiationState string }
			if err := f.Get(t.Context(), "/vnflcm/v2/vnf_instances", &list); err != nil {
				return err
			}
			n := 0
			for _, in := range list {
				if in.VnfdID == vnfdID(version) && in.InstantiationState == "INSTANTIATED" {
					n++
				}
			}
			if n != want {
				return fmt.Errorf("%d run %s, not %d", n, version, want)
			}
			return nil
		})
	}
	run("1.4.0", many+1)
	f.release(nil, "1.4.1")
	run("1.4.1", many)
	kit.Stays(t, 300*time.Millisecond, func() error {
		subjects := strings.Split(f.commits("main"), "\n")
		slices.Sort(subjects)
		if n := len(subjects); n != many || len(slices.Compact(subjects)) != many {
			return fmt.Errorf("%d commits for %d instances", n, many)
		}
		return nil
	})
	run("1.4.0", 1)
}
