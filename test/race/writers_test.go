package race_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// Every writer works until ctx ends, and ends what it has begun: a request that was cut
// off would be neither acknowledged nor not. Those with git have pushed once, at least.

// The API's clients come in waves. Real git needs some 200 ms from its fetch to its push;
// beside clients that never pause, no push would ever be the first.
const (
	wave = 400 * time.Millisecond
	calm = 1200 * time.Millisecond
)

// pace lets an API client write in the waves alone.
func pace(ctx context.Context) {
	if into := time.Duration(time.Now().UnixNano()) % (wave + calm); into > wave {
		select {
		case <-time.After(wave + calm - into):
		case <-ctx.Done():
		}
	}
}

// request makes a request again until the instance isn't busy, and returns the answer;
// nil where ctx ended first.
func (w *world) request(ctx context.Context, who, method, target string, body any) *process.Answer {
	for ctx.Err() == nil {
		pace(ctx)
		a, err := w.Do(w.t.Context(), method, target, body)
		switch {
		case err != nil:
			w.t.Errorf("%s: %v", who, err)
			return nil
		case a.Status < 300:
			return a
		case a.Status != http.StatusConflict:
			w.t.Errorf("%s: %s %s: %d: %s", who, method, target, a.Status, a.Body)
			return nil
		}
		w.retry(who)
	}
	return nil
}

// creator makes instances through the API.
func (w *world) creator(ctx context.Context, me int) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("created-%d-%d", me, n)
		a := w.request(ctx, "creator", http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": name})
		if a == nil {
			return
		}
		dir := desired.APIDir(a.ID())
		w.acknowledged("", "", "CREATE "+dir, dir, "the name "+name, func(in *desired.Instance) bool { return in.Name == name })
	}
}

// modifier puts one value after another into the shared instances through the API.
func (w *world) modifier(ctx context.Context, me int) {
	for n := 0; ctx.Err() == nil; n++ {
		dir := sharedDir((me + n) % shared)
		key := fmt.Sprintf("api-%d-%d", me, n)
		a := w.request(ctx, "modifier", http.MethodPatch, process.Instances+"/"+desired.DeriveID(dir), map[string]any{"metadata": map[string]any{key: "x"}})
		if a == nil {
			return
		}
		w.acknowledged(a.ID(), "", "", dir, "metadata "+key, func(in *desired.Instance) bool { return in.Metadata[key] == "x" })
	}
}

// scaler has an instance of its own and scales it, step by step: a step that is lost or
// done twice shows in the final level.
func (w *world) scaler(ctx context.Context, me int) {
	a := w.request(ctx, "scaler", http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd})
	if a == nil {
		return
	}
	instance, level := a.ID(), 0
	if a = w.request(ctx, "scaler", http.MethodPost, process.Instances+"/"+instance+"/instantiate",
		map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"lcm-kubernetes-def-files": process.SmallManifests()}}); a == nil {
		return
	}
	w.acknowledged(a.ID(), "", "", "", "", nil)
	direction := "SCALE_OUT"
	for ctx.Err() == nil {
		if a = w.request(ctx, "scaler", http.MethodPost, process.Instances+"/"+instance+"/scale", map[string]any{"type": direction, "aspectId": "front"}); a == nil {
			break
		}
		w.acknowledged(a.ID(), "", "", "", "", nil)
		if direction == "SCALE_OUT" {
			level++
		} else {
			level--
		}
		switch level {
		case 4:
			direction = "SCALE_IN"
		case 0:
			direction = "SCALE_OUT"
		}
	}
	w.acknowledged("", "", "", desired.APIDir(instance), fmt.Sprintf("scale level %d", level),
		func(in *desired.Instance) bool { return in.Levels["front"] == level })
}

// bringer pushes new instances, and rebases where the branch has moved.
func (w *world) bringer(ctx context.Context, me int, c *process.Clone) {
	for n := 0; ctx.Err() == nil || n == 0; n++ {
		name := fmt.Sprintf("brought-%d-%d", me, n)
		dir := "instances/brought/" + name
		err := c.Write(path.Join(dir, desired.InstanceFile), fmt.Sprintf("name: %s\nvnfdId: %s\nstate: notInstantiated\n", name, process.SmallVnfd))
		if err == nil {
			_, err = c.Commit(w.t.Context(), "Bring "+name)
		}
		for err == nil {
			if err = c.Push(w.t.Context()); err == nil {
				break
			}
			if ctx.Err() != nil && n > 0 {
				return // never accepted
			}
			if process.Overtaken(err) {
				w.retry("bringer")
				err = c.Rebase(w.t.Context())
			}
		}
		if err != nil {
			w.t.Errorf("bringer: %v", err)
			return
		}
		commit, err := process.Git(w.t.Context(), c.Dir, "rev-parse", "HEAD")
		if err != nil {
			w.t.Errorf("bringer: %v", err)
			return
		}
		w.acknowledged("", commit, "Bring "+name, dir, "the name "+name, func(in *desired.Instance) bool { return in.Name == name })
	}
}

// editor pushes one value after another into the shared instances' files, where a
// rebase would conflict: it begins again with what is there now.
func (w *world) editor(ctx context.Context, me int, c *process.Clone, remote string) {
	for n := 0; ctx.Err() == nil || n == 0; n++ {
		dir := sharedDir((me + n) % shared)
		key := fmt.Sprintf("git-%d-%d", me, n)
		tries := 0
		commit, err := c.ChangeInstance(w.t.Context(), func() string { return remote }, dir, "Set "+key, func(old []byte) ([]byte, error) {
			if tries++; tries > 1 {
				w.retry("editor")
			}
			return desired.Edit(path.Join(dir, desired.InstanceFile), old, desired.KeyValue{Path: []string{"metadata", key}, Value: "x"})
		})
		if err != nil {
			w.t.Errorf("editor: %v", err)
			return
		}
		w.acknowledged("", commit, "Set "+key, dir, "metadata "+key, func(in *desired.Instance) bool { return in.Metadata[key] == "x" })
	}
}
