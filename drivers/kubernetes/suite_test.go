package kubernetes_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/driverstest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/testenv"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const frontAndBack = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec:
  selector: {app: front}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front}
spec:
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: front
        image: registry.k8s.io/pause:3.10
        ports: [{containerPort: 8080}]
        envFrom: [{configMapRef: {name: settings}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: front-back}
spec:
  serviceName: front
  selector: {matchLabels: {app: back}}
  template:
    metadata: {labels: {app: back}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: back, image: "registry.k8s.io/pause:3.10"}]
`

func twoVDUs() *vnfd.VNFD {
	return &vnfd.VNFD{
		ID: "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177", DefaultFlavour: "simple",
		Flavours: []vnfd.Flavour{{
			ID: "simple",
			VDUs: []vnfd.VDU{
				{ID: "VDU1", Name: "front", Initial: 1, Deltas: map[string]int{"front_aspect": 1}, Max: 5},
				{ID: "VDU2", Name: "front-back", Initial: 1, Max: 1},
			},
			Aspects: []vnfd.Aspect{{ID: "front_aspect", MaxLevel: 4}},
		}},
	}
}

// source is an instance of one manifest file, in the namespace.
func source(id, namespace, manifests string, descriptor *vnfd.VNFD, levels map[string]int) drivers.Source {
	files := fstest.MapFS{"Files/kubernetes/all.yaml": {Data: []byte(manifests)}}
	return packaged(id, namespace, files, descriptor, levels)
}

func packaged(id, namespace string, files fs.FS, descriptor *vnfd.VNFD, levels map[string]int) drivers.Source {
	in := &desired.Instance{ID: id, Flavour: "simple", Levels: levels, Params: map[string]any{}}
	if namespace != "" {
		in.Params["namespace"] = namespace
	}
	return drivers.Source{Instance: in, Package: &vnfd.Package{Tree: treeOf(files), Files: files, VNFD: descriptor}}
}

// treeOf stands for the git tree hash: it differs whenever a file does.
func treeOf(files fs.FS) string {
	sum := sha256.New()
	_ = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			content, _ := fs.ReadFile(files, path)
			fmt.Fprintf(sum, "%s %d %s", path, len(content), content)
		}
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))
}

// cluster is the control plane under test.
type cluster struct {
	path       string
	kubeconfig []byte
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	path := testenv.Kubeconfig(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{path, content}
}

func (c *cluster) namespace(t *testing.T) string {
	t.Helper()
	return testenv.Namespace(t, c.path)
}

// connect makes a driver that ends with the test.
func (c *cluster) connect(t *testing.T) *kubernetes.Driver {
	t.Helper()
	d, err := kubernetes.New(drivers.VIM{Name: "test", Type: kubernetes.Type, Kubeconfig: c.kubeconfig}, kubernetes.Options{
		DigestKey: []byte("0123456789abcdef"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestKubernetesKeepsTheDriverContract(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	namespaces := map[string]string{} // by instance: two instances of one test don't meet
	shared := map[string]string{}     // by test: where the rival goes
	place := func(t *testing.T, id string) string {
		mu.Lock()
		defer mu.Unlock()
		if namespaces[id] == "" {
			namespaces[id] = c.namespace(t)
		}
		shared[t.Name()] = namespaces[id]
		return namespaces[id]
	}
	driverstest.Run(t, driverstest.Harness{
		Connect: func(t *testing.T) drivers.Driver { return c.connect(t) },
		ConnectAway: func(t *testing.T) drivers.Driver {
			d, err := kubernetes.New(drivers.VIM{Name: "away", Endpoint: "https://127.0.0.1:1"}, kubernetes.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return d
		},
		VDU: "VDU1",
		Source: func(t *testing.T, id string, units int) drivers.Source {
			return source(id, place(t, id), frontAndBack, twoVDUs(), map[string]int{"front_aspect": units - 1})
		},
		Rival: func(t *testing.T, id string) drivers.Source {
			mu.Lock()
			defer mu.Unlock()
			return source(id, shared[t.Name()], frontAndBack, twoVDUs(), nil)
		},
		Refused: func(t *testing.T, id string) drivers.Source {
			return source(id, place(t, id), "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 99999}]}}", twoVDUs(), nil)
		},
		Mortal: func(t *testing.T, id string) (drivers.Source, func(*testing.T, plan.Observed) string) {
			namespace := place(t, id)
			pod := strings.Replace(barePod, "nodeSelector: {no: where}, ", "", 1)
			return source(id, namespace, pod+"\n---\n"+oneConfigMap, workloads("probe"), nil), func(t *testing.T, _ plan.Observed) string {
				end(t, c.api(t), namespace, "probe", `{"phase":"Failed","reason":"Evicted","message":"disk pressure"}`)
				return "Pod/" + namespace + "/probe"
			}
		},
		MayPass: func(t *testing.T, id string) drivers.Source {
			_, src := guarded(t, c, id)
			return src
		},
		Unrenderable: func(t *testing.T, id string) drivers.Source {
			return source(id, place(t, id), frontAndBack, twoVDUs(), map[string]int{"front_aspect": 9})
		},
		Change: func(t *testing.T, id, strategy string) (before, after drivers.Source) {
			return changed(id, place(t, id), strategy, strings.ReplaceAll(frontAndBack, "pause:3.10", "pause:3.9"))
		},
		Refusal: func(t *testing.T, id string) (before, after drivers.Source) {
			return changed(id, place(t, id), desired.BlueGreen, strings.Replace(frontAndBack, "containerPort: 8080", "containerPort: 8080, hostPort: 8080", 1))
		},
		Patience: 60 * time.Second,
	})
}

// changed is the instance of frontAndBack, and what it is after a change of package.
func changed(id, namespace, strategy, manifests string) (before, after drivers.Source) {
	before = source(id, namespace, frontAndBack, twoVDUs(), map[string]int{"front_aspect": 1})
	after = source(id, namespace, manifests, twoVDUs(), map[string]int{"front_aspect": 1})
	after.Instance.Update.Strategy = strategy
	if strategy == desired.BlueGreen {
		after.Instance.Generation = "1"
	}
	return before, after
}

// away is a VIM that gives one answer to everything.
func away(t *testing.T, status int) drivers.Driver {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", status)
	}))
	t.Cleanup(server.Close)
	d, err := kubernetes.New(drivers.VIM{Name: "away", Endpoint: server.URL, Token: "t"}, kubernetes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
