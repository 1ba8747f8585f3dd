package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/load"
	"github.com/jibe-vnfm/jibe/test/process"
)

// settleWait bounds how long everything may take after the chaos. A repair that was undone again and again rests for
// twice the time in which it was, up to twelve minutes, before it is known to stand.
const settleWait = 15 * time.Minute

// lookEvery is how long to wait between two looks at everything.
const lookEvery = time.Second

// sayEvery is how often settle says what it waits for.
const sayEvery = time.Minute

// settle does what a person does who comes back after the storm: lets suspended instances
// go on and drift be corrected, tries again what failed, gives it up where that fails too,
// and heals what was given up. Then it waits until all is what git says.
func (w *world) settle() {
	w.t.Helper()
	ctx := w.t.Context()
	if err := w.calm(); err != nil {
		w.t.Fatal(err)
	}
	s := w.Present()
	if err := w.plane.Restart(ctx, clients()...); err != nil {
		w.t.Fatal(err)
	}
	if err := kit.Poll(ctx, requestWait, func() error { return w.relabel(ctx) }); err != nil {
		w.t.Fatal(err)
	}
	w.release()
	person := &user{world: w, Person: load.Person{World: w.people, Rng: rand.New(rand.NewPCG(1, 1)), Clone: process.NewClone(w.t, w.repository)}}
	tried := map[string]int{}
	begun := time.Now()
	said := begun
	for {
		telling := time.Since(said) > sayEvery || time.Since(begun) > settleWait
		err := person.look(ctx, s, tried, telling)
		if err == nil {
			break
		}
		if telling && time.Since(begun) > settleWait {
			w.fail(fmt.Errorf("it doesn't come to rest in %s: %w", settleWait, err))
			return
		}
		if telling {
			said = time.Now()
			w.t.Logf("not at rest after %s: %v", time.Since(begun).Round(time.Second), err)
		}
		kit.Pause(ctx, lookEvery)
	}
	w.t.Logf("all was at rest %s after the chaos", time.Since(begun).Round(time.Second))
}

// calm ends Jibe in order, and starts it with the time for its operations that people
// give it who are in no hurry.
func (w *world) calm() error {
	s := w.Take()
	w.log.note("chaos", "", "stop Jibe, process %d", s.Pid())
	if err := s.Stop(); err != nil {
		return err
	}
	return w.startJibe()
}

// look repairs what is left to a person and says what isn't as git says. It looks no
// further than at what is known to be wrong, so that it takes little of the machine from
// those who repair it, unless all is to be reported.
func (u *user) look(ctx context.Context, s *process.Server, tried map[string]int, all bool) error {
	intents, err := u.intents(ctx)
	if err != nil {
		return err
	}
	err = errors.Join(u.tidy(ctx, s, tried, intents), u.atRest(ctx, s))
	if err == nil || all {
		err = errors.Join(err, u.checkCluster(ctx, intents), u.checkShown(ctx, s), u.checkServices(ctx, intents))
	}
	return err
}

// intents are the instances as head has them, by id.
func (u *user) intents(ctx context.Context) (map[string]*desired.Instance, error) {
	if err := u.Clone.Reset(ctx); err != nil {
		return nil, err
	}
	all := map[string]*desired.Instance{}
	for _, v := range u.world.vnfs {
		file := v.dir + "/" + desired.InstanceFile
		text, err := u.Clone.Read(file)
		if err != nil {
			return nil, err
		}
		if all[v.id], err = desired.ParseInstance(file, []byte(text)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// release lets every instance be looked after again, by one push.
func (w *world) release() {
	w.t.Helper()
	n := w.Present().PushChange(w.t, process.NewClone(w.t, w.repository), func(c *process.Clone) (map[string]string, error) {
		files := map[string]string{}
		for _, v := range w.vnfs {
			file := v.dir + "/" + desired.InstanceFile
			text, err := c.Read(file)
			if err != nil {
				return nil, err
			}
			next, err := desired.Edit(file, []byte(text), desired.KeyValue{Path: []string{"suspend"}}, desired.KeyValue{Path: []string{"drift"}})
			if err != nil {
				return nil, err
			}
			if string(next) != text {
				files[file] = string(next)
			}
		}
		return files, nil
	})
	w.log.note("user", "", "resume and correct all (%d files)", n)
}

// tidy does what is left to a person: operations in FAILED_TEMP that a person asked for,
// and instances that are held. It returns an error while there is something.
func (u *user) tidy(ctx context.Context, s *process.Server, tried map[string]int, intents map[string]*desired.Instance) error {
	failed, err := u.Occurrences(ctx, s, "(eq,operationState,FAILED_TEMP)")
	if err != nil {
		return err
	}
	broken := map[string]*load.Occurrence{}
	for i, op := range failed {
		if !op.Automatic {
			broken[op.Instance] = &failed[i]
		}
	}
	var errs []error
	for _, v := range u.world.vnfs {
		now, op := intents[v.id], broken[v.id]
		switch {
		case now.VnfdID == trioStuck:
			errs = append(errs, u.about(v, "it is to run the version that gets stuck"), u.unstick(ctx, s, v))
		case op != nil:
			how := "retry"
			if tried[op.ID]++; tried[op.ID] > 2 {
				how = "fail"
			}
			errs = append(errs, fmt.Errorf("%s %s is in FAILED_TEMP: %s", op.Type, op.ID, op.Error.Detail), u.resolve(ctx, s, v, op, how))
		case now.Held != "" && v.calm:
			errs = append(errs, u.about(v, "it is held by %s", now.Held), u.Change(ctx, s, v.dir, map[bool]string{true: trioNext, false: trio}[now.VnfdID == trio], "Blue-Green"))
		case now.Held != "":
			errs = append(errs, u.about(v, "it is held by %s", now.Held),
				u.Heal(ctx, s, v.dir, map[string]any{"cause": "it was given up"}))
		}
	}
	return errors.Join(errs...)
}

// atRest says what has not ended, and what drift is known.
func (w *world) atRest(ctx context.Context, s *process.Server) error {
	ended := fmt.Sprintf("(nin,operationState,%s,%s,%s)", lcm.Completed, lcm.RolledBack, lcm.Failed)
	operations, err := w.people.Occurrences(ctx, s, ended)
	if err != nil {
		return err
	}
	var errs []error
	for _, op := range operations {
		errs = append(errs, w.about(w.vnf(op.Instance), "%s %s is %s (%d %s)", op.Type, op.ID, op.State, op.Error.Status, op.Error.Detail))
	}
	var drifts []struct {
		Instance string `json:"instance"`
		State    string `json:"state"`
	}
	if err := s.Get(ctx, "/jibe/v1/drift", &drifts); err != nil {
		return err
	}
	for _, d := range drifts {
		errs = append(errs, w.about(w.vnf(d.Instance), "it has drifted: %s", d.State))
	}
	return errors.Join(errs...)
}

// vnf is the instance with an id.
func (w *world) vnf(id string) *vnf {
	for _, v := range w.vnfs {
		if v.id == id {
			return v
		}
	}
	return &vnf{id: id, dir: "nobody's"}
}
