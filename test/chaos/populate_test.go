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
	"github.com/jibe-vnfm/jibe/test/process"
)

// trio is the vnfdId of the package in testdata: a Deployment whose scaling aspect "front"
// has the levels 0 to maxLevel (1 to 3 pods), a StatefulSet and a bare Pod.
const (
	trio     = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bc2"
	maxLevel = 2
)

// trioDir is the folder of the package.
func trioDir() string {
	return filepath.Join(process.Root(), "test", "chaos", "testdata", "trio")
}

// manifests are the package's manifests.
func manifests() []string {
	return []string{"Files/kubernetes/support.yaml", "Files/kubernetes/workloads.yaml"}
}

// populateWait bounds the instantiation of all instances.
const populateWait = 4 * time.Minute

// populate instantiates the instances, each in a namespace of its own: half of them by one
// push, half through the API.
func (w *world) populate(n int, rng *rand.Rand) {
	w.t.Helper()
	ctx, s := w.t.Context(), w.Present()
	s.PushPackages(w.t, []string{trio}, trioDir())
	s.PushFiles(w.t, map[string]string{"vims/chaos.yaml": "type: kubernetes\ndefault: true\nkubeconfig: file:" + w.plane.kubeconfig() + "\n"})
	files := map[string]string{}
	for i := range n {
		v := &vnf{name: fmt.Sprintf("vnf-%02d", i), namespace: fmt.Sprintf("chaos-%02d", i)}
		_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.namespace}}, metav1.CreateOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		w.vnfs = append(w.vnfs, v)
		if i%2 == 1 {
			made := s.Want(w.t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": trio, "vnfInstanceName": v.name}, nil)
			v.id, v.dir = made.ID(), desired.APIDir(made.ID())
			continue
		}
		v.dir = "instances/chaos/" + v.name
		v.id = process.Identity(v.dir)
		text, err := desired.Format(&desired.Instance{
			Name: v.name, VnfdID: trio, State: desired.Instantiated, Flavour: "simple",
			Levels: map[string]int{"front": rng.IntN(maxLevel + 1)}, Params: params(v),
		})
		if err != nil {
			w.t.Fatal(err)
		}
		files[path.Join(v.dir, desired.InstanceFile)] = string(text)
	}
	for _, v := range w.vnfs {
		// Without its service account the API server refuses every pod.
		err := process.Poll(ctx, requestWait, func() error {
			_, err := w.client.CoreV1().ServiceAccounts(v.namespace).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	s.PushFiles(w.t, files)
	for i, v := range w.vnfs {
		if i%2 == 1 {
			a := s.Want(w.t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+v.id+"/instantiate",
				map[string]any{"flavourId": "simple", "additionalParams": params(v)}, nil)
			w.requests = append(w.requests, request{what: string(lcm.Instantiate), operation: a.ID(), vnf: v})
		}
	}
	err := process.Poll(ctx, populateWait, func() error {
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
	if err != nil {
		w.t.Fatal(err)
	}
	w.log.note("chaos", "", "all is instantiated")
}

func params(v *vnf) map[string]any {
	return map[string]any{"namespace": v.namespace, "lcm-kubernetes-def-files": manifests()}
}
