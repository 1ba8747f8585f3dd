package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/test/process"
)

const healLimit = 150 * time.Millisecond

// heal measures the healing of one pod (SOL002) beside a bare client that deletes a pod
// of its own and waits for the successor, turn by turn.
func (b *bench) heal(ctx context.Context) error {
	t, err := b.onCluster(ctx, "heal")
	if err != nil {
		return err
	}
	defer t.Kill()
	ns, err := b.bare(ctx, "bare-heal")
	if err != nil {
		return err
	}
	var whole, bare, answer, before, after times
	for range b.samples {
		h, err := b.healing(ctx, t)
		if err != nil {
			return err
		}
		whole = append(whole, h.ended.Sub(h.asked))
		answer = append(answer, h.answered.Sub(h.asked))
		before = append(before, h.gone.Sub(h.asked))
		after = append(after, max(0, h.ended.Sub(h.settled)))
		took, err := b.bareHeal(ctx, ns)
		if err != nil {
			return err
		}
		bare = append(bare, took)
	}
	b.latency("heal of a pod by REST: request -> COMPLETED", whole, 0, "")
	b.latency("the same by a bare client: delete -> successor ready", bare, 0, "")
	own := whole.median() - bare.median()
	b.value("Jibe's own share: difference of the medians", short(own), own <= healLimit, "<= "+short(healLimit),
		ratio(float64(whole.median()), float64(bare.median()))+" of the bare client")
	b.latency("  of it: request -> pod deleted at the API server", before, 0, "202 itself p50 "+short(answer.median()))
	b.latency("  of it: successor ready -> COMPLETED", after, 0, "")
	return t.Stop()
}

// healing is the times of one heal.
type healing struct{ asked, answered, gone, settled, ended time.Time }

func (b *bench) healing(ctx context.Context, t *target) (h healing, err error) {
	unit, err := t.onlyUnit(ctx)
	if err != nil {
		return h, err
	}
	w, err := b.cluster.watch(ctx, t.ns)
	if err != nil {
		return h, err
	}
	defer w.stop()
	old, err := w.onlyPod(ctx)
	if err != nil {
		return h, err
	}
	h.asked = time.Now()
	a, err := t.Do(ctx, http.MethodPost, process.Instances+"/"+t.id+"/heal",
		map[string]any{"vnfcInstanceId": []string{unit}, "cause": "benchmark"})
	h.answered = time.Now()
	if err == nil && a.Status != http.StatusAccepted {
		err = fmt.Errorf("heal: %d: %s", a.Status, a.Body)
	}
	if err != nil {
		return h, err
	}
	if h.gone, err = w.until(ctx, func(v *view) bool { return !v.has(old) }); err != nil {
		return h, err
	}
	if h.settled, err = w.until(ctx, func(v *view) bool { return v.succeeded(old) }); err != nil {
		return h, err
	}
	h.ended, err = t.ended(ctx, a.Header.Get("Location"))
	return h, err
}

// onlyUnit is the id of the instance's one VNFC, as a client reads it.
func (t *target) onlyUnit(ctx context.Context) (string, error) {
	var in struct {
		Info struct {
			Units []struct{ ID string } `json:"vnfcResourceInfo"`
		} `json:"instantiatedVnfInfo"`
	}
	if err := t.Get(ctx, process.Instances+"/"+t.id, &in); err != nil {
		return "", err
	}
	if len(in.Info.Units) != 1 {
		return "", fmt.Errorf("instance %s has %d VNFCs, want 1", t.id, len(in.Info.Units))
	}
	return in.Info.Units[0].ID, nil
}

// bareHeal is how long the cluster takes by itself.
func (b *bench) bareHeal(ctx context.Context, ns string) (time.Duration, error) {
	w, err := b.cluster.watch(ctx, ns)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	old, err := w.onlyPod(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	err = b.cluster.CoreV1().Pods(ns).Delete(ctx, w.name(old), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &old}})
	if err != nil {
		return 0, err
	}
	at, err := w.until(ctx, func(v *view) bool { return v.succeeded(old) })
	return at.Sub(start), err
}

// onlyPod waits until the watch has reported all that is there, and is the one pod's UID.
func (w *watched) onlyPod(ctx context.Context) (types.UID, error) {
	if _, err := w.until(ctx, func(v *view) bool { return v.settled(1) }); err != nil {
		return "", err
	}
	for _, p := range w.pods {
		return p.UID, nil
	}
	return "", errors.New("no pod") // never: settled
}

func (v *view) name(pod types.UID) string {
	for name, p := range v.pods {
		if p.UID == pod {
			return name
		}
	}
	return ""
}

func (v *view) has(pod types.UID) bool { return v.name(pod) != "" }

// succeeded says whether the old pod is gone and its successor is ready. What the
// workload's status says of it comes later, and isn't waited for.
func (v *view) succeeded(old types.UID) bool {
	if len(v.pods) != 1 || v.has(old) {
		return false
	}
	for _, p := range v.pods {
		return p.DeletionTimestamp == nil && podReady(p)
	}
	return false
}
