package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// Person changes instances, one change after another, through the API and by git.
type Person struct {
	*World
	Name  string
	Rng   *rand.Rand
	Clone *process.Clone // the person's own, of the desired repository
	// Pause is the longest pause between two changes, 0 the usual one.
	Pause time.Duration

	unsure bool // the outcome of a former request is unknown
}

// usualPause is the usual [Person.Pause].
const usualPause = 100 * time.Millisecond

// Work makes changes until stop is closed. Its error is of what must not happen.
func (p *Person) Work(ctx context.Context, stop <-chan struct{}, change func(context.Context, *process.Server) error) error {
	for {
		server := p.Servers.Await(ctx, stop)
		if server == nil {
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, requestWait)
		err := change(bounded, server)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if !kit.Rest(ctx, stop, time.Duration(p.Rng.Int64N(int64(cmp.Or(p.Pause, usualPause))))) {
			return nil
		}
	}
}

// signal gives a value to a listener, if there is one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Work is what someone does until stop is closed. Its error is of what must not happen.
type Work func(ctx context.Context, stop <-chan struct{}) error

// Begin lets all of them work until the returned function is called, whose error is theirs.
func Begin(ctx context.Context, all ...Work) (end func() error) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	failed := make([]error, len(all))
	for i, work := range all {
		wg.Go(func() { failed[i] = work(ctx, stop) })
	}
	return func() error {
		close(stop)
		wg.Wait()
		return errors.Join(failed...)
	}
}

// Scale scales an instance through the API by one step, which its level permits.
func (p *Person) Scale(ctx context.Context, server *process.Server, dir string, level, most int) error {
	direction, steps := "SCALE_OUT", 1
	if level == most || level > 0 && p.Rng.IntN(2) == 0 {
		direction, steps = "SCALE_IN", -1
	}
	_, err := p.Ask(ctx, server, http.MethodPost, dir, "/scale", map[string]any{"type": direction, "aspectId": "front", "numberOfSteps": 1}, Request{
		What: string(lcm.Scale),
		Wants: func(before, after *desired.Instance) error {
			if after.Levels["front"]-before.Levels["front"] != steps {
				return fmt.Errorf("goes from %d to %d, not by %d", before.Levels["front"], after.Levels["front"], steps)
			}
			return nil
		},
	})
	return err
}

// Level pushes another level of an instance.
func (p *Person) Level(ctx context.Context, server *process.Server, dir string, now *desired.Instance, most int) error {
	level := (now.Levels["front"] + 1 + p.Rng.IntN(most)) % (most + 1)
	return p.Edit(ctx, server, dir, fmt.Sprintf("Let %s be at level %d", now.Name, level), desired.KeyValue{Path: []string{"levels", "front"}, Value: level})
}

// Heal asks the API to heal what a body of the request says, such as pods by their UIDs; another heal may be faster.
func (p *Person) Heal(ctx context.Context, server *process.Server, dir string, body map[string]any) error {
	uids, _ := body["vnfcInstanceId"].([]string)
	_, err := p.Ask(ctx, server, http.MethodPost, dir, "/heal", body, Request{
		What: string(lcm.Heal),
		Late: func(a *process.Answer) bool {
			return slices.ContainsFunc(uids, func(uid string) bool { return strings.Contains(string(a.Body), uid) })
		},
		Wants: func(_, after *desired.Instance) error {
			// A heal of the whole VNF condemns nothing while nothing of it runs.
			condemned := slices.Collect(maps.Values(after.Condemned))
			if slices.ContainsFunc(uids, func(uid string) bool { return !slices.Contains(condemned, uid) }) {
				return fmt.Errorf("condemns %v, not %v", condemned, uids)
			}
			return nil
		},
	})
	return err
}

// Condemn pushes that a pod is to be recreated.
func (p *Person) Condemn(ctx context.Context, server *process.Server, dir, namespace, pod, uid string) error {
	return p.Edit(ctx, server, dir, "Heal "+pod, desired.KeyValue{Path: []string{"condemned", "Pod/" + namespace + "/" + pod}, Value: uid})
}

// Upgrade brings an instance to a version of its package, in one of the ways in which that can be asked for. paths are the
// manifests that a container update takes over; none permits no such update.
func (p *Person) Upgrade(ctx context.Context, server *process.Server, dir string, now *desired.Instance, to string, paths []string) error {
	vnfd := desired.KeyValue{Path: []string{"vnfdId"}, Value: to}
	push := func(how, strategy string, more ...desired.KeyValue) error {
		return p.Edit(ctx, server, dir, how+" "+now.Name, append(more, vnfd, desired.KeyValue{Path: []string{"update", "strategy"}, Value: strategy})...)
	}
	taken := map[string]any{"configmap_secret_paths": paths}

	dice := p.Rng.IntN(8)
	if paths == nil && (dice == 2 || dice == 5) {
		dice = 3
	}
	switch dice {
	case 0:
		return p.Change(ctx, server, dir, to, "RollingUpdate")
	case 1:
		return p.Change(ctx, server, dir, to, "Blue-Green")
	case 2:
		_, err := p.Ask(ctx, server, http.MethodPatch, dir, "", map[string]any{"vnfdId": to, "metadata": taken},
			Request{What: string(lcm.ModifyInfo), Wants: p.version(to, false)})
		return err
	case 3:
		return push("Roll", desired.Rolling)
	case 4:
		return push("Let a green one take over from", desired.BlueGreen)
	case 5:
		return push("Update the containers of", desired.Container, desired.KeyValue{Path: []string{"metadata"}, Value: taken})
	}
	if now.Update.Strategy == desired.Container {
		return push("Roll", desired.Rolling)
	}
	return p.Edit(ctx, server, dir, "Upgrade "+now.Name, vnfd) // the one line
}

// Change asks the API to change the package of an instance, in a way that it names ("Blue-Green").
func (p *Person) Change(ctx context.Context, server *process.Server, dir, to, way string) error {
	_, err := p.Ask(ctx, server, http.MethodPost, dir, "/change_vnfpkg", map[string]any{"vnfdId": to, "additionalParams": map[string]any{"upgrade_type": way}},
		Request{What: string(lcm.ChangePackage), Wants: p.version(to, way == "Blue-Green")})
	return err
}

// version is what the commit of a change to another version wants.
func (w *World) version(to string, blueGreen bool) func(before, after *desired.Instance) error {
	return func(before, after *desired.Instance) error {
		if after.VnfdID != to || w.Versions != nil && w.Versions[after.Package] != to {
			return fmt.Errorf("has vnfdId %s and package %s, not %s", after.VnfdID, after.Package, to)
		}
		if blueGreen && before.Generation == after.Generation {
			return errors.New("has no new generation")
		}
		return nil
	}
}
