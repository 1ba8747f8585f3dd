package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// healerLevel is the scale level of the instances that are only healed.
const healerLevel = 2

// Healer has one instance whose pods are healed, through the API or by git, and nothing else. So
// each pod that ever ran is one of the first, or the successor of one that was asked to be healed.
type Healer struct {
	Person // Name is part of the instance's directory

	id, dir, namespace string
	stop               func()

	mu     sync.Mutex
	living map[string]string // names by UID
	gone   map[string]string // likewise
}

// Begin instantiates the instance and watches its pods until [Healer.End].
func (h *Healer) Begin(ctx context.Context) (err error) {
	h.dir = "instances/heal/" + h.Name
	h.id = process.Identity(h.dir)
	h.living, h.gone = map[string]string{}, map[string]string{}
	if h.namespace, err = h.World.namespace(ctx, h.dir); err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	factory := informers.NewSharedInformerFactoryWithOptions(h.Client, 0, informers.WithNamespace(h.namespace))
	pods := factory.Core().V1().Pods().Informer()
	h.stop = func() { stop(); factory.Shutdown() }
	see := func(o any) { h.see(o.(*corev1.Pod)) }
	_, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, o any) { see(o) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			h.leave(o.(*corev1.Pod))
		},
	})
	if err != nil {
		return err
	}
	factory.Start(watching.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return fmt.Errorf("%s: its pods can't be watched: %w", h.Name, ctx.Err())
	}
	text, err := desired.Format(&desired.Instance{
		Name: h.Name, VnfdID: process.SmallVnfd, State: desired.Instantiated, Flavour: "simple",
		Levels: map[string]int{"front": healerLevel}, Params: params(h.namespace), Supersede: desired.SupersedeNever,
	})
	if err != nil {
		return err
	}
	if err := h.push(ctx, h.Servers.Present(), h.dir, "Bring "+h.Name, func([]byte) ([]byte, error) { return text, nil }); err != nil {
		return err
	}
	h.World.mu.Lock()
	h.healers = append(h.healers, h)
	h.World.mu.Unlock()
	return kit.Poll(ctx, kit.Patience, func() error {
		if living, _ := h.pods(); len(living) != healerLevel+1 {
			return fmt.Errorf("%s has %d pods", h.Name, len(living))
		}
		return nil
	})
}

// End ends the watch of its pods.
func (h *Healer) End() {
	if h.stop != nil {
		h.stop()
	}
}

func (h *Healer) see(p *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.living[string(p.UID)] = p.Name
}

func (h *Healer) leave(p *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.living, string(p.UID))
	h.gone[string(p.UID)] = p.Name
}

// pods are those that run, and those that did, names by UID.
func (h *Healer) pods() (living, gone map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.living), maps.Clone(h.gone)
}

// Work heals pods until stop is closed.
func (h *Healer) Work(ctx context.Context, stop <-chan struct{}) error {
	return h.Person.Work(ctx, stop, h.heal)
}

// heal has one pod recreated.
func (h *Healer) heal(ctx context.Context, server *process.Server) error {
	living, _ := h.pods()
	if len(living) == 0 {
		return nil
	}
	uids := slices.Sorted(maps.Keys(living))
	uid := uids[h.Rng.IntN(len(uids))]
	if h.Rng.IntN(4) == 0 {
		return h.Condemn(ctx, server, h.dir, h.namespace, living[uid], uid)
	}
	return h.Heal(ctx, server, h.dir, map[string]any{"vnfcInstanceId": []string{uid}, "cause": "it looks sick"})
}

// checkHeals says where another pod went than those that a commit condemns, or one that is
// condemned still runs.
func (w *World) checkHeals(ctx context.Context) error {
	w.mu.Lock()
	healers := slices.Clone(w.healers)
	w.mu.Unlock()
	var errs []error
	for _, h := range healers {
		condemned, err := w.Condemned(ctx, h.dir)
		if err != nil {
			return err
		}
		errs = append(errs, kit.Poll(ctx, time.Minute, func() error { return h.compare(condemned) }))
	}
	return errors.Join(errs...)
}

func (h *Healer) compare(condemned map[string]bool) error {
	living, gone := h.pods()
	var errs []error
	for uid, name := range gone {
		if !condemned[uid] {
			errs = append(errs, fmt.Errorf("instance %s (%s): pod %s %s was removed, and no commit condemns it", h.id, h.dir, name, uid))
		}
	}
	for uid, name := range living {
		if condemned[uid] {
			errs = append(errs, fmt.Errorf("instance %s (%s): the condemned pod %s %s lives", h.id, h.dir, name, uid))
		}
	}
	if len(living) != healerLevel+1 {
		errs = append(errs, fmt.Errorf("instance %s (%s) has %d pods, want %d", h.id, h.dir, len(living), healerLevel+1))
	}
	return errors.Join(errs...)
}

// Heals is how many pods were made anew.
func (w *World) Heals() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.healers {
		_, gone := h.pods()
		n += len(gone)
	}
	return n
}

// Condemned are the UIDs that any commit has condemned in and below a directory.
func (w *World) Condemned(ctx context.Context, dir string) (map[string]bool, error) {
	log, err := process.Git(ctx, w.Repository, "log", "--format=", "-p", "-U0", "main", "--", dir)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	pattern := regexp.MustCompile(`^\+.*Pod/.*(` + uuidPattern + `)`)
	for line := range strings.SplitSeq(log, "\n") {
		if m := pattern.FindStringSubmatch(line); m != nil {
			all[m[1]] = true
		}
	}
	return all, nil
}
