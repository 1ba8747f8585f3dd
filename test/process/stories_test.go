package process_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/lab"
	"github.com/jibe-vnfm/jibe/test/nfvo"
	"github.com/jibe-vnfm/jibe/test/process"
)

// story is one that is told of a VNF at a place of its own.
type story struct {
	place, name string
	tell        func(*stage)
}

// TestStories tells what a user is promised, story by story, to a whole process on the simulator, with
// neither a cluster nor another server. test/e2e tells the same to a real control plane and a real OpenStack.
func TestStories(t *testing.T) {
	t.Parallel()

	t.Run("on the binary", func(t *testing.T) {
		t.Parallel()
		s := process.Start(t, filepath.Join(t.TempDir(), "data"), "--seed", seedOf(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"}))
		publishSmall(t, s)
		tell(t, s, []story{
			{"push", "a push instantiates, scales and terminates", pushed},
			{"request", "requests create, instantiate, scale, heal and terminate", requested},
			{"notify", "subscribers are notified of requests and pushes in order", notified},
			{"upgrade", "an upgrade is rolling or blue-green, and a revert undoes it", upgradedAndReverted},
			{"rollout", "a rollout upgrades wave by wave, and each site once", rolledOut},
		})
	})

	t.Run("on a simulator with switches", func(t *testing.T) {
		t.Parallel()
		s := startLab(t, filepath.Join(process.ShortTempDir(t), "data"))
		s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
		publishSmall(t, s)
		tell(t, s, []story{
			{"rollback", "an upgrade that fails is rolled back without a trace", failedAndRolledBack},
			{"drift", "drift is reported, then repaired", drifted},
		})
	})

	t.Run("a replica completes what another had accepted that is killed", func(t *testing.T) {
		t.Parallel()
		replicaKilled(t)
	})
}

// tell tells stories side by side to one process.
func tell(t *testing.T, s *process.Server, stories []story) {
	t.Helper()
	for _, x := range stories {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			dir := "instances/" + x.place + "/vnf"
			x.tell(&stage{&forge{Server: s, t: t, work: process.NewWorkTree(t, s.Desired())}, x.place, dir, desired.DeriveID(dir)})
		})
	}
}

// stage is a VNF of one story: a folder in git, and a place at the VIM.
type stage struct {
	*forge
	place, dir, id string
}

// publishSmall gives a process two versions of the small package.
func publishSmall(t *testing.T, s *process.Server) {
	t.Helper()
	s.PushPackages(t, []string{process.SmallVnfd, nextSmallVnfd}, process.SmallPackage(),
		process.NextVersion(t, process.SmallPackage(), "small-1.1", process.SmallVnfd, nextSmallVnfd, "'1.0'", "'1.1'"))
}

// startLab starts this test as a laboratory: a process whose simulator has switches.
func startLab(t *testing.T, data string, args ...string) *process.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}

	s, err := process.StartLogged(self, data, log.Name(), []string{lab.EnvBinary + "=" + process.Binary(t)}, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.KillGroup()
		if t.Failed() {
			t.Logf("the end of the log of process %d:\n%s", s.Pid(), s.Log())
		}
	})

	return s
}

// runs pushes the VNF with more lines, and waits until it is instantiated.
func (s *stage) runs(more string) {
	s.t.Helper()
	s.push(map[string]string{s.dir + "/vnf.yaml": fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s, router: true}\n%[3]s", s.place, process.SmallVnfd, more)})
	s.becomes(s.id, "INSTANTIATE COMPLETED")
}

// text is the VNF's file at head.
func (s *stage) text() string {
	s.t.Helper()
	s.work.Reset()
	return s.work.Read(s.dir + "/vnf.yaml")
}

// edit pushes the VNF's file with texts replaced: old and new by turns. An old one of "" adds lines.
func (s *stage) edit(oldnew ...string) {
	s.t.Helper()
	text := s.text()
	for i := 0; i < len(oldnew); i += 2 {
		switch old, by := oldnew[i], oldnew[i+1]; {
		case old == "":
			text += by
		case !strings.Contains(text, old):
			s.t.Fatalf("the file has no %q:\n%s", old, text)
		default:
			text = strings.Replace(text, old, by, 1)
		}
	}
	s.push(map[string]string{s.dir + "/vnf.yaml": text})
}

// shownVNF is what a story reads of an instance.
type shownVNF struct {
	State  string `json:"instantiationState"`
	VnfdID string `json:"vnfdId"`
	Info   struct {
		Units []struct {
			Resource struct {
				ID string `json:"resourceId"`
			} `json:"computeResource"`
		} `json:"vnfcResourceInfo"`
	} `json:"instantiatedVnfInfo"`
}

func shownAs(t *testing.T, s *process.Server, id string) (in shownVNF) {
	t.Helper()
	s.Want(t, http.StatusOK, http.MethodGet, process.Instances+"/"+id, nil, &in)
	return in
}

// unitsOf are the ids of what runs of an instance.
func unitsOf(t *testing.T, s *process.Server, id string) (ids []string) {
	t.Helper()
	for _, u := range shownAs(t, s, id).Info.Units {
		ids = append(ids, u.Resource.ID)
	}
	slices.Sort(ids)
	return ids
}

// awaitUnits waits until that many units run, and returns their ids.
func (s *stage) awaitUnits(id string, n int) (ids []string) {
	s.t.Helper()
	kit.Eventually(s.t, func() error {
		if ids = unitsOf(s.t, s.Server, id); len(ids) != n {
			return fmt.Errorf("%d units run, want %d", len(ids), n)
		}
		return nil
	})
	return ids
}

// common counts what two lists have in common.
func common(a, b []string) (n int) {
	for _, x := range a {
		if slices.Contains(b, x) {
			n++
		}
	}
	return n
}

func pushed(s *stage) {
	s.runs("")
	if in := s.vnf(s.dir); in.VIM != "sim" || in.Package == "" {
		s.t.Errorf("pinned are vim %q and package %q", in.VIM, in.Package)
	}
	s.awaitUnits(s.id, 1)

	s.edit("", "levels: {front: 2}\n")
	s.becomes(s.id, "INSTANTIATE COMPLETED, SCALE COMPLETED")
	s.awaitUnits(s.id, 3)

	s.refused(map[string]string{s.dir + "/vnf.yaml": strings.Replace(s.text(), "front: 2", "front: 9", 1)}, s.dir+"/vnf.yaml:", "9")

	s.edit("", "state: notInstantiated\n")
	s.becomes(s.id, "INSTANTIATE COMPLETED, SCALE COMPLETED, TERMINATE COMPLETED")
	if in := shownAs(s.t, s.Server, s.id); in.State != "NOT_INSTANTIATED" || len(in.Info.Units) > 0 {
		s.t.Errorf("after the termination it is %+v", in)
	}
}

func requested(s *stage) {
	id := s.Want(s.t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}, nil).ID()
	run := func(task string, body any) {
		s.t.Helper()
		op := s.Ask(s.t, id, task, body)
		s.Await(s.t, op, "COMPLETED")

		// The commit of a request names its operation.
		said := ""
		kit.Eventually(s.t, func() error {
			s.work.Reset()
			if said = s.work.Git("log", "--format=%(trailers:key=Vnf-Lcm-Op-Occ,valueonly)", "--", desired.APIDir(id)); !strings.Contains(said, op) {
				return fmt.Errorf("no commit names the operation %s of %s: %q", op, task, said)
			}
			return nil
		})
	}

	run("instantiate", map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"namespace": s.place}})
	run("scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front", "numberOfSteps": 2})
	before := s.awaitUnits(id, 3)
	if in := s.vnf(desired.APIDir(id)); in.Levels["front"] != 2 {
		s.t.Errorf("git has the levels %v", in.Levels)
	}

	run("heal", map[string]any{"vnfcInstanceId": before[1:2], "cause": "it is sick"})
	after := s.awaitUnits(id, 3)
	if common(before, after) != 2 || slices.Contains(after, before[1]) {
		s.t.Errorf("healed was %s, and the units were %v and are %v", before[1], before, after)
	}

	run("terminate", map[string]any{"terminationType": "FORCEFUL"})
	s.Want(s.t, http.StatusNoContent, http.MethodDelete, process.Instances+"/"+id, nil, nil)
	s.Want(s.t, http.StatusNotFound, http.MethodGet, process.Instances+"/"+id, nil, nil)
	s.work.Reset()
	if left := s.work.Git("ls-files", desired.APIDir(id)); left != "" {
		s.t.Errorf("after its deletion git has %s", left)
	}
}

func notified(s *stage) {
	var mu sync.Mutex
	got := map[string]string{} // by id: a repetition has the same
	var order []string
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n struct{ ID, NotificationType, VnfInstanceID, Operation, OperationState string }
		if body, err := io.ReadAll(r.Body); r.Method == http.MethodPost && err == nil && json.Unmarshal(body, &n) == nil {
			mu.Lock()
			defer mu.Unlock()
			if _, again := got[n.ID]; !again {
				got[n.ID] = n.VnfInstanceID
				word := strings.TrimSuffix(strings.TrimPrefix(n.NotificationType, "VnfIdentifier"), "Notification")
				if n.Operation != "" {
					word = n.Operation + " " + n.OperationState
				}
				order = append(order, word)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	s.t.Cleanup(callback.Close)

	subscription := s.Want(s.t, http.StatusCreated, http.MethodPost, process.Subscriptions, map[string]any{
		"callbackUri": callback.URL, "filter": map[string]any{"vnfInstanceSubscriptionFilter": map[string]any{"vnfInstanceNames": []string{s.place}}},
	}, nil).ID()
	s.runs("")
	s.Await(s.t, s.Ask(s.t, s.id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"}), "COMPLETED")
	s.push(map[string]string{s.dir: ""})

	want := "Creation"
	for _, op := range []string{"INSTANTIATE", "SCALE", "TERMINATE"} {
		for _, state := range []string{"STARTING", "PROCESSING", "COMPLETED"} {
			want += ", " + op + " " + state
		}
	}
	want += ", Deletion"
	kit.Eventually(s.t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if now := strings.Join(order, ", "); now != want {
			return fmt.Errorf("notified were %s\nwant %s", now, want)
		}
		return nil
	})
	for _, instance := range got {
		if instance != s.id {
			s.t.Errorf("it was notified of instance %s, too", instance)
		}
	}
	s.Want(s.t, http.StatusNoContent, http.MethodDelete, process.Subscriptions+"/"+subscription, nil, nil)
}

func upgradedAndReverted(s *stage) {
	s.runs("levels: {front: 1}\n")
	first := s.awaitUnits(s.id, 2)
	history := "INSTANTIATE COMPLETED, CHANGE_VNFPKG COMPLETED"

	// By a request, where the units are.
	s.Await(s.t, s.Ask(s.t, s.id, "change_vnfpkg", map[string]any{"vnfdId": nextSmallVnfd, "additionalParams": map[string]any{"upgrade_type": "RollingUpdate"}}), "COMPLETED")
	second := s.awaitUnits(s.id, 2)
	if in, file := shownAs(s.t, s.Server, s.id), s.vnf(s.dir); in.VnfdID != nextSmallVnfd || file.VnfdID != nextSmallVnfd || file.Generation != "" || common(first, second) > 0 {
		s.t.Errorf("after the rolling upgrade it is %+v, the file is %+v and the units were %v", in, file, first)
	}

	// By a commit, in a generation of its own.
	before := s.text()
	s.edit(nextSmallVnfd, process.SmallVnfd, "", "update: {strategy: blueGreen}\n")
	history += ", CHANGE_VNFPKG COMPLETED"
	s.becomes(s.id, history)
	third := s.awaitUnits(s.id, 2)
	if in, file := shownAs(s.t, s.Server, s.id), s.vnf(s.dir); in.VnfdID != process.SmallVnfd || file.Generation == "" || common(second, third) > 0 {
		s.t.Errorf("after the blue-green upgrade it is %+v, the file is %+v and the units were %v", in, file, second)
	}

	// What was is what a revert brings back.
	s.push(map[string]string{s.dir + "/vnf.yaml": before})
	history += ", CHANGE_VNFPKG COMPLETED"
	s.becomes(s.id, history)
	if in, file := shownAs(s.t, s.Server, s.id), s.vnf(s.dir); in.VnfdID != nextSmallVnfd || file.VnfdID != nextSmallVnfd || len(in.Info.Units) != 2 {
		s.t.Errorf("after the revert it is %+v, and the file is %+v", in, file)
	}
}

func rolledOut(s *stage) {
	const sites = 3
	files, at := map[string]string{}, func(n int) string { return fmt.Sprintf("instances/%s/edge/s%d", s.place, n) }
	for n := range sites {
		files[at(n)+"/vnf.yaml"] = fmt.Sprintf("name: %[1]s-%[2]d\nvnfdId: %[3]s\nflavour: simple\nparams: {namespace: %[1]s-%[2]d}\n", s.place, n, process.SmallVnfd)
	}
	s.push(files)
	for n := range sites {
		s.becomes(desired.DeriveID(at(n)), "INSTANTIATE COMPLETED")
	}

	f := &fleet{Server: s.Server, sites: sites, vims: map[string]string{}}
	name := s.place
	s.push(map[string]string{"rollouts/" + name + ".yaml": fmt.Sprintf("select: {folders: [%s/edge]}\nto: {vnfdId: %s}\norder: [{instances: [%s]}, {percent: 100}]\nafter: {approve: true}\n", s.place, nextSmallVnfd, at(0))})
	if r := f.becomes(s.t, name, "waiting for approval"); r.Counts.Completed != 1 {
		s.t.Errorf("it waits for approval at %+v", r.Counts)
	}
	for n := range sites {
		want := map[bool]string{true: nextSmallVnfd, false: process.SmallVnfd}[n == 0]
		if in := shownAs(s.t, s.Server, desired.DeriveID(at(n))); in.VnfdID != want {
			s.t.Errorf("before the approval site %d runs %s, want %s", n, in.VnfdID, want)
		}
	}

	if out, errs, code := s.CLI(s.t, "rollout", "approve", name); code != 0 {
		s.t.Fatalf("approve: %d: %s%s", code, out, errs)
	}
	if r := f.becomes(s.t, name, "completed"); r.Counts.Completed != sites || r.Counts.Failed != 0 {
		s.t.Errorf("it is completed at %+v", r.Counts)
	}
	for n := range sites {
		s.becomes(desired.DeriveID(at(n)), "INSTANTIATE COMPLETED, CHANGE_VNFPKG COMPLETED")
		if in := shownAs(s.t, s.Server, desired.DeriveID(at(n))); in.VnfdID != nextSmallVnfd {
			s.t.Errorf("site %d runs %s", n, in.VnfdID)
		}
	}
}

func failedAndRolledBack(s *stage) {
	s.runs("levels: {front: 1}\n")
	before, text := s.awaitUnits(s.id, 2), s.text()
	vim := lab.At(s.Data)
	// Of the next generation alone: what runs is to go on.
	if err := vim.Fail(s.t.Context(), "Workload/"+s.place+"/vdu1-1", "the image small:2 isn't there"); err != nil {
		s.t.Fatal(err)
	}

	s.edit(process.SmallVnfd, nextSmallVnfd, "", "update: {strategy: blueGreen}\n")
	s.becomes(s.id, "INSTANTIATE COMPLETED, CHANGE_VNFPKG FAILED_TEMP")
	var failed process.Operation
	all, err := process.All[process.Operation](s.t.Context(), s.Server, process.Operations+"?fields=error&filter=(eq,vnfInstanceId,"+s.id+")")
	for _, op := range all {
		if op.State == "FAILED_TEMP" {
			failed = op
		}
	}
	if err != nil || !strings.Contains(failed.Error.Detail, "the image small:2 isn't there") {
		s.t.Fatalf("it failed with %q, %v", failed.Error.Detail, err)
	}

	s.Want(s.t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+failed.ID+"/rollback", nil, nil)
	s.Await(s.t, failed.ID, "ROLLED_BACK")
	if after := unitsOf(s.t, s.Server, s.id); !slices.Equal(after, before) {
		s.t.Errorf("the units were %v and are %v", before, after)
	}
	if in := shownAs(s.t, s.Server, s.id); in.VnfdID != process.SmallVnfd {
		s.t.Errorf("it runs %s", in.VnfdID)
	}
	kit.Eventually(s.t, func() error {
		if now := s.text(); now != text {
			return fmt.Errorf("the file was\n%s\nand is\n%s", text, now)
		}
		return nil
	})

	// The next operation finds nothing in its way.
	s.Await(s.t, s.Ask(s.t, s.id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"}), "COMPLETED")
}

func drifted(s *stage) {
	s.runs("drift: report\n")
	vim, object := lab.At(s.Data), "Workload/"+s.place+"/vdu1"
	if err := vim.Drift(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}

	kit.Eventually(s.t, func() error {
		var list []reconciler.Drift
		s.Want(s.t, http.StatusOK, http.MethodGet, "/jibe/v1/drift?instance="+s.id, nil, &list)
		if len(list) != 1 || list[0].State != reconciler.DriftReported || list[0].Deviations[0].Object != object {
			return fmt.Errorf("the drift is %+v", list)
		}
		return nil
	})
	if out, code := s.cli("get", "drift"); code != 0 || !strings.Contains(out, object) {
		s.t.Errorf("jibe get drift: exit code %d:\n%s", code, out)
	}
	if got := s.ops(s.id); got != "INSTANTIATE COMPLETED" {
		s.t.Errorf("what is only to be reported had the operations %s", got)
	}

	repaired := func(history string) {
		s.t.Helper()
		s.becomes(s.id, history)
		kit.Eventually(s.t, func() error {
			var list []reconciler.Drift
			s.Want(s.t, http.StatusOK, http.MethodGet, "/jibe/v1/drift?instance="+s.id, nil, &list)
			if len(list) > 0 {
				return fmt.Errorf("the drift is %+v", list)
			}
			return nil
		})
	}
	s.edit("drift: report\n", "")
	repaired("INSTANTIATE COMPLETED, HEAL COMPLETED")
	if err := vim.Lose(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
	repaired("INSTANTIATE COMPLETED, HEAL COMPLETED, HEAL COMPLETED")
	s.awaitUnits(s.id, 1)
}

// newRecords is the URL of a Redis in this process.
func newRecords(t *testing.T) string {
	t.Helper()
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(p *server.Peer, cmd string, _ ...string) bool {
		if !strings.EqualFold(cmd, "INFO") {
			return false
		}
		p.WriteBulk("redis_version:7.0.0\r\nredis_mode:standalone\r\nrun_id:1\r\n") // which miniredis doesn't say
		return true
	})
	return "redis://" + m.Addr()
}

func replicaKilled(t *testing.T) {
	n := nfvo.New(t)
	packages := process.NewForge(t, nil)
	bare := process.NewForge(t, map[string]string{
		"repositories.yaml": "- {name: small, url: " + packages + ", branch: main}\n",
		"vims/sim.yaml":     "type: sim\ndefault: true\n",
		"peers.yaml":        "- {name: nfvo-a, type: nfvo, endpoint: \"" + n.URL + "\"}\n",
		"granting.yaml":     "nfvo: {name: nfvo-a, wait: 1h}\n",
	})
	d := process.NewWorkTree(t, packages)
	if err := os.CopyFS(filepath.Join(d.Dir(), "small"), os.DirFS(process.SmallPackage())); err != nil {
		t.Fatal(err)
	}
	d.Push("Publish")

	args := []string{"--store", newRecords(t), "--remote", "file://" + bare, "--poll", "1s"}
	one := process.Start(t, filepath.Join(t.TempDir(), "one"), args...)
	other := process.Start(t, filepath.Join(t.TempDir(), "other"), append(args, "--identity", filepath.Join(one.Data, secret.IdentityFile))...)
	for _, s := range []*process.Server{one, other} {
		s.AwaitPackages(t, process.SmallVnfd)
	}

	// What one replica has answered, the other knows at once, or says on a busy machine that it is late.
	id := one.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}, nil).ID()
	kit.Eventually(t, func() error {
		a, err := other.Do(t.Context(), http.MethodGet, process.Instances+"/"+id, nil)
		switch {
		case err != nil:
			return kit.Final(err)
		case a.Status == http.StatusOK:
			return nil
		}
		err = fmt.Errorf("the other replica says: %d: %s", a.Status, a.Body)
		if a.Status != http.StatusServiceUnavailable {
			err = kit.Final(err)
		}
		return err
	})

	// Whichever of them works on it, the one that has accepted it dies while it waits.
	decided := make(chan struct{})
	n.Decide(func(nfvo.Ask) nfvo.Decision { return nfvo.Decision{Until: decided} })
	op := one.Ask(t, id, "instantiate", map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"namespace": "a"}})
	kit.Eventually(t, func() error {
		if len(n.Asked()) == 0 {
			return fmt.Errorf("the NFVO isn't asked")
		}
		return nil
	})
	one.KillGroup()
	close(decided)
	other.Await(t, op, "COMPLETED")
	if units := unitsOf(t, other, id); len(units) != 1 {
		t.Errorf("the units are %v", units)
	}

	// A push is followed by who is left.
	w := process.NewWorkTree(t, bare)
	file := desired.APIDir(id) + "/vnf.yaml"
	w.PushFiles(map[string]string{file: w.Read(file) + "levels: {front: 1}\n"})
	(&forge{Server: other, t: t}).becomes(id, "INSTANTIATE COMPLETED, SCALE COMPLETED")
}
