package kubernetes_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/driverstest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

// cluster is the control plane under test.
type cluster struct {
	path       string
	kubeconfig []byte
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	path := kubeenv.Kubeconfig(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{path, content}
}

func (c *cluster) namespace(t *testing.T) string {
	t.Helper()
	return kubeenv.Namespace(t, c.path)
}

// connect makes a driver that ends with the test.
func (c *cluster) connect(t *testing.T) *kubernetes.Driver {
	t.Helper()
	return c.connectAs(t, "installation-a", "0123456789abcdef", nil)
}

// connectAs makes the driver of another installation.
func (c *cluster) connectAs(t *testing.T, installation, digestKey string, log *slog.Logger) *kubernetes.Driver {
	t.Helper()
	d, err := kubernetes.New(drivers.VIM{Name: "test", Type: kubernetes.Type, Kubeconfig: c.kubeconfig}, kubernetes.Options{
		Egress: egress.Anywhere(), DigestKey: []byte(digestKey), Installation: installation, Log: log,
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
			d, err := kubernetes.New(drivers.VIM{Name: "away", Endpoint: "https://127.0.0.1:1"}, kubernetes.Options{Egress: egress.Anywhere()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return d
		},
		VDU: "VDU1",
		Source: func(t *testing.T, id string, units int) drivers.Source {
			return sample.Source(id, place(t, id), sample.FrontAndBack, sample.TwoVDUs(), map[string]int{"front_aspect": units - 1})
		},
		Rival: func(t *testing.T, id string) drivers.Source {
			mu.Lock()
			defer mu.Unlock()
			return sample.Source(id, shared[t.Name()], sample.FrontAndBack, sample.TwoVDUs(), nil)
		},
		Refused: func(t *testing.T, id string) drivers.Source {
			return sample.Source(id, place(t, id), "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 99999}]}}", sample.TwoVDUs(), nil)
		},
		Mortal: func(t *testing.T, id string) (drivers.Source, func(*testing.T, plan.Observed) string) {
			namespace := place(t, id)
			pod := strings.Replace(barePod, "nodeSelector: {no: where}, ", "", 1)
			return sample.Source(id, namespace, pod+"\n---\n"+oneConfigMap, sample.Workloads("probe"), nil), func(t *testing.T, _ plan.Observed) string {
				end(t, c.api(t), namespace, "probe", `{"phase":"Failed","reason":"Evicted","message":"disk pressure"}`)
				return "Pod/" + namespace + "/probe"
			}
		},
		MayPass: func(t *testing.T, id string) drivers.Source {
			_, src := guarded(t, c, id)
			return src
		},
		Unrenderable: func(t *testing.T, id string) drivers.Source {
			return sample.Source(id, place(t, id), sample.FrontAndBack, sample.TwoVDUs(), map[string]int{"front_aspect": 9})
		},
		Change: func(t *testing.T, id, strategy string) (before, after drivers.Source) {
			return changed(id, place(t, id), strategy, strings.ReplaceAll(sample.FrontAndBack, "pause:3.10", "pause:3.9"))
		},
		Refusal: func(t *testing.T, id string) (before, after drivers.Source) {
			return changed(id, place(t, id), desired.BlueGreen, strings.Replace(sample.FrontAndBack, "containerPort: 8080", "containerPort: 8080, hostPort: 8080", 1))
		},
		Patience: kit.Patience,
	})
}

// changed is the instance of sample.FrontAndBack, and what it is after a change of package.
func changed(id, namespace, strategy, manifests string) (before, after drivers.Source) {
	before = sample.Source(id, namespace, sample.FrontAndBack, sample.TwoVDUs(), map[string]int{"front_aspect": 1})
	after = sample.Source(id, namespace, manifests, sample.TwoVDUs(), map[string]int{"front_aspect": 1})
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
	d, err := kubernetes.New(drivers.VIM{Name: "away", Endpoint: server.URL, Token: "t"}, kubernetes.Options{Egress: egress.Anywhere()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
