package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// ownLimit is Jibe's own share of an operation, of the time of the bare stack action.
	ownLimit = 0.10
	// noticeLimit is how soon an operation ends after Heat has.
	noticeLimit = 1500 * time.Millisecond
)

// action is one operation, and the same done by a bare client.
type action struct {
	name, request string
	body          func(ctx context.Context, j *jibe, id string) (map[string]any, error)
	done          func(was stack) func(stack) bool
	bare          func(c *cloud, ctx context.Context, name string) (time.Duration, error)
}

func actions() []action {
	plain := func(body map[string]any) func(context.Context, *jibe, string) (map[string]any, error) {
		return func(context.Context, *jibe, string) (map[string]any, error) { return body, nil }
	}
	return []action{
		{
			"instantiate", "instantiate", plain(map[string]any{"flavourId": "simple"}),
			func(stack) func(stack) bool { return created },
			func(c *cloud, ctx context.Context, name string) (time.Duration, error) { return c.create(ctx, name, 1) },
		},
		{
			"scale out", "scale", plain(map[string]any{"type": "SCALE_OUT", "aspectId": "web", "numberOfSteps": 1}), updated,
			func(c *cloud, ctx context.Context, name string) (time.Duration, error) { return c.update(ctx, name, 2) },
		},
		{
			"heal of a VNFC", "heal", oneUnit, updated,
			func(c *cloud, ctx context.Context, name string) (time.Duration, error) {
				return c.replace(ctx, name, 2)
			},
		},
		{
			"terminate", "terminate", plain(map[string]any{"terminationType": "FORCEFUL"}),
			func(stack) func(stack) bool { return deleted },
			func(c *cloud, ctx context.Context, name string) (time.Duration, error) { return c.remove(ctx, name) },
		},
	}
}

// oneUnit is the request that heals one of the instance's VNFCs.
func oneUnit(ctx context.Context, j *jibe, id string) (map[string]any, error) {
	var in struct {
		Info struct {
			Units []struct{ ID string } `json:"vnfcResourceInfo"`
		} `json:"instantiatedVnfInfo"`
	}
	if err := j.Get(ctx, process.Instances+"/"+id, &in); err != nil {
		return nil, err
	}
	if len(in.Info.Units) == 0 {
		return nil, fmt.Errorf("instance %s has no VNFC", id)
	}
	return map[string]any{"vnfcInstanceId": []string{in.Info.Units[0].ID}, "cause": "benchmark"}, nil
}

// machines measures whole operations on stacks beside a bare client that has Heat do the
// same with the same template, turn by turn.
func (b *bench) machines(ctx context.Context) (err error) {
	j, err := b.start(ctx, "machines", map[string]string{"cloud": b.cloud.VIM() + "default: true\n"})
	if err != nil {
		return err
	}
	defer j.Kill()
	if err := j.addFleet(ctx); err != nil {
		return err
	}
	whole, bare, after := map[string]times{}, map[string]times{}, times{}
	for i := range b.stacks {
		if err := b.turn(ctx, j, i, whole, bare, &after); err != nil {
			return fmt.Errorf("%w; the server's log:\n%s", err, j.Log())
		}
		b.progress("stack %d of %d", i+1, b.stacks)
	}
	for _, a := range actions() {
		w, p := whole[a.name], bare[a.name]
		b.latency(a.name+" by REST: request -> COMPLETED", w, 0, "")
		b.latency("  the same by a bare client: request -> Heat's COMPLETE", p, 0, "")
		own := w.median() - p.median()
		b.value("  Jibe's own share: difference of the medians", short(own), float64(own) <= ownLimit*float64(p.median()), "<= 10%",
			fmt.Sprintf("%.1f%% of the bare client's", 100*float64(own)/float64(p.median())))
	}
	b.value("Heat's COMPLETE -> operation COMPLETED, all operations, worst", short(after.at(1)), after.at(1) <= noticeLimit,
		"<= "+short(noticeLimit), "p50 "+short(after.median()))
	return j.Stop()
}

// turn takes one instance, and one stack of the bare client, through all actions.
func (b *bench) turn(ctx context.Context, j *jibe, i int, whole, bare map[string]times, after *times) (err error) {
	var in struct{ ID string }
	a, err := j.Do(ctx, http.MethodPost, process.Instances, map[string]any{"vnfdId": fleetVnfdID, "vnfInstanceName": fmt.Sprintf("bench-%d", i)})
	if err == nil && a.Status != http.StatusCreated {
		err = fmt.Errorf("%d: %s", a.Status, a.Body)
	}
	if err == nil {
		err = json.Unmarshal(a.Body, &in)
	}
	if err != nil {
		return fmt.Errorf("create an instance: %w", err)
	}
	name, peer := "vnf-"+in.ID, fmt.Sprintf("bench-%d-%d", os.Getpid(), i)
	defer func() {
		// Leave nothing behind of a run that failed halfway.
		if err != nil {
			clean := context.WithoutCancel(ctx)
			_, err1 := b.cloud.remove(clean, name)
			_, err2 := b.cloud.remove(clean, peer)
			err = errors.Join(err, err1, err2)
		}
	}()
	for _, x := range actions() {
		o, err := b.action(ctx, j, x, in.ID, name)
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		whole[x.name] = append(whole[x.name], o.ended.Sub(o.asked))
		*after = append(*after, max(0, o.ended.Sub(o.settled)))
		took, err := x.bare(b.cloud, ctx, peer)
		if err != nil {
			return fmt.Errorf("%s by a bare client: %w", x.name, err)
		}
		bare[x.name] = append(bare[x.name], took)
	}
	return nil
}

// action does one operation; settled is when Heat had ended, seen as the bare client does.
func (b *bench) action(ctx context.Context, j *jibe, x action, id, name string) (o operation, err error) {
	body, err := x.body(ctx, j, id)
	if err != nil {
		return o, err
	}
	was, err := b.cloud.get(ctx, name)
	if err != nil {
		return o, err
	}
	o.asked = time.Now()
	a, err := j.Do(ctx, http.MethodPost, process.Instances+"/"+id+"/"+x.request, body)
	if err != nil {
		return o, err
	}
	if a.Status != http.StatusAccepted {
		return o, fmt.Errorf("%d: %s", a.Status, a.Body)
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	seen := make(chan error, 1)
	go func() {
		var err error
		o.settled, err = b.cloud.until(watched, name, x.done(was))
		seen <- err
	}()
	ended, err := j.ended(ctx, a.Header.Get("Location"))
	if err != nil {
		return o, err
	}
	err = <-seen
	o.ended = ended
	return o, err
}

// addFleet pushes the package of virtual machines and waits until it is known.
func (j *jibe) addFleet(ctx context.Context) error {
	work := j.Data + "-packages"
	sub, err := fs.Sub(fleet, "machines")
	if err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(work, "machines"), sub); err != nil {
		return err
	}
	if err := commit(ctx, work, "Add virtual machines"); err != nil {
		return err
	}
	if _, err := process.Git(ctx, work, "push", "--quiet", "origin", "HEAD:refs/heads/main"); err != nil {
		return err
	}
	return kit.Poll(ctx, time.Minute, func() error {
		a, err := j.Do(ctx, http.MethodGet, "/jibe/v1/packages", nil)
		if err == nil && !bytes.Contains(a.Body, []byte(fleetVnfdID)) {
			err = fmt.Errorf("the package isn't known: %s", a.Body)
		}
		return err
	})
}
