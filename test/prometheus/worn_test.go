package prometheus

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// fireOnAWornMachine are the alerts of a machine, a forge and a cluster that are slow, full or
// unreliable, and of who tampers with the audit log.
var fireOnAWornMachine = []string{
	"VnfOperationsFailOften", "GitIsSlow", "VimIsSlow", "VimWatchBreaks", "JibeStartsOften", "DataNotWritable", "AuditLogNotWritable",
	"AuditLogLostRecords", "QueueNotWorkedOff", "StoreIsSlow", "SeriesAreLeftOut",
}

// wornHurry is by how much the times of these alerts are divided: what they look at has to be slow for
// twenty seconds in place of ten minutes.
const wornHurry = 30

// patient are alerts that look back to several starts, which take a loaded machine a minute each:
// their times are divided by less.
var patient = map[string]int{"JibeStartsOften": 6, "AuditLogLostRecords": 15}

// worn is four Jibes, each of which has one thing that doesn't work as it should.
type worn struct {
	t *testing.T
	// far has a cluster that answers late, and two workers; forge a forge that takes pushes late, and whose
	// files can't be read; store a disk that is slow, a cluster that ends connections, and hooks that fail; disk
	// a small file system.
	far, forge, store *process.Server
	disk              process.Mortal
	records           map[string][]byte // the audit log of the last, as it was after its first start
	ending            *kit.Wire
	late              atomic.Bool // whether the cluster writes late what it is asked to write
	hook              string      // of the forge; the pushes wait while the file beside it is there
	files             *process.WorkTree
	failing           []string // instances whose instantiation fails
	scaled            []string // instances at the late cluster
	stop              context.CancelFunc
	drops, fails      atomic.Bool
	pushing           atomic.Bool // whether nobody else commits at the forge: a push would be overtaken for ever
	all               sync.WaitGroup
}

// untilResolved names the variable that has the alerts of a worn machine followed to their end.
const untilResolved = "JIBE_ALERTS_UNTIL_RESOLVED"

func TestAlertsOfAMachineThatWearsOutFireAndResolve(t *testing.T) {
	testenv.Chaos(t, "Prometheus")
	testenv.Program(t, "prometheus", "prometheus")
	tracer := testenv.Program(t, "strace", "strace")
	if os.Getuid() != 0 {
		t.Skip("a small file system can only be mounted by root")
	}
	w := &worn{t: t}
	w.startFar()
	w.startForge()
	w.startStore()
	w.startDisk()
	p := startPrometheus(t, only(t, fireOnAWornMachine), at("far", w.far), at("forge", w.forge), at("store", w.store), at("disk", w.disk.Present()))
	ctx, stop := context.WithCancel(t.Context())
	w.stop = func() { stop(); w.all.Wait() }
	t.Cleanup(w.stop)
	w.lives(ctx)
	p.until(t, `sum(up) == 4`)
	p.until(t, `sum by (job) (jibe_lcm_operation_transitions_total{job="store", state="FAILED_TEMP"}) > 0`)
	p.until(t, `jibe_audit_last_record{job="disk"} > 20`)
	phase(t, p, "what lives is scraped")

	w.unread()
	w.late.Store(true)
	write(t, w.hook+".slow", "")
	mended := slowDisk(t, tracer, w.store.Pid())
	w.drops.Store(true)
	w.fails.Store(true)
	full := fill(t, filepath.Dir(w.disk.Present().Data))
	kit.EventuallyWithin(t, 2*kit.Patience, func() error { return p.alerts.fired("DataNotWritable", "AuditLogNotWritable") })
	phase(t, p, "the full disk is told")
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		a, err := w.disk.Present().Do(t.Context(), http.MethodGet, "/readyz", nil)
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("with room again it is %d: %s", a.Status, a.Body)
		}
		return err
	})
	w.restarts(p)
	phase(t, p, "starts and lost records are told")
	kit.EventuallyWithin(t, 2*kit.Patience, func() error { return p.alerts.fired(fireOnAWornMachine...) })
	phase(t, p, "all alerts fire")

	w.late.Store(false)
	w.drops.Store(false)
	w.fails.Store(false)
	mended()
	if err := os.Remove(w.hook + ".slow"); err != nil {
		t.Fatal(err)
	}
	w.stop() // so that a machine that is slow by itself keeps nothing firing
	w.files.Pull()
	w.files.Git("rm", "-r", "-q", "instances/lab")
	w.files.Push("Remove what can't be read")
	if os.Getenv(untilResolved) == "" {
		t.Logf("they aren't waited for until they resolve, which takes the 5 minutes that their rules look back: %s=1 does (make chaos)", untilResolved)
		return
	}
	kit.EventuallyWithin(t, 2*kit.Patience, func() error { return p.alerts.resolved(fireOnAWornMachine...) })
	phase(t, p, "alerts are resolved")
}

// only is a folder with the rules of some alerts.
func only(t *testing.T, names []string) string {
	t.Helper()
	of := map[int][]shipped{}
	var rules []shipped
	for _, name := range names {
		divided := cmp.Or(patient[name], wornHurry)
		if of[divided] == nil {
			of[divided] = hurriedRules(t, divided)
		}
		i := slices.IndexFunc(of[divided], func(r shipped) bool { return r.Alert == name })
		if i < 0 {
			t.Fatalf("there is no alert %s", name)
		}
		rules = append(rules, of[divided][i])
	}
	dir := t.TempDir()
	writeYAML(t, filepath.Join(dir, "only.yaml"), m{"groups": []m{{"name": "only", "rules": rules}}})
	return dir
}

// small is the vnf.yaml of an instance of the small package.
func small(dir, vnfd, more string) string {
	return fmt.Sprintf("id: %s\nname: %s\nvnfdId: %s\nflavour: simple\n%s", desired.DeriveID(dir), filepath.Base(dir), vnfd, more)
}

func params(namespace string) string {
	text := "params: {lcm-kubernetes-def-files: [" + strings.Join(process.SmallManifests(), ", ") + "]"
	if namespace != "" {
		text += ", namespace: " + namespace
	}
	return text + "}\n"
}

func (w *worn) startFar() {
	t, kubeconfig := w.t, kubeenv.Kubeconfig(w.t)
	w.far = process.Start(t, filepath.Join(process.ShortTempDir(t), "data"), "--workers", "2")
	w.far.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	files := map[string]string{"vims/far.yaml": w.far.Keep(t, "type: kubernetes\ndefault: true\nkubeconfig: file:"+kubeconfig+"\n")}
	var namespaces []string
	for i := range 8 {
		dir := fmt.Sprintf("instances/far/vnf-%d", i)
		namespaces = append(namespaces, kubeenv.Namespace(t, kubeconfig))
		files[dir+"/vnf.yaml"] = small(dir, process.SmallVnfd, params(namespaces[i]))
		w.scaled = append(w.scaled, desired.DeriveID(dir))
	}
	w.webhook(namespaces)
	w.far.PushFiles(t, files)
	for _, id := range w.scaled {
		completed(t, w.far, id)
	}
}

// webhook has the cluster ask before it writes to the namespaces, and is late with its answer while
// writes are to be.
func (w *worn) webhook(namespaces []string) {
	t := w.t
	hook := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(rw, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		if w.late.Load() {
			time.Sleep(6 * time.Second) // this is what is slow
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		review.Request = nil
		_ = json.NewEncoder(rw).Encode(review) // a cluster that doesn't wait any more is no concern of the test
	}))
	t.Cleanup(hook.Close)
	api, err := kubernetes.NewForConfig(kubeenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	seconds, policy, effects := int32(30), admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "late-" + namespaces[0]},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "late.jibe.example", AdmissionReviewVersions: []string{"v1"}, FailurePolicy: &policy, SideEffects: &effects, TimeoutSeconds: &seconds,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &hook.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: namespaces}}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps", ""}, APIVersions: []string{"v1"}, Resources: []string{"deployments", "configmaps"}},
			}},
		}},
	}
	hooks := api.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := hooks.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the hook is closed, which nobody would answer for
		if err := hooks.Delete(context.WithoutCancel(t.Context()), configuration.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// completed waits until an instance has an operation that is completed.
func completed(t *testing.T, s *process.Server, id string) {
	t.Helper()
	kit.Eventually(t, func() error {
		ops, err := process.All[process.Operation](t.Context(), s, process.Operations+"?filter=(eq,vnfInstanceId,"+id+")")
		if err == nil && !slices.ContainsFunc(ops, func(op process.Operation) bool { return op.State == "COMPLETED" }) {
			err = fmt.Errorf("%s has no operation that is completed: %+v", id, ops)
		}
		return err
	})
}

func (w *worn) startForge() {
	t := w.t
	bare := process.NewForge(t, map[string]string{
		"repositories.yaml": "- name: packages\n  url: packages.git\n  branch: main\n",
		"vims/sim.yaml":     "type: sim\ndefault: true\n",
	})
	w.hook = filepath.Join(bare, "hooks", "pre-receive")
	if err := os.MkdirAll(filepath.Dir(w.hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.hook, []byte("#!/bin/sh\ncat >/dev/null\n[ ! -e '"+w.hook+".slow' ] || sleep 6\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.forge = process.Start(t, filepath.Join(process.ShortTempDir(t), "data"), "--remote", "file://"+bare, "--poll", "1s")
	w.forge.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	w.files = process.NewWorkTree(t, bare)
}

// unread pushes more files that can't be read than a metric names.
func (w *worn) unread() {
	files := map[string]string{}
	for i := range 1010 {
		files[fmt.Sprintf("instances/lab/unread-%d/vnf.yaml", i)] = "name: [unread\n"
	}
	w.pushing.Store(true)
	w.files.Pull()
	w.files.PushFiles(files)
	w.pushing.Store(false)
}

func (w *worn) startStore() {
	t, kubeconfig := w.t, kubeenv.Kubeconfig(w.t)
	w.ending = kit.NewWire(t, "")
	hooked := process.NextVersion(t, process.SmallPackage(), "hooked", process.SmallVnfd, hookedVnfd, "        flavour_description: A front end (VDU1)\n",
		"        flavour_description: A front end (VDU1)\n      interfaces:\n        Vnflcm:\n          instantiate_start: {implementation: ../Scripts/fails.sh}\n")
	if err := os.Mkdir(filepath.Join(hooked, "Scripts"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(hooked, "Scripts", "fails.sh"), "#!/bin/sh\ncat >/dev/null\nexit 3\n")
	w.store = process.Start(t, filepath.Join(process.ShortTempDir(t), "data"), "--allow-hooks", "--unconfined-hooks")
	w.store.PushPackages(t, []string{process.SmallVnfd, hookedVnfd}, process.SmallPackage(), hooked)
	const watched = "instances/near/watched"
	w.store.PushFiles(t, map[string]string{
		"repositories.yaml":   "- name: packages\n  url: packages.git\n  branch: main\n  hooks: true\n",
		"vims/near.yaml":      w.store.Keep(t, "type: kubernetes\nkubeconfig: file:"+through(t, w.ending, kubeconfig)+"\n"),
		"vims/sim.yaml":       "type: sim\ndefault: true\n",
		watched + "/vnf.yaml": small(watched, process.SmallVnfd, "vim: near\n"+params(kubeenv.Namespace(t, kubeconfig))),
	})
	completed(t, w.store, desired.DeriveID(watched))
	for i := range 8 {
		w.failing = append(w.failing, w.store.Want(t, http.StatusCreated, http.MethodPost, process.Instances,
			map[string]any{"vnfdId": hookedVnfd, "vnfInstanceName": fmt.Sprintf("failing-%d", i)}, nil).ID())
	}
}

func (w *worn) startDisk() {
	t, dir := w.t, process.ShortTempDir(w.t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("a small file system can't be mounted: %v", err)
	}
	t.Cleanup(func() {
		if s := w.disk.Take(); s != nil {
			s.KillGroup()
		}
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil { // its git processes end in a moment
			t.Error(err)
		}
	})
	s := process.Start(t, filepath.Join(dir, "data"))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	w.records = map[string][]byte{}
	for _, name := range []string{"audit.jsonl", "audit.head"} {
		text, err := os.ReadFile(filepath.Join(s.Data, name))
		if err != nil {
			t.Fatal(err)
		}
		w.records[name] = text
	}
	w.disk.Serve(process.Start(t, s.Data, "--listen", kit.Free(t))) // it is started there again and again
}

// fill leaves no room in a folder's file system, and returns the file that has it.
func fill(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "full")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{64 << 10, 1} {
		for chunk := make([]byte, size); err == nil; {
			_, err = f.Write(chunk)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
	if err := f.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return file
}

// slowDisk has each write of a process to its store take most of a second, as a disk does that is
// worn out, until mended is called.
func slowDisk(t *testing.T, tracer string, pid int) (mended func()) {
	t.Helper()
	cmd := exec.Command(tracer, "-f", "-qq", "-o", os.DevNull, "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_exit=800000", "-p", fmt.Sprint(pid))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mended = sync.OnceFunc(func() {
		// It takes no other signal. The kernel lets go of the process, which goes on.
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	t.Cleanup(mended)
	return mended
}

// lives has all go on that the alerts look at, until ctx ends.
func (w *worn) lives(ctx context.Context) {
	again := func(every time.Duration, do func(n int)) {
		w.all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-time.After(every):
					do(n)
				}
			}
		})
	}
	for _, id := range w.scaled {
		again(time.Second, func(n int) { // a refusal is life, too
			_, _ = w.far.Do(ctx, http.MethodPost, process.Instances+"/"+id+"/scale", map[string]any{"type": []string{"SCALE_OUT", "SCALE_IN"}[n%2], "aspectId": "front"})
		})
	}
	for i := range 2 {
		again(300*time.Millisecond, func(n int) { // each is a commit, and a push
			if w.pushing.Load() {
				return
			}
			_, _ = w.forge.Do(ctx, http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": fmt.Sprintf("made-%d-%d", i, n)})
		})
	}
	for i, id := range w.failing {
		again(500*time.Millisecond, func(int) {
			if i == 0 || w.fails.Load() {
				w.failOnce(ctx, id)
			}
		})
	}
	again(5*time.Second, func(int) {
		if w.drops.Load() {
			w.ending.Drop()
		}
	})
	again(100*time.Millisecond, func(int) { // each is recorded, with a name that fills the log
		for range 3 {
			if disk := w.disk.Present(); disk != nil {
				_, _ = disk.Do(ctx, http.MethodDelete, process.Instances+"/"+strings.Repeat("x", 1000), nil)
			}
		}
	})
}

// failOnce has an instantiation fail, and rolls it back.
func (w *worn) failOnce(ctx context.Context, instance string) {
	a, err := w.store.Do(ctx, http.MethodPost, process.Instances+"/"+instance+"/instantiate",
		map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"lcm-kubernetes-def-files": process.SmallManifests()}})
	if err != nil || a.Status != http.StatusAccepted {
		return // the one before isn't rolled back yet, or the test ends
	}
	for _, state := range []string{"FAILED_TEMP", "ROLLED_BACK"} {
		err := kit.Poll(ctx, kit.Patience, func() error {
			var op process.Operation
			if err := w.store.Get(ctx, process.Operations+"/"+a.ID(), &op); err != nil {
				return err
			}
			if op.State == state {
				return nil
			}
			if op.State == "FAILED_TEMP" { // and again where it wasn't taken
				_, _ = w.store.Do(ctx, http.MethodPost, process.Operations+"/"+a.ID()+"/rollback", nil)
			}
			return fmt.Errorf("it is %s: %s", op.State, op.Error.Detail)
		})
		if err != nil {
			if ctx.Err() == nil {
				w.t.Errorf("the operation of %s doesn't get %s: %v", instance, state, err)
			}
			return
		}
	}
}

// restarts kills the Jibe with the small disk and starts it again until Prometheus has told of so
// many starts. The first time somebody has put former records in the place of its audit log.
func (w *worn) restarts(p *prometheus) {
	t := w.t
	const started = `process_start_time_seconds{job="disk"}`
	for n := 0; p.alerts.fired("JibeStartsOften", "AuditLogLostRecords") != nil; n++ {
		if n == 60 {
			t.Fatal(p.alerts.fired("JibeStartsOften", "AuditLogLostRecords"))
		}
		var before []series
		kit.Eventually(t, func() (err error) { // a scrape that took too long leaves nothing for a moment
			if before, err = p.now(t.Context(), started); err == nil && len(before) != 1 {
				err = fmt.Errorf("%s is %v", started, before)
			}
			return err
		})
		s := w.disk.Take()
		s.KillGroup()
		if n == 0 {
			for name, text := range w.records {
				write(t, filepath.Join(s.Data, name), string(text))
			}
		}
		w.disk.Serve(process.Start(t, s.Data, "--listen", strings.TrimPrefix(s.URL, "http://")))
		p.until(t, fmt.Sprintf("%s > %v", started, before[0].Value[1]))
	}
}
