package reconciler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/em"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// advised is the catalogue whose VNFs coordinate by themselves, at the VNFCs of VDU1, beside a
// management driver for scaling.
type advised struct {
	driven
	em bool // an element manager is asked in their place
}

func (d advised) Open(ctx context.Context, tree string) (*vnfd.Package, error) {
	pkg, err := d.driven.Open(ctx, tree)
	if err == nil {
		f := &pkg.VNFD.Flavours[0]
		drain := vnfd.Coordination{Action: "drain", ByVNF: !d.em, Inputs: map[string]any{"seconds": 30, "password": "none"}}
		f.Coordinations = map[string][]vnfd.Coordination{
			"scale_start": {drain}, "scale_end": {{Action: "balance", ByVNF: !d.em}}, "coordinate_new": {{Action: "handover", ByVNF: !d.em}},
		}
		f.CoordinationInterface = &vnfd.CoordinationInterface{Scheme: "http", Port: 8443, VDUs: []string{"VDU1"}}
	}
	return pkg, err
}

// advising is a world whose VNFCs are all the server, whatever their addresses; at are those
// that were called.
func advising(t *testing.T, packages reconciler.Packages) (w *world, r *rack, s *stage, e *em.EM, at func() []string) {
	e = em.Start(t)
	called := make(chan string, 1000)
	w, r, s = machines(t, func(c *reconciler.Config) {
		c.Packages = packages
		c.Seals.Hook = func(clear string) (string, error) { return "env:" + clear, nil }
		c.Seals.VIM = c.Seals.Hook
		c.Reveal = func(params map[string]any) (map[string]any, error) {
			out := map[string]any{}
			for k, v := range params {
				if s, ok := v.(string); ok {
					v = strings.TrimPrefix(s, "env:")
				}
				out[k] = v
			}
			return out, nil
		}
		c.BaseURL = func() string { return "https://vnfm.example" }
		c.Peers = func(*desired.Peer) (peer.Settings, error) {
			return peer.Settings{Egress: egress.Anywhere(), Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				called <- address
				return new(net.Dialer).DialContext(ctx, network, e.Listener.Addr().String())
			}}}, nil
		}
	})
	return w, r, s, e, func() (all []string) {
		for {
			select {
			case a := <-called:
				all = append(all, a)
			default:
				return all
			}
		}
	}
}

func TestTheVNFItselfIsAskedBesideScriptsAndEachLearnsWhatCameOfIt(t *testing.T) {
	t.Parallel()

	w, _, s, e, at := advising(t, advised{})
	e.Behave("drain", em.Behaviour{Async: true, Polls: 1, RetryAfter: "0", Outputs: map[string]any{"left": 3}})
	op := w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	if want := []string{"scale_start:drain", "scale_start", "scale_end", "scale_end:balance"}; !slices.Equal(op.Journal.Hooks, want) {
		t.Errorf("done were %q", op.Journal.Hooks)
	}
	if all := at(); !slices.Contains(all, "192.0.2.1:8443") {
		t.Errorf("called were %q", all)
	}
	request := e.Coordinations()[0].Request
	inputs, _ := json.Marshal(request["inputParams"])
	if string(inputs) != `{"password":"none","seconds":30,"vnfcInstanceIds":[]}` {
		t.Errorf("drain was given %s", inputs)
	}
	if added := fmt.Sprint(e.Coordinations()[1].Request["inputParams"]); !strings.HasPrefix(added, "map[vnfcInstanceIds:[VDU1-server-") {
		t.Errorf("balance was given %s", added)
	}
	if len(op.Coordinations) != 2 {
		t.Fatalf("recorded: %+v", op.Coordinations)
	}
	c := op.Coordinations[0]
	if c.ID != "c-1" || c.Action != "drain" || c.Result != lcm.CoordinationContinue || c.Endpoint != lcm.EndpointVNF || c.Outputs != `env:{"left":3}` ||
		c.Started.IsZero() || c.Ended.Before(c.Started) || !c.Delay.IsZero() || c.Attempt != 1 || c.Asked != "VNFC VDU1-server-1" {
		t.Errorf("recorded: %+v", c)
	}
	for _, in := range s.inputs() {
		if in.Hook == "scale_start" && (len(in.Coordinations) != 1 || in.Coordinations[0].Point != "scale_start" || fmt.Sprint(in.Coordinations[0].Outputs) != "map[left:3]") {
			t.Errorf("%s was given %+v", in.Hook, in.Coordinations)
		}
	}
}

func TestARollingChangeAsksForEachVNFCAtItsOwnAddress(t *testing.T) {
	t.Parallel()

	w, _, s, e, at := advising(t, advised{})
	at()
	w.commit(upgraded(coordinated("rolling", "CP1")))
	w.last(lcm.ChangePackage, lcm.Completed)
	all := at()
	slices.Sort(all)
	if want := []string{"192.0.2.1:8443", "192.0.2.2:8443"}; !slices.Equal(all, want) {
		t.Errorf("called were %q, want %q", all, want)
	}
	var about []string
	for _, c := range e.Coordinations() {
		about = append(about, fmt.Sprint(c.Request["coordinationActionName"], c.Request["inputParams"]))
	}
	slices.Sort(about)
	if want := []string{"handovermap[vnfcInstanceIds:[VDU1-server-1]]", "handovermap[vnfcInstanceIds:[VDU1-server-2]]"}; !slices.Equal(about, want) {
		t.Errorf("asked for %q", about)
	}
	if n := len(s.inputs()); n != 2 {
		t.Errorf("%d scripts ran, want one for each VNFC as well", n)
	}
}

func TestACoordinationWithoutAResultIsNotAskedForTwice(t *testing.T) {
	t.Parallel()

	hold := func(w *world, e *em.EM) *lcm.Operation {
		t.Helper()
		w.commit(file("instantiated", "levels: {web: 2}\n"))
		w.until("it is waited for", func() bool { all := e.Coordinations(); return len(all) > 0 && all[len(all)-1].Polled > 0 })
		return w.operations(lcm.Scale)[0]
	}
	t.Run("it is cancelled gracefully while no process runs: the next one says so, and waits for the end", func(t *testing.T) {
		w, _, _, e, _ := advising(t, advised{})
		e.Behave("drain", em.Behaviour{Async: true, RetryAfter: "0"})
		op := hold(w, e)
		if _, err := w.log.Cancel(t.Context(), op.ID, lcm.Graceful); err != nil {
			t.Fatal(err)
		}
		w.stop() // before the reconciler was told of it
		w.start()
		op = w.last(lcm.Scale, lcm.FailedTemp)
		if c := e.Coordinations(); len(c) != 1 || !c[0].Cancelled || op.Coordinations[0].Result != lcm.CoordinationCancelled || op.Error.Detail != "cancelled on request (GRACEFUL)" {
			t.Errorf("%+v, %+v, %+v", c, op.Coordinations, op.Error)
		}
	})
	t.Run("it is cancelled forcefully while no process runs: the next one says so, and doesn't wait", func(t *testing.T) {
		w, _, _, e, _ := advising(t, advised{})
		e.Behave("drain", em.Behaviour{Async: true, RetryAfter: "600"})
		w.commit(file("instantiated", "levels: {web: 2}\n"))
		w.until("it is recorded", func() bool { all := w.operations(lcm.Scale); return len(all) > 0 && len(all[0].Coordinations) > 0 })
		if _, err := w.log.Cancel(t.Context(), w.operations(lcm.Scale)[0].ID, lcm.Forceful); err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.start()
		op := w.last(lcm.Scale, lcm.FailedTemp)
		if c := op.Coordinations[0]; c.Ended.IsZero() || c.Result != "" {
			t.Errorf("recorded: %+v", c)
		}
		w.until("whoever coordinates is told", func() bool { return e.Coordinations()[0].Cancelled })
	})
	t.Run("its result is recorded, and the process ends before its hook is: the next one goes on with it", func(t *testing.T) {
		w, _, _, e, _ := advising(t, advised{})
		e.Behave("drain", em.Behaviour{Async: true, RetryAfter: "600"})
		w.commit(file("instantiated", "levels: {web: 2}\n"))
		w.until("it is recorded", func() bool { all := w.operations(lcm.Scale); return len(all) > 0 && len(all[0].Coordinations) > 0 })
		_, err := w.log.Record(t.Context(), w.operations(lcm.Scale)[0].ID, func(op *lcm.Operation, _ *lcm.Instance) error {
			c := op.Coordinations[0]
			c.Result, c.Ended = lcm.CoordinationContinue, time.Now()
			op.Coordinate(c)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.start()
		op := w.last(lcm.Scale, lcm.Completed)
		if c := e.Coordinations(); len(op.Coordinations) != 2 || len(c) != 2 || c[0].Polled > 0 || c[0].Cancelled {
			t.Errorf("%+v, %+v", op.Coordinations, c)
		}
	})
	t.Run("its time is up: it is ended, and a retry asks anew", func(t *testing.T) {
		short := func(c *reconciler.Config) { c.HookTimeout = time.Second }
		w, _, _, e, _ := advising(t, advised{})
		conf := w.conf
		w.stop()
		w.conf = func(c *reconciler.Config) { conf(c); short(c) }
		w.start()
		e.Behave("drain", em.Behaviour{Async: true, RetryAfter: "0"})
		op := w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.FailedTemp)
		if c := op.Coordinations[0]; c.Ended.IsZero() || c.Result != "" || !strings.Contains(op.Error.Detail, "coordination c-1 has no result within 1s") || !e.Coordinations()[0].Cancelled {
			t.Errorf("%+v, %+v", c, op.Error)
		}
		e.Behave("drain", em.Behaviour{})
		if _, err := w.log.Retry(t.Context(), op.ID); err != nil {
			t.Fatal(err)
		}
		w.recon.Enqueue(id)
		if op = w.last(lcm.Scale, lcm.Completed); op.Coordinations[1].ID != "c-2" || op.Coordinations[1].Attempt != 2 {
			t.Errorf("recorded: %+v", op.Coordinations)
		}
	})
}

func TestAnOperationForWhichNobodyCouldBeAskedBeginsOnlyWithoutHooks(t *testing.T) {
	t.Parallel()

	w, _, s, e, _ := advising(t, advised{em: true})
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.until("it is refused", func() bool {
		return slices.ContainsFunc(w.recon.View().Problems(), func(p reconciler.Problem) bool { return strings.Contains(fmt.Sprint(p), "drain (scale_start)") })
	})
	w.scale(file("instantiated", "levels: {web: 2}\nhooks: skip\n"), lcm.Completed)
	story := fmt.Sprint(w.operations(lcm.Scale)[0].Story)
	if len(e.Asked()) > 0 || len(s.inputs()) > 0 || !strings.Contains(story, "scale_start:drain: nobody was asked, as vnf.yaml says hooks: skip") {
		t.Errorf("asked %v, ran %v; %s", e.Asked(), s.told(), story)
	}
}
