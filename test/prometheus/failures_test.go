package prometheus

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// fails makes all go wrong that can be mended again by mends.
func (w *world) fails() {
	t := w.t
	w.contended.Store(true)
	w.asleep.Store(true)
	w.guessing.Store(true)
	w.deaf.Store(true)
	for _, dir := range []string{crowded, held} {
		w.quota(dir, "1")
		w.failing[dir] = w.scale(dir, 1)
	}
	if _, err := w.api.AppsV1().Deployments(w.at[patched]).Patch(t.Context(), "vdu1", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"vdu1","image":"registry.example/pause:3.9"}]}}}}`), metav1.PatchOptions{FieldManager: "kubectl-set"}); err != nil {
		t.Fatal(err)
	}
	w.leave(patched)
	w.pushing.Store(true)
	w.desired.PushFiles(map[string]string{
		slow + "/vnf.yaml":    w.file(slow, slowVnfd, "vim: cluster\n"),
		blind + "/vnf.yaml":   w.file(blind, process.SmallVnfd, "vim: half\n"),
		hooked + "/vnf.yaml":  w.file(hooked, hookedVnfd, ""),
		granted + "/vnf.yaml": w.file(granted, process.SmallVnfd, ""),
		denied + "/vnf.yaml":  w.file(denied, process.SmallVnfd, ""),
		waiting + "/vnf.yaml": w.file(waiting, process.SmallVnfd, "needs: ["+denied+"]\n"),
		unheard + "/vnf.yaml": w.file(unheard, process.SmallVnfd, ""),
		"vims/replaced.yaml":  "type: sim\nendpoint: https://second.example\n",
		// What waits for a window, and a rollout that waits for instances.
		frozen + "/vnf.yaml":                       w.file(frozen, process.SmallVnfd, ""),
		filepath.Dir(frozen) + "/maintenance.yaml": "freezes: [{until: 2999-01-01T00:00:00Z, reason: new year}]\n",
		"rollouts/nobody.yaml":                     "select: {folders: [nowhere]}\nto: {vnfdId: " + process.SmallVnfd + "}\n",
	})
	w.pushing.Store(false)
	w.scale(astray, 1)
	w.operation(astray, "ROLLED_BACK")
	w.operation(crowded, "FAILED_TEMP")
	w.operation(held, "FAILED_TEMP")
	w.act(w.failing[held], "fail")
	w.failing[hooked] = w.operation(hooked, "FAILED_TEMP")
	w.retry(w.failing[hooked])
	w.operation(denied, "ROLLED_BACK")
	w.failing[waiting] = w.operation(waiting, "STARTING")
	w.wire.Cut()
	w.elsewhere.PushFiles(map[string]string{unread + "/vnf.yaml": "name: [unread\n", "rollouts/unread.yaml": "select: [\n",
		"repositories.yaml": onePackages + "- name: gone\n  url: gone.git\n  branch: main\n"})
	kit.Eventually(t, func() error {
		var list []struct{ File string }
		if err := w.forge.Get(t.Context(), "/jibe/v1/problems", &list); err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("the forge's file that can't be read is no problem")
		}
		return nil
	})
	kit.Eventually(t, func() error {
		a, err := w.forge.Do(t.Context(), http.MethodPost, process.Instances+"/"+desired.DeriveID(proposed)+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
		if err == nil && a.Status != http.StatusAccepted {
			err = fmt.Errorf("%d: %s", a.Status, a.Body)
		}
		if err == nil {
			w.failing[proposed] = a.ID()
		}
		return err
	})
	w.elsewhere.PushFiles(map[string]string{"rollouts/waves.yaml": "select: {folders: [" + waved + "]}\nto: {levels: {front: 2}}\nwrite: pull-request\n"})
	kit.Eventually(t, func() error {
		var list []automation.RolloutStatus
		if err := w.forge.Get(t.Context(), "/jibe/v1/rollouts", &list); err != nil {
			return err
		}
		for _, r := range list {
			if r.Name == "waves" && r.Proposal != nil {
				return nil
			}
		}
		return fmt.Errorf("no rollout has proposed anything: %+v", list)
	})
	if err := os.Rename(w.bare, w.bare+".away"); err != nil {
		t.Fatal(err)
	}
}

// mends takes back what fails did.
func (w *world) mends() {
	t := w.t
	w.contended.Store(false)
	w.asleep.Store(false)
	w.guessing.Store(false)
	w.deaf.Store(false)
	w.retry("") // none is under way afterwards: what is FAILED_TEMP stays so
	w.told.mended.Store(true)
	w.wire.Restore()
	w.account.mayAll(t)
	if err := os.Rename(w.bare+".away", w.bare); err != nil {
		t.Fatal(err)
	}
	w.elsewhere.PushFiles(map[string]string{unread + "/vnf.yaml": w.file(unread, process.SmallVnfd, ""), "repositories.yaml": onePackages,
		"rollouts/unread.yaml": "select: {folders: [nowhere]}\nto: {vnfdId: " + process.SmallVnfd + "}\nstate: paused\n",
		waved + "/vnf.yaml":    w.file(waved, process.SmallVnfd, "levels: {front: 2}\n")}) // a merge by hand
	w.forge.Want(t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+w.failing[proposed]+"/cancel", map[string]any{"cancelMode": "FORCEFUL"}, nil)
	w.pushing.Store(true)
	w.desired.PushFiles(map[string]string{"vims/replaced.yaml": "type: sim\nendpoint: https://first.example\n"})
	w.pushing.Store(false)
	w.act(w.failing[crowded], "rollback")
	w.main.Want(t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+w.failing[waiting]+"/cancel", map[string]any{"cancelMode": "FORCEFUL"}, nil)
	w.operation(hooked, "FAILED_TEMP")
	w.act(w.failing[hooked], "rollback")
	w.certify(90 * 24 * time.Hour)
	w.clear(patched)
	w.replicas.mend(t)
	w.quota(held, "9")
	w.scale(held, 1)                                 // lifts the hold. Its end isn't awaited: the cluster tries again after pauses that have grown
	w.main.Await(t, w.scale(fought, 1), "COMPLETED") // takes the place of the repair, which pauses for minutes
}

// leave makes an object that belongs to no VNF, in the namespace of the instance, as the restore of a cluster does.
func (w *world) leave(dir string) {
	w.t.Helper()
	of, err := w.api.AppsV1().Deployments(w.at[dir]).Get(w.t.Context(), "vdu1", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	const installation = "vnf.jibe.dev/installation"
	_, err = w.api.CoreV1().ConfigMaps(w.at[dir]).Create(w.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "left",
		Labels:      map[string]string{"vnf.jibe.dev/instance": uuid.NewString(), installation: of.Labels[installation]},
		Annotations: map[string]string{"vnf.jibe.dev/digest": "d"}}}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// clear deletes what [world.leave] has made.
func (w *world) clear(dir string) {
	w.t.Helper()
	if err := w.api.CoreV1().ConfigMaps(w.at[dir]).Delete(w.t.Context(), "left", metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// quota bounds the pods of an instance's namespace, and returns when the bound is in force.
func (w *world) quota(dir, pods string) {
	w.t.Helper()
	quotas := w.api.CoreV1().ResourceQuotas(w.at[dir])
	hard := corev1.ResourceList{"pods": resource.MustParse(pods)}
	_, err := quotas.Patch(w.t.Context(), "tight", types.MergePatchType, []byte(`{"spec": {"hard": {"pods": "`+pods+`"}}}`), metav1.PatchOptions{})
	if err != nil {
		_, err = quotas.Create(w.t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "tight"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	kit.Eventually(w.t, func() error {
		now, err := quotas.Get(w.t.Context(), "tight", metav1.GetOptions{})
		if err == nil && now.Status.Hard.Pods().Cmp(*hard.Pods()) != 0 {
			err = fmt.Errorf("the quota isn't in force: %v", now.Status.Hard)
		}
		return err
	})
}
