package prometheus

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/nfvo"
	"github.com/jibe-vnfm/jibe/test/process"
)

// world is three Jibes and two replicas of a fourth, to which all happens that dashboards and alerts are made for.
type world struct {
	t *testing.T
	// main has a cluster, a cluster that is reached by a wire, a simulated VIM, an NFVO and
	// subscribers. forge follows a repository that no hook of Jibe's guards. third has a
	// certificate that soon ends, and its hooks unconfined; it is what dies.
	main, forge, third *process.Server
	replicas           *replicas
	api                kubernetes.Interface
	wire               *kit.Wire
	account            *account
	desired, elsewhere *process.WorkTree
	bare               string // the forge's repository
	told               told   // its API
	certificate        string // the third's, with its key in the same folder
	thirdData          string
	deaf               atomic.Bool // whether the subscriber answers no more
	contended          atomic.Bool // whether somebody undoes repairs
	asleep             atomic.Bool // whether the NFVO is away for one instance
	guessing           atomic.Bool
	pushing            atomic.Bool       // whether nobody else commits: on a slow machine a push is overtaken for ever
	retrying           sync.Mutex        // held while somebody retries
	retried            string            // the operation that is retried again and again, "" is none
	at                 map[string]string // namespaces by instance
	failing            map[string]string // operations that were made to fail
	stop               func()
}

// The instances that are out of the ordinary, by folder.
const (
	patched  = "instances/west/patched"  // somebody has written to it; drift: report
	fought   = "instances/west/fought"   // somebody undoes each repair
	crowded  = "instances/west/crowded"  // its scale-out is beyond a quota
	held     = "instances/west/held"     // so was its, and it was failed
	slow     = "instances/west/slow"     // its pod gets no node
	blind    = "instances/west/blind"    // Jibe may not list its ConfigMaps
	far      = "instances/west/far"      // its cluster is away
	astray   = "instances/west/astray"   // another VIM answers in the place of its own
	hooked   = "instances/east/hooked"   // its hook fails
	granted  = "instances/east/granted"  // its grant is awaited
	denied   = "instances/east/denied"   // its grant is refused
	waiting  = "instances/east/waiting"  // it needs the one before
	unheard  = "instances/east/unheard"  // the NFVO doesn't answer for it
	frozen   = "instances/north/frozen"  // below a folder that is frozen
	resting  = "instances/east/resting"  // suspended
	unread   = "instances/lab/unread"    // of the forge: its file can't be read
	proposed = "instances/lab/proposed"  // of the forge: its scale-out waits for a pull request
	waved    = "instances/lab/waved"     // of the forge: a rollout has proposed it
	ordinary = "instances/east/ordinary" // the beginning of those that are scaled all the time
)

// ordinaries is how many instances live an ordinary life.
const ordinaries = 8

// Packages beside process.SmallVnfd: the next version, one whose pod gets no node, one with hooks.
const (
	nextVnfd   = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bd2"
	slowVnfd   = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bd3"
	hookedVnfd = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bd4"
)

func newWorld(t *testing.T) *world {
	w := &world{t: t, at: map[string]string{}, failing: map[string]string{}}
	kubeconfig := kubeenv.Kubeconfig(t)
	var err error
	if w.api, err = kubernetes.NewForConfig(kubeenv.RestConfig(t)); err != nil {
		t.Fatal(err)
	}
	w.wire = kit.NewWire(t, "")
	for _, dir := range []string{patched, fought, crowded, held, slow, blind, far} {
		w.at[dir] = kubeenv.Namespace(t, kubeconfig)
	}
	w.account = newAccount(t, w.api, w.at[blind])
	w.startMain(kubeconfig)
	w.startForge()
	w.startThird()
	w.replicas = startReplicas(t)
	return w
}

// file is the vnf.yaml of an instance.
func (w *world) file(dir, vnfd, more string) string {
	params := "lcm-kubernetes-def-files: [" + strings.Join(process.SmallManifests(), ", ") + "]"
	if ns := w.at[dir]; ns != "" {
		params += ", namespace: " + ns
	}
	return fmt.Sprintf("id: %s\nname: %s\nvnfdId: %s\nflavour: simple\nparams: {%s}\n%s", desired.DeriveID(dir), filepath.Base(dir), vnfd, params, more)
}

func (w *world) startMain(kubeconfig string) {
	t := w.t
	data := filepath.Join(process.ShortTempDir(t), "data")
	w.main = process.Start(t, data, "--allow-hooks", "--unconfined-hooks=false", "--notify-retention", "20s", "--start-timeout", "20m", "--timeout", "20m")
	packages := []string{process.SmallPackage(),
		process.NextVersion(t, process.SmallPackage(), "small-1.1", process.SmallVnfd, nextVnfd, "'1.0'", "'1.1'"),
		process.NextVersion(t, process.SmallPackage(), "slow", process.SmallVnfd, slowVnfd, "    spec:\n      containers:", "    spec:\n      schedulerName: nobody\n      containers:"),
		process.NextVersion(t, process.SmallPackage(), "hooked", process.SmallVnfd, hookedVnfd, "        flavour_description: A front end (VDU1)\n",
			"        flavour_description: A front end (VDU1)\n      interfaces:\n        Vnflcm:\n          instantiate_start: {implementation: ../Scripts/well.sh}\n          instantiate_end: {implementation: ../Scripts/fails.sh}\n")}
	scripts := filepath.Join(packages[3], "Scripts")
	if err := os.Mkdir(scripts, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(scripts, "well.sh"), "#!/bin/sh\ncat >/dev/null\n")
	write(t, filepath.Join(scripts, "fails.sh"), "#!/bin/sh\ncat >/dev/null\necho 'the licence server has no licence left' >&2\nexit 3\n")
	w.main.PushPackages(t, []string{process.SmallVnfd, nextVnfd, slowVnfd, hookedVnfd}, packages...)

	n := nfvo.New(t)
	n.Decide(func(a nfvo.Ask) nfvo.Decision {
		switch a.Text("vnfInstanceId") {
		case desired.DeriveID(granted):
			return nfvo.Decision{Later: 1 << 30}
		case desired.DeriveID(denied):
			return nfvo.Decision{Refused: "no room is left in the east"}
		case desired.DeriveID(unheard):
			if w.asleep.Load() {
				return nfvo.Decision{Raw: func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "away", http.StatusServiceUnavailable) }}
			}
		}
		return nfvo.Decision{}
	})
	w.desired = process.NewWorkTree(t, w.main.Desired())
	kept := func(kubeconfig string) string {
		return w.main.Keep(t, "type: kubernetes\nkubeconfig: file:"+kubeconfig+"\n")
	}
	files := map[string]string{
		"repositories.yaml":     "- name: packages\n  url: packages.git\n  branch: main\n  hooks: true\n",
		"vims/cluster.yaml":     kept(kubeconfig),
		"vims/far.yaml":         kept(through(t, w.wire, kubeconfig)),
		"vims/spare.yaml":       kept(through(t, w.wire, kubeconfig)), // no instance names it
		"vims/half.yaml":        kept(w.account.kubeconfig(t)),
		"vims/sim.yaml":         "type: sim\ndefault: true\n",
		"projects/default.yaml": "vims: ['*']\nrepositories: ['*']\nkinds: {clusterScoped: [Namespace]}\n",
		"peers.yaml":            "- {name: orchestrator, type: nfvo, endpoint: \"" + n.URL + "\"}\n",
		"granting.yaml":         "nfvo: {name: orchestrator, wait: 1h}\n",
	}
	for i := range ordinaries {
		dir, vnfd := fmt.Sprintf("%s-%d", ordinary, i), process.SmallVnfd
		if i%3 == 0 {
			vnfd = nextVnfd
		}
		files[dir+"/vnf.yaml"] = w.file(dir, vnfd, "")
	}
	files[patched+"/vnf.yaml"] = w.file(patched, process.SmallVnfd, "vim: cluster\ndrift: report\n")
	files[far+"/vnf.yaml"] = w.file(far, process.SmallVnfd, "vim: far\n")
	files["vims/replaced.yaml"] = "type: sim\nendpoint: https://first.example\n"
	files[astray+"/vnf.yaml"] = w.file(astray, process.SmallVnfd, "vim: replaced\n")
	files[resting+"/vnf.yaml"] = w.file(resting, process.SmallVnfd, "suspend: true\n")
	for _, dir := range []string{fought, crowded, held} {
		files[dir+"/vnf.yaml"] = w.file(dir, process.SmallVnfd, "vim: cluster\n")
	}
	w.desired.PushFiles(files)
	for _, dir := range []string{patched, far, fought, crowded, held, astray} {
		w.runs(dir)
	}
	for i := range ordinaries {
		w.runs(fmt.Sprintf("%s-%d", ordinary, i))
	}
}

// runs waits until the instance is instantiated and its operation has ended.
func (w *world) runs(dir string) {
	w.t.Helper()
	kit.Eventually(w.t, func() error {
		ops, err := process.All[process.Operation](w.t.Context(), w.main, process.Operations+"?filter=(eq,vnfInstanceId,"+desired.DeriveID(dir)+")")
		if err != nil {
			return err
		}
		if len(ops) == 0 || ops[len(ops)-1].State != "COMPLETED" {
			return fmt.Errorf("%s doesn't run: %+v", dir, ops)
		}
		return nil
	})
}

// operation waits until the newest operation of an instance is in the state, and returns its id.
func (w *world) operation(dir, state string) (id string) {
	w.t.Helper()
	kit.Eventually(w.t, func() error {
		ops, err := process.All[process.Operation](w.t.Context(), w.main, process.Operations+"?filter=(eq,vnfInstanceId,"+desired.DeriveID(dir)+")")
		if err != nil {
			return err
		}
		for _, op := range ops {
			if op.State == state {
				id = op.ID
				return nil
			}
		}
		return fmt.Errorf("%s has no operation in %s: %+v", dir, state, ops)
	})
	return id
}

// scale asks for a scale-out and returns the operation's id.
func (w *world) scale(dir string, steps int) string {
	w.t.Helper()
	return w.main.Ask(w.t, desired.DeriveID(dir), "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front", "numberOfSteps": steps})
}

// act asks for something to be done with an operation.
func (w *world) act(operation, verb string) {
	w.t.Helper()
	status := http.StatusAccepted
	if verb == "fail" {
		status = http.StatusOK
	}
	w.main.Want(w.t, status, http.MethodPost, process.Operations+"/"+operation+"/"+verb, nil, nil)
}

// onePackages is the repositories.yaml of the forge while all is well.
const onePackages = "- name: packages\n  url: packages.git\n  branch: main\n"

func (w *world) startForge() {
	t := w.t
	w.bare = process.NewForge(t, map[string]string{
		"repositories.yaml":     onePackages,
		"vims/sim.yaml":         "type: sim\ndefault: true\n",
		"projects/default.yaml": "write: {pullRequest: [SCALE]}\n",
	})
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "of nobody\n")
	w.forge = process.Start(t, filepath.Join(process.ShortTempDir(t), "data"), "--remote", "file://"+w.bare, "--poll", "1s", "--push-interval", "1s",
		"--forge", "gitea", "--forge-url", w.told.serve(t), "--forge-repository", "noc/vnfs", "--forge-token", "file:"+token, "--forge-rate", "100")
	w.forge.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	w.elsewhere = process.NewWorkTree(t, w.bare)
	w.elsewhere.PushFiles(map[string]string{unread + "/vnf.yaml": w.file(unread, process.SmallVnfd, ""), proposed + "/vnf.yaml": w.file(proposed, process.SmallVnfd, ""), waved + "/vnf.yaml": w.file(waved, process.SmallVnfd, "")})
}

func (w *world) startThird() {
	t := w.t
	w.certificate = filepath.Join(t.TempDir(), "cert.pem")
	w.certify(36 * time.Hour)
	w.thirdData = filepath.Join(process.ShortTempDir(t), "data")
	w.third = process.Start(t, w.thirdData, append(w.thirdFlags(true), "--listen", kit.Free(t))...)
}

// thirdFlags are those of the third Jibe, but for its address.
func (w *world) thirdFlags(unconfined bool) []string {
	return []string{"--tls-cert", w.certificate, "--tls-key", w.certificate + ".key", "--allow-hooks", fmt.Sprintf("--unconfined-hooks=%t", unconfined)}
}

// certify writes a certificate of its own that ends after some time.
func (w *world) certify(valid time.Duration) {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.t.Fatal(err)
	}
	write(w.t, w.certificate+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	write(w.t, w.certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
}

// lives begins what goes on all the time: instances are scaled, changes are refused,
// subscribers are told, and where the world says so, repairs are undone and passwords
// guessed. It ends when the test does, or with stop.
func (w *world) lives() {
	t := w.t
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	w.stop = func() { cancel(); all.Wait() }
	t.Cleanup(w.stop)
	again := func(every time.Duration, do func(n int)) {
		all.Go(func() {
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
	for _, take := range []*atomic.Bool{{}, &w.deaf} {
		subscriber := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			if take.Load() {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			rw.WriteHeader(http.StatusNoContent)
		}))
		t.Cleanup(subscriber.Close)
		w.main.Want(t, http.StatusCreated, http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": subscriber.URL}, nil)
	}
	clone := process.NewClone(t, w.main.Desired())
	slip := func(n int) error { // a push that is refused
		if err := errors.Join(clone.Reset(ctx), clone.Write("instances/lab/slip/vnf.yaml", fmt.Sprintf("name: slip-%d\nflavor: simple\n", n))); err != nil {
			return err
		}
		if _, err := clone.Commit(ctx, "Slip"); err != nil {
			return err
		}
		return clone.Push(ctx)
	}
	// The first before ordinary life begins: on a slow machine all later ones are overtaken on their way.
	kit.Eventually(t, func() error {
		switch err := slip(0); {
		case err == nil:
			return errors.New("a push with an unknown key was accepted")
		case !strings.Contains(err.Error(), "instances/lab/slip/vnf.yaml"):
			return fmt.Errorf("a push with an unknown key didn't reach the hook: %w", err)
		}
		return nil
	})
	for i := range 2 { // ordinary life
		again(400*time.Millisecond, func(n int) {
			if w.pushing.Load() {
				return
			}
			dir := fmt.Sprintf("%s-%d", ordinary, (i+2*(n/2))%ordinaries)
			direction := []string{"SCALE_OUT", "SCALE_IN"}[n%2]
			// A refusal is life, too: two of them may meet at one instance.
			_, _ = w.main.Do(ctx, http.MethodPost, process.Instances+"/"+desired.DeriveID(dir)+"/scale", map[string]any{"type": direction, "aspectId": "front"})
		})
	}
	again(time.Second, func(int) { // beyond the highest level: refused
		_, _ = w.main.Do(ctx, http.MethodPost, process.Instances+"/"+desired.DeriveID(patched)+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front", "numberOfSteps": 90})
	})
	again(time.Second, func(n int) { _ = slip(n) })
	again(150*time.Millisecond, func(int) { // a controller with its own idea of the data
		if !w.contended.Load() {
			return
		}
		maps := w.api.CoreV1().ConfigMaps(w.at[fought])
		if c, err := maps.Get(ctx, "settings", metav1.GetOptions{}); err == nil && c.Data["LOG_LEVEL"] != "trace" {
			_, _ = maps.Patch(ctx, "settings", types.MergePatchType, []byte(`{"data":{"LOG_LEVEL":"trace"}}`), metav1.PatchOptions{FieldManager: "stubborn-operator"})
		}
	})
	again(time.Second, func(int) { // somebody who hopes that the hook works the next time
		w.retrying.Lock()
		defer w.retrying.Unlock()
		if w.retried != "" {
			_, _ = w.main.Do(ctx, http.MethodPost, process.Operations+"/"+w.retried+"/retry", nil)
		}
	})
	again(2*time.Second, func(n int) { // somebody who writes to a forge that limits pushes
		_, _ = w.forge.Do(ctx, http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": fmt.Sprintf("planned-%d", n)})
	})
	again(100*time.Millisecond, func(n int) {
		if w.guessing.Load() {
			_, _ = w.forge.Do(ctx, http.MethodGet, process.Instances, nil, "Authorization", fmt.Sprintf("Bearer guess-%d", n))
		}
	})
}
