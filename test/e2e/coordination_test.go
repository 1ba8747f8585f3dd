package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/em"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/published"
)

// coordinatedVnfd is examples/packages/coordinated.
const coordinatedVnfd = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1c70"

// story is the operation's story, a line each.
func (b *bench) story(operation string) string {
	b.Helper()
	id := operation[strings.LastIndexByte(operation, '/')+1:]
	var lines []string
	for _, line := range decodeList(b.T, b.must(b, 200, "GET", "/jibe/v1/operations/"+id+"/story", nil).Body) {
		lines = append(lines, line.text("text"))
	}
	return strings.Join(lines, "\n")
}

// held waits until the element manager has been asked about the newest coordination of the
// action more than once, and returns it.
func (b *bench) held(e *em.EM, action string) em.Coordination {
	b.Helper()
	var last em.Coordination
	kit.Eventually(b, func() error {
		all := e.Coordinations()
		i := slices.IndexFunc(all, func(c em.Coordination) bool {
			return c.Request["coordinationActionName"] == action && !c.Result && !c.Cancelled
		})
		if i < 0 || all[i].Polled < 2 {
			return fmt.Errorf("%s isn't waited for: %+v", action, all)
		}
		last = all[i]
		return nil
	})
	return last
}

func TestAnElementManagerCoordinatesWithTheWholeLifeOfAVNF(t *testing.T) {
	b := newBench(t, usual) // for the namespace; the server is one of this test
	published.Held(t)
	data := filepath.Join(process.ShortTempDir(t), "data")
	address := kit.Free(t) // one and the same each time, as an installation's is
	b.server = serve(t, data, "--listen", address)
	if err := b.equip(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	b.process.PushPackages(t, []string{coordinatedVnfd}, process.Root()+"/examples/packages/coordinated")
	request := object{"flavourId": "simple", "additionalParams": object{"namespace": b.namespace, "drainSeconds": 60,
		"lcm-kubernetes-def-files": []string{"Files/kubernetes/deployment.yaml"}}}
	id := b.create(coordinatedVnfd)

	// Nobody could be asked: nothing begins.
	if a := b.rest(t, "POST", instances+"/"+id+"/instantiate", request); a.Status != 400 || !strings.Contains(string(a.Body), "peers.yaml has no default") {
		t.Errorf("without an element manager: %d %s", a.Status, a.Body)
	}
	e := em.Start(t)
	b.clone(t, "desired.git").PushFiles(map[string]string{"peers.yaml": "- name: em-a\n  type: em\n  endpoint: " + e.URL + "\n  default: true\n"})
	var begun string
	kit.Eventually(b, func() error { // the push is followed in its own time
		a := b.rest(t, "POST", instances+"/"+id+"/instantiate", request)
		begun = strings.TrimPrefix(a.Header.Get("Location"), b.url)
		if a.Status != 202 {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})

	// 201: the answer is there at once.
	b.await(t, begun, "COMPLETED")
	first := e.Coordinations()[0].Request
	if first["coordinationActionName"] != "configure" || first["vnfInstanceId"] != id || first["lcmOperationType"] != "INSTANTIATE" {
		t.Errorf("asked for %v", first)
	}
	if links, _ := first["_links"].(map[string]any); fmt.Sprint(links["vnfInstance"]) != fmt.Sprintf("map[href:%s%s/%s]", b.url, instances, id) {
		t.Errorf("links: %v", first["_links"])
	}

	// 202: the scaling waits for it, and goes on.
	e.Behave("drain_sessions", em.Behaviour{Async: true, RetryAfter: "0"})
	out := b.begin(t, id, "scale", scale("SCALE_OUT", "calls", 1))
	if c := b.held(e, "drain_sessions"); fmt.Sprint(c.Request["inputParams"]) != "map[drainSeconds:60 vnfcInstanceIds:[]]" {
		t.Errorf("given %v", c.Request["inputParams"])
	}
	if n := len(b.pods()); n != 1 {
		t.Errorf("%d pods while the element manager has not let it go on", n)
	}
	e.Release("drain_sessions")
	b.await(t, out, "COMPLETED")
	for _, want := range []string{"em-a is asked to coordinate", "coordination c-2 is under way", "em-a answers CONTINUE", "scale_end:rebalance"} {
		if story := b.story(out); !strings.Contains(story, want) {
			t.Errorf("no %q in the story:\n%s", want, story)
		}
	}

	// ABORT: nothing is scaled, until a retry is let go on.
	e.Behave("drain_sessions", em.Behaviour{Result: "ABORT", Detail: "a backup runs"})
	refused := b.begin(t, id, "scale", scale("SCALE_OUT", "calls", 1))
	if detail := b.await(t, refused, "FAILED_TEMP").text("error", "detail"); !strings.Contains(detail, "em-a aborts the operation") || !strings.Contains(detail, "a backup runs") {
		t.Errorf("its error: %s", detail)
	}
	if n := len(b.pods()); n != 2 {
		t.Errorf("%d pods after the element manager refused", n)
	}
	e.Behave("drain_sessions", em.Behaviour{Refusals: []int{503}, RetryAfter: "0"})
	b.must(t, 202, "POST", refused+"/retry", nil)
	b.await(t, refused, "COMPLETED")

	// Cancelled while it waits: the element manager is told.
	for _, mode := range []string{"GRACEFUL", "FORCEFUL"} {
		e.Behave("drain_sessions", em.Behaviour{Async: true, RetryAfter: "0"})
		cancelled := b.begin(t, id, "scale", scale("SCALE_OUT", "calls", 1))
		awaited := b.held(e, "drain_sessions")
		b.must(t, 202, "POST", cancelled+"/cancel", object{"cancelMode": mode})
		if detail := b.await(t, cancelled, "FAILED_TEMP").text("error", "detail"); !strings.Contains(detail, "cancelled on request ("+mode+")") {
			t.Errorf("%s: its error: %s", mode, detail)
		}
		kit.Eventually(b, func() error {
			for _, c := range e.Coordinations() {
				if c.ID == awaited.ID && c.Cancelled {
					return nil
				}
			}
			return fmt.Errorf("%s: the element manager wasn't told", mode)
		})
		e.Release("drain_sessions")
		b.must(t, 202, "POST", cancelled+"/rollback", nil)
		b.await(t, cancelled, "ROLLED_BACK")
	}

	// Killed while it waits: the next process waits on, and asks no second time.
	in := b.begin(t, id, "scale", scale("SCALE_IN", "calls", 1))
	awaited := b.held(e, "drain_sessions")
	asked := len(e.Asked())
	b.process.Kill()
	b.server = serve(t, data, "--listen", address)
	kit.Eventually(b, func() error {
		if now := b.held(e, "drain_sessions"); now.ID != awaited.ID || now.Polled < awaited.Polled+2 {
			return fmt.Errorf("%+v isn't waited for", now)
		}
		return nil
	})
	e.Release("drain_sessions")
	b.await(t, in, "COMPLETED")
	if all := e.Asked(); len(all) != asked+1 || all[asked] != "rebalance" {
		t.Errorf("after the crash it asked for %v", all[asked:])
	}

	e.Behave("save_state", em.Behaviour{Async: true, Polls: 1, RetryAfter: "0"})
	b.server.run(t, id, "terminate", object{"terminationType": "FORCEFUL"})
	if all := e.Asked(); all[len(all)-1] != "save_state" {
		t.Errorf("at the end it asked for %v", all)
	}
}
