// Package backup_test takes backups of a working "jibe serve" by the built binary, destroys the
// data directory, restores, and proves that nothing acknowledged before is lost or doubled.
package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"

	"time"
)

// jibe runs the command and returns what it printed.
func jibe(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), process.Binary(t), args...)
	cmd.Env = process.Environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("jibe %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := jibe(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// create makes an instance and returns its id.
func create(t testing.TB, s *process.Server, name string) string {
	t.Helper()
	return s.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": name}, nil).ID()
}

// ask asks for a task and returns the operation's id.
func ask(t testing.TB, s *process.Server, instance, task string, body any) string {
	t.Helper()
	return s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+instance+"/"+task, body, nil).ID()
}

func instantiation(namespace string) map[string]any {
	params := map[string]any{"lcm-kubernetes-def-files": process.SmallManifests()}
	if namespace != "" {
		params["namespace"] = namespace
	}
	return map[string]any{"flavourId": "simple", "additionalParams": params}
}

var scaleOut = map[string]any{"type": "SCALE_OUT", "aspectId": "front", "numberOfSteps": 1}

// ended waits until every operation has come to a good end, and returns all.
func ended(t testing.TB, s *process.Server) []process.Operation {
	t.Helper()
	var all []process.Operation
	kit.EventuallyWithin(t, 4*time.Minute, func() error {
		var err error
		if all, err = process.All[process.Operation](t.Context(), s, process.Operations); err != nil {
			return err
		}
		for _, op := range all {
			switch {
			case op.State == string(lcm.Completed):
			case op.State == string(lcm.FailedTemp): // for want of room, which is there by now
				if _, err := s.Do(t.Context(), http.MethodPost, process.Operations+"/"+op.ID+"/retry", nil); err != nil {
					return err
				}
				return fmt.Errorf("%s %s was tried again", op.Type, op.ID)
			case lcm.State(op.State).Ended():
				return kit.Final(fmt.Errorf("%s %s is %s: %s", op.Type, op.ID, op.State, op.Error.Detail))
			default:
				return fmt.Errorf("%s %s is %s: %s", op.Type, op.ID, op.State, op.Error.Detail)
			}
		}
		return nil
	})
	return all
}

func TestABackupAmidstOperationsIsRestoredWithNothingLostOrDoubledAtTheCluster(t *testing.T) {
	t.Parallel()
	kubeconfig := kubeenv.Kubeconfig(t)
	client, err := kubernetes.NewForConfig(kubeenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := process.ShortTempDir(t)
	s := process.Start(t, filepath.Join(dir, "data"), "--secret-dir", filepath.Dir(kubeconfig))
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	s.PushFiles(t, map[string]string{"vims/test.yaml": "type: kubernetes\ndefault: true\nkubeconfig: file:" + kubeconfig + "\n"})
	const n = 6
	var ids, namespaces, asked []string
	for i := range n {
		namespaces = append(namespaces, kubeenv.Namespace(t, kubeconfig))
		ids = append(ids, create(t, s, fmt.Sprintf("vnf-%d", i)))
	}
	for i := range n / 2 {
		asked = append(asked, ask(t, s, ids[i], "instantiate", instantiation(namespaces[i])))
	}
	before := ended(t, s)
	pods := map[string]string{} // UIDs of what stood before, and should stand afterwards
	for _, p := range podsOf(t, client, namespaces) {
		pods[p.uid] = p.namespace
	}
	// What is asked for now is under way while the backup is taken: the cluster has no room for
	// the pods of some.
	full := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	for i := range n {
		if i < n/2-1 {
			if _, err := client.CoreV1().ResourceQuotas(namespaces[i]).Create(t.Context(), full, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			kit.Eventually(t, func() error {
				q, err := client.CoreV1().ResourceQuotas(namespaces[i]).Get(t.Context(), full.Name, metav1.GetOptions{})
				if err == nil && len(q.Status.Hard) == 0 {
					err = errors.New("the quota doesn't count yet")
				}
				return err
			})
			asked = append(asked, ask(t, s, ids[i], "scale", scaleOut))
		} else if i >= n/2 {
			asked = append(asked, ask(t, s, ids[i], "instantiate", instantiation(namespaces[i])))
		}
	}
	file := filepath.Join(dir, "backup.tar.gz")
	must(t, "backup", "--data", s.Data, file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup's file: %v, %v; want mode 0600", info.Mode(), err)
	}
	open := unended(t, file, dir)
	t.Logf("%d operations were under way in the backup of %d", len(open), len(asked))
	if len(open) < n/2-1 {
		t.Errorf("%d operations were under way in the backup, want %d at least", len(open), n/2-1)
	}
	s.KillGroup()
	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}

	restored := filepath.Join(dir, "elsewhere")
	must(t, "restore", file, "--data", restored)
	for i := range n/2 - 1 {
		if err := client.CoreV1().ResourceQuotas(namespaces[i]).Delete(t.Context(), full.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s = process.Start(t, restored, "--secret-dir", filepath.Dir(kubeconfig))
	all := ended(t, s)
	for _, id := range asked {
		if !slices.ContainsFunc(all, func(op process.Operation) bool { return op.ID == id }) {
			t.Errorf("operation %s was acknowledged before the backup, and is lost", id)
		}
	}
	if len(all) != len(asked) {
		t.Errorf("there are %d operations, and %d were asked for: %+v", len(all), len(asked), all)
	}
	for _, was := range before {
		if !slices.Contains(all, was) {
			t.Errorf("%+v had ended before the backup, and is another one now", was)
		}
	}
	count := map[string]int{}
	var now []string
	for _, p := range podsOf(t, client, namespaces) {
		count[p.namespace]++
		now = append(now, p.uid)
	}
	for i, namespace := range namespaces {
		want := 1
		if i < n/2-1 {
			want = 2
		}
		if count[namespace] != want {
			t.Errorf("%s has %d pods, want %d", namespace, count[namespace], want)
		}
	}
	for uid, namespace := range pods {
		if !slices.Contains(now, uid) {
			t.Errorf("pod %s of %s ran before the backup and was made anew", uid, namespace)
		}
	}
	// All rests: nothing is put right, nothing begins.
	kit.Stays(t, 2*time.Second, func() error {
		all, err := process.All[process.Operation](t.Context(), s, process.Operations)
		if err == nil && len(all) != len(asked) {
			err = fmt.Errorf("another operation began: %+v", all)
		}
		return err
	})
	s.PushFiles(t, map[string]string{"instances/README.md": "The restored repository takes pushes.\n"})
	must(t, "audit", "verify", "--data", restored)
}

type pod struct{ uid, namespace string }

func podsOf(t testing.TB, client kubernetes.Interface, namespaces []string) (all []pod) {
	t.Helper()
	for _, ns := range namespaces {
		list, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil {
				all = append(all, pod{string(p.UID), ns})
			}
		}
	}
	return all
}

// unended restores a backup beside, and returns the operations that hadn't ended in it.
func unended(t testing.TB, file, dir string) (ids []string) {
	t.Helper()
	beside := filepath.Join(dir, "beside")
	must(t, "restore", file, "--data", beside)
	for _, op := range records(t, beside) {
		if !op.State.Ended() {
			ids = append(ids, op.ID)
		}
	}
	return ids
}

// records are the operations in the store of a data directory on which no server runs.
func records(t testing.TB, data string) []*lcm.Operation {
	t.Helper()
	s, err := bolt.Open(filepath.Join(data, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log, err := oplog.Open(t.Context(), s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	all, err := log.Operations(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	more, err := log.Unresolved(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return append(all, more...)
}

func TestABackupUnderLoadIsOfOneMoment(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	dir := process.ShortTempDir(t)
	s := process.Start(t, filepath.Join(dir, "data"))
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
	var acked sync.Map // ids of operations that were answered
	var number atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for n := number.Add(1); ; n = number.Add(1) {
				select {
				case <-stop:
					return
				default:
				}
				id, err := begun(t.Context(), s, fmt.Sprintf("load-%d", n))
				if err != nil {
					t.Error(err)
					return
				}
				acked.Store(id, true)
				if err := completed(t.Context(), s, id); err != nil { // so that a slow machine isn't flooded
					t.Error(err)
					return
				}
			}
		})
	}
	for round := range 3 {
		at := int64(10 * (round + 1))
		kit.Eventually(t, func() error {
			if number.Load() < at {
				return fmt.Errorf("%d requests so far", number.Load())
			}
			return nil
		})
		want := map[string]bool{}
		acked.Range(func(id, _ any) bool { want[id.(string)] = true; return true })
		file, data := filepath.Join(dir, fmt.Sprintf("%d.tar.gz", round)), filepath.Join(dir, fmt.Sprintf("restored-%d", round))
		must(t, "backup", "--data", s.Data, file)
		must(t, "restore", file, "--data", data)
		known := map[string]bool{}
		for _, op := range records(t, data) {
			known[op.ID] = true
		}
		for id := range want {
			if !known[id] {
				t.Errorf("round %d: operation %s was acknowledged before the backup, and isn't in it", round, id)
			}
		}
		// Each commit that names an operation has its record, and the commits that records name
		// are there: neither store nor repository is ahead of the other.
		history, err := process.ReadHistory(t.Context(), filepath.Join(data, "desired.git"))
		if err != nil {
			t.Fatal(err)
		}
		for id := range history.Trailers {
			if !known[id] {
				t.Errorf("round %d: a commit names operation %s, of which the store has no record", round, id)
			}
		}
		for _, op := range records(t, data) {
			if op.After.Commit == "" {
				continue
			}
			if _, err := process.Git(t.Context(), filepath.Join(data, "desired.git"), "cat-file", "-e", op.After.Commit+"^{commit}"); err != nil {
				t.Errorf("round %d: %s names commit %s, which isn't there: %v", round, op.ID, op.After.Commit, err)
			}
		}
		if len(want) == 0 || len(history.Trailers) == 0 {
			t.Errorf("round %d: nothing had happened before the backup, so that nothing is proven", round)
		}
	}
	close(stop)
	clients.Wait()
	s.KillGroup()
	if err := os.RemoveAll(s.Data); err != nil {
		t.Fatal(err)
	}
	s = process.Start(t, filepath.Join(dir, "restored-2"))
	seen := map[string]string{}
	for _, op := range ended(t, s) {
		if op.Automatic {
			continue // the simulator's infrastructure went with its process: what ran is put up again
		}
		if other, twice := seen[op.Instance+op.Type]; twice {
			t.Errorf("%s was operated on twice: %s and %s", op.Instance, other, op.ID)
		}
		seen[op.Instance+op.Type] = op.ID
	}
	t.Logf("%d operations are in the last backup", len(seen))
}

// begun creates an instance and asks for its instantiation.
func begun(ctx context.Context, s *process.Server, name string) (operation string, err error) {
	a, err := s.Do(ctx, http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": name})
	if err == nil && a.Status != http.StatusCreated {
		err = fmt.Errorf("create: %d: %s", a.Status, a.Body)
	}
	if err != nil {
		return "", err
	}
	a, err = s.Do(ctx, http.MethodPost, process.Instances+"/"+a.ID()+"/instantiate", instantiation(""))
	if err == nil && a.Status != http.StatusAccepted {
		err = fmt.Errorf("instantiate: %d: %s", a.Status, a.Body)
	}
	if err != nil {
		return "", err
	}
	return a.ID(), nil
}

// completed waits until an operation has come to its good end.
func completed(ctx context.Context, s *process.Server, id string) error {
	return kit.Poll(ctx, kit.Patience, func() error {
		var op process.Operation
		if err := s.Get(ctx, process.Operations+"/"+id, &op); err != nil {
			return err
		}
		if op.State != string(lcm.Completed) {
			return fmt.Errorf("%s %s is %s: %s", op.Type, op.ID, op.State, op.Error.Detail)
		}
		return nil
	})
}

// small is the data directory of a server with a VIM that was stopped in order, and a backup of it, in a
// folder of the test's own.
func small(t testing.TB) (dir, file string) {
	t.Helper()
	smallOnce.Do(func() { smallDir = makeSmall(t) })
	if smallDir == "" {
		t.Fatal("another test failed to make it")
	}

	dir = process.ShortTempDir(t)
	copied(t, filepath.Join(smallDir, "data"), filepath.Join(dir, "data"))
	copied(t, filepath.Join(smallDir, backupFile), filepath.Join(dir, backupFile))
	return dir, filepath.Join(dir, backupFile)
}

const backupFile = "backup.tar.gz"

// smallDir is what all tests copy their small server from. [TestMain] removes it.
var (
	smallOnce sync.Once
	smallDir  string
)

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(smallDir)
	os.Exit(code)
}

func makeSmall(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "jibe-test-")
	if err != nil {
		t.Fatal(err)
	}
	s, err := process.StartBinary(process.Binary(t), filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.KillGroup()
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	must(t, "backup", "--data", s.Data, filepath.Join(dir, backupFile))
	return dir
}

// copied copies a file or folder with its modes, on which Jibe insists.
func copied(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp %s: %v: %s", from, err, out)
	}
}

func TestAnInterruptedBackupLeavesNoFileUnderItsName(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	dir := process.ShortTempDir(t)
	s := process.Start(t, filepath.Join(dir, "data"))
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n", "large": strings.Repeat("a line of a large file\n", 1<<12)})
	existing := func(pattern string) func() bool {
		return func() bool { found, _ := filepath.Glob(pattern); return len(found) > 0 }
	}
	for point, when := range map[string]func(folder string) func() bool{
		"the server gathers": func(string) func() bool { return existing(filepath.Join(s.Data, ".backup-*")) },
		"the file is made":   func(folder string) func() bool { return existing(filepath.Join(folder, ".jibe-backup-*")) },
		"a part is written": func(folder string) func() bool {
			return func() bool {
				found, _ := filepath.Glob(filepath.Join(folder, ".jibe-backup-*"))
				return len(found) > 0 && size(found[0]) > 0
			}
		},
		"the file has its name": func(folder string) func() bool { return existing(filepath.Join(folder, backupFile)) },
	} {
		folder := filepath.Join(dir, strings.ReplaceAll(point, " ", "-"))
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		kit.Until(t, "the server has nothing of the backup before", func() bool { return !existing(filepath.Join(s.Data, ".backup-*"))() })
		name := filepath.Join(folder, backupFile)

		killedWhen(t, when(folder), "backup", "--data", s.Data, name)

		if _, err := os.Stat(name); err == nil {
			t.Logf("killed when %s: it was whole before", point)
			must(t, "restore", name, "--verify")
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}

	// The server that is killed meanwhile leaves none either, and the next backup is whole.
	name := filepath.Join(dir, "of-the-killed.tar.gz")
	cmd := exec.CommandContext(t.Context(), process.Binary(t), "backup", "--data", s.Data, name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "the backup has begun or ended", func() bool {
		left, _ := filepath.Glob(filepath.Join(s.Data, ".backup-*"))
		_, err := os.Stat(name)
		return len(left) > 0 || err == nil
	})
	s.KillGroup()
	err := cmd.Wait()
	if _, serr := os.Stat(name); (serr == nil) != (err == nil) {
		t.Errorf("the command ended with %v, and of its file: %v", err, serr)
	}
	s = process.Start(t, s.Data)
	must(t, "backup", "--data", s.Data, filepath.Join(dir, "next.tar.gz"))
	must(t, "restore", filepath.Join(dir, "next.tar.gz"), "--verify")
	if left, err := filepath.Glob(filepath.Join(s.Data, ".backup-*")); err != nil || len(left) > 0 {
		t.Errorf("the data directory keeps %v, %v", left, err)
	}
}

// size is that of a file, 0 where it is gone.
func size(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// killedWhen runs jibe and kills it as soon as there is something, unless it has ended before.
func killedWhen(t testing.TB, is func() bool, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), process.Binary(t), args...)
	cmd.Env = process.Environment()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()

	for !is() {
		select {
		case <-ended:
			return
		case <-time.After(100 * time.Microsecond):
		}
	}

	_ = cmd.Process.Kill()
	<-ended
}

func TestAnInterruptedRestoreLeavesNothingThatLooksWhole(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	dir, file := small(t)
	data := filepath.Join(dir, "restored")
	for _, made := range []string{".restoring", ".restoring/desired.git", ".restoring/store.db", "desired.git", "packages", "store.db"} {
		killedWhen(t, func() bool { _, err := os.Lstat(filepath.Join(data, made)); return err == nil }, "restore", file, "--data", data)

		_, marked := os.Stat(filepath.Join(data, "restore.unfinished"))
		if _, err := os.Stat(filepath.Join(data, "store.db")); err == nil && marked != nil {
			s := process.Start(t, data) // it was whole before it was killed
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if marked == nil {
			if s, err := process.StartBinary(process.Binary(t), data); err == nil {
				s.Kill()
				t.Fatal("a server starts on a directory that was restored in part")
			} else if !strings.Contains(err.Error(), "a restore was interrupted") {
				t.Errorf("it isn't said why: %v", err)
			}
		}
	}

	must(t, "restore", file, "--data", data) // over whatever the last one left
	s := process.Start(t, data)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := jibe(t, "restore", file, "--data", data); err == nil || !strings.Contains(err.Error(), "isn't empty") {
		t.Errorf("restore into a directory in use = %v", err)
	}
	must(t, "restore", file, "--verify")
}
