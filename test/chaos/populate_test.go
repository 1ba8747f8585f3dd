package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/load"
	"github.com/jibe-vnfm/jibe/test/process"
)

// calmEvery is how many instances there are for each that is left in peace.
const calmEvery = 7

// populateWait bounds the instantiation of all instances.
const populateWait = 10 * time.Minute

// populate instantiates the instances, each in a namespace of its own: half of them by one
// push, half through the API.
func (w *world) populate(n int, rng *rand.Rand) {
	w.t.Helper()
	ctx, s := w.t.Context(), w.Present()
	w.publish()
	s.PushFiles(w.t, map[string]string{"vims/chaos.yaml": s.Keep(w.t, "type: kubernetes\ndefault: true\nkubeconfig: file:"+w.plane.Kubeconfig()+"\n")})
	files := map[string]string{}
	for i := range n {
		v := &vnf{name: fmt.Sprintf("vnf-%02d", i), namespace: fmt.Sprintf("chaos-%02d", i), calm: i%calmEvery == 0}
		policy := desired.UpdatePolicy{Strategy: []string{desired.Rolling, desired.BlueGreen}[rng.IntN(2)], BarePods: true}
		if v.calm {
			policy.Strategy = desired.BlueGreen
		}
		_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.namespace}}, metav1.CreateOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		w.vnfs = append(w.vnfs, v)
		if i%2 == 1 {
			made := s.Want(w.t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": trio, "vnfInstanceName": v.name}, nil)
			v.id, v.dir = made.ID(), desired.APIDir(made.ID())
			text, err := desired.Format(&desired.Instance{ID: v.id, Name: v.name, VnfdID: trio, State: desired.NotInstantiated, Update: policy})
			if err != nil {
				w.t.Fatal(err)
			}
			files[path.Join(v.dir, desired.InstanceFile)] = string(text)
			continue
		}
		v.dir = "instances/chaos/" + v.name
		v.id = process.Identity(v.dir)
		text, err := desired.Format(&desired.Instance{
			Name: v.name, VnfdID: trio, State: desired.Instantiated, Flavour: "simple",
			Levels: map[string]int{"front": rng.IntN(maxLevel + 1)}, Params: params(v), Update: policy,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		files[path.Join(v.dir, desired.InstanceFile)] = string(text)
	}
	for _, v := range w.vnfs {
		// Without its service account the API server refuses every pod.
		kit.Eventually(w.t, func() error {
			_, err := w.client.CoreV1().ServiceAccounts(v.namespace).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
	}
	s.PushFiles(w.t, files)
	for i, v := range w.vnfs {
		if i%2 == 1 {
			a := s.Want(w.t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+v.id+"/instantiate",
				map[string]any{"flavourId": "simple", "additionalParams": params(v)}, nil)
			w.people.Acknowledge(load.Request{What: string(lcm.Instantiate), Operation: a.ID(), Instance: v.id, Dir: v.dir})
		}
	}
	kit.EventuallyWithin(w.t, populateWait, func() error {
		operations, err := process.All[process.Operation](ctx, s, process.Operations)
		if err != nil {
			return err
		}
		done := 0
		for _, op := range operations {
			if op.Type == string(lcm.Instantiate) && op.State == string(lcm.Completed) {
				done++
			}
		}
		if done < n {
			return fmt.Errorf("%d of %d instances are instantiated", done, n)
		}
		return nil
	})
	w.log.note("chaos", "", "all is instantiated")
}

// publish makes all versions of the package known.
func (w *world) publish() {
	w.t.Helper()
	w.trees, w.people.Versions = map[string]*version{}, map[string]string{}
	versions := makeVersions(w.t)
	var ids, dirs []string
	for _, v := range versions {
		ids, dirs = append(ids, v.vnfd), append(dirs, v.dir)
	}
	w.Present().PushPackages(w.t, ids, dirs...)
	for _, v := range versions {
		tree, err := process.Git(w.t.Context(), filepath.Join(w.data, "packages", "packages.git"), "rev-parse", "main:"+filepath.Base(v.dir))
		if err != nil {
			w.t.Fatal(err)
		}
		w.trees[tree], w.people.Versions[tree] = v, v.vnfd
	}
}

func params(v *vnf) map[string]any {
	return map[string]any{"namespace": v.namespace, "lcm-kubernetes-def-files": manifests()}
}
