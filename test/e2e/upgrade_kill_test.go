package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// moments are the lines of the log at which an upgrade takes a step.
var moments = []string{`msg="steps started"`, `msg="hook started"`, `msg="hook ended"`, `msg="connections drain"`}

// counter counts the steps that the process takes from somewhere in its log on.
type counter struct {
	process *process.Server
	at      int64 // where in the log it looks next
	taken   int
}

// look says how many there were so far.
func (c *counter) look() int {
	var log string
	log, c.at = c.process.LogFrom(c.at)
	for _, m := range moments {
		c.taken += strings.Count(log, m)
	}
	return c.taken
}

// killAt kills the process delay after it took its n-th step from now on. The channel
// is closed when that is done. end gives it up where that step wasn't taken, and says
// whether the process was killed; afterwards nothing kills it any more.
func killAt(s *server, n int, delay time.Duration) (killed <-chan struct{}, end func() bool) {
	done, stop, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	steps := &counter{process: s.process}
	_, steps.at = s.process.LogFrom(0)
	go func() {
		defer close(ended)
		for given := false; steps.look() < n; {
			if given {
				return
			}
			select {
			case <-stop:
				given = true // but for a step that was taken since the last look
			case <-time.After(2 * time.Millisecond):
			}
		}
		time.Sleep(delay) // the moment of the kill, which nothing tells from outside
		s.process.Kill()
		close(done)
	}()
	return done, func() bool {
		close(stop)
		<-ended
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// taking is about how long a step takes.
const taking = 40 * time.Millisecond

// shortScript is a coordination script that takes a moment and may be run again.
const shortScript = "#!/bin/sh\ncat > /dev/null\nsleep 0.1\n"

// TestAnUpgradeEndsRightAtWhicheverStepJibeIsKilled upgrades to and fro, and kills the
// process at the first step, then at the second, until there is no such step any more.
func TestAnUpgradeEndsRightAtWhicheverStepJibeIsKilled(t *testing.T) { killedAtEachStep(t, 0) }

// Points of test/crash are in this moment, too, so that each change is judged by those.
func TestAnUpgradeEndsRightWhicheverStepWasTakenWhenJibeIsKilled(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	killedAtEachStep(t, taking)
}

// killedAtEachStep kills the process some time after each step of an upgrade begins.
func killedAtEachStep(t *testing.T, delay time.Duration) {
	t.Helper()

	for strategy, steps := range map[string]int{"rolling": 4, "blueGreen": 8} { // that there are at least
		t.Run(strategy, func(t *testing.T) {
			b := newStage(t) // for the namespace; the server is one of this test
			b.alone(t)
			b.permit()
			versions := []release{standard(1), standard(2)}
			for i := range versions {
				versions[i].files = map[string]string{"Scripts/new.sh": shortScript, "Scripts/old.sh": shortScript}
			}
			b.publish(versions...)
			id, file, d := b.pushed(b.vnfdID(1), "levels: {web_aspect: 1}\nupdate: {strategy: "+strategy+", coordinate: {new: Scripts/new.sh, old: Scripts/old.sh}, drain: 200ms}\n")
			for n := 1; ; n++ {
				from, to := 2-n%2, 1+n%2
				if !b.upgradedDespiteAKill(t, id, file, d, strategy, delay, n, from, to) {
					if n <= steps {
						t.Errorf("only %d steps were found, there should be %d at least", n-1, steps)
					}
					t.Logf("killed at each of %d steps", n-1)
					return
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// upgradedDespiteAKill upgrades the instance in its n-th change, kills the process at the
// n-th step of it, and proves that the next process brings it to its right end. It says
// false where there is no such step.
func (b *bench) upgradedDespiteAKill(t *testing.T, id, file string, d *process.WorkTree, strategy string, delay time.Duration, n, from, to int) bool {
	t.Helper()
	f := b.recorder()
	killed, end := killAt(b.server, n, delay)
	b.upgraded(d, file, from, to)
	hit := b.endsDespiteAKill(t, id, n, killed, end)
	b.outcome(id, n, "CHANGE_VNFPKG COMPLETED")
	b.awaitPods(4)
	if got := b.running(to); got != 4 {
		t.Errorf("killed at step %d: %d pods run release %d, want 4", n, got, to)
	}
	s := f.record()
	if strategy == "blueGreen" {
		b.cleanly(s, fmt.Sprint(n-1), fmt.Sprint(n))
		b.only(id, fmt.Sprint(n))
	} else {
		for _, m := range s.traffic("front") {
			if len(m.pods) == 0 {
				t.Errorf("killed at step %d: at %d the Service had no endpoint", n, m.at)
			}
		}
		b.only(id, "0")
	}
	b.versions(id, to)
	b.sameWorkersSoon(id)
	if err := b.counted(id, n+1); err != nil {
		t.Errorf("killed at step %d: %v", n, err)
	}
	return hit
}

// endsDespiteAKill waits until the instance's operation n (from 0) is COMPLETED or the process
// was killed ([killAt]), and starts the next process then. It says whether it was.
func (b *bench) endsDespiteAKill(t *testing.T, id string, n int, killed <-chan struct{}, end func() bool) bool {
	t.Helper()
	for waiting := true; waiting; {
		select {
		case <-killed:
			waiting = false
		case <-time.After(100 * time.Millisecond):
			a, err := b.process.Do(t.Context(), "GET", operations+"?filter=(eq,vnfInstanceId,"+id+")", nil)
			if err == nil && a.Status == 200 && strings.Count(string(a.Body), `"COMPLETED"`) == n+1 {
				waiting = false
			}
		}
	}
	hit := end()
	if hit {
		t.Logf("killed at step %d: %.200s", n, lastLine(b.process.Log()))
		b.server = serve(t, b.data)
	}
	return hit
}

func lastLine(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return lines[len(lines)-1]
}

func TestAHookThatAKillInterruptsIsEndedAndRunAgainAsInterrupted(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t) // for the namespace; the server is one of this test
	data := b.alone(t)
	b.permit()
	arriving, _ := b.coordinated()
	id := b.runs(b.vnfdID(1))
	f := b.recorder()
	path := b.begin(t, id, "change_vnfpkg", b.changing(2, "Blue-Green", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh"))
	if input := arriving.called(1); input["interrupted"] != false {
		t.Errorf("the first run gets %v", input["interrupted"])
	}
	b.process.Kill()
	b.server = serve(t, data)
	if input := arriving.called(2); input["interrupted"] != true {
		t.Errorf("the second run gets %v", input["interrupted"])
	}
	kit.Eventually(t, func() error {
		if !arriving.gone(1) {
			return fmt.Errorf("the interrupted hook still runs")
		}
		return nil
	})
	arriving.answer(2, "exit 0")
	b.await(t, path, "COMPLETED")
	b.cleanly(f.record(), "0", "1")
	b.only(id, "1")
	if n := arriving.calls(); n != 2 {
		t.Errorf("the script was called %d times", n)
	}
}

func TestAKillWhileAnUpgradeIsTakenBackLeavesNothingHalf(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t) // for the namespace; the server is one of this test
	b.alone(t)
	b.permit()
	_, leaving := b.coordinated()
	id := b.runs(b.vnfdID(1))
	before := b.snapshot(true)
	body := b.byScript()
	delete(body["additionalParams"].(object), "lcm-operation-coordinate-new-vnf")
	delete(body["additionalParams"].(object), "lcm-operation-coordinate-new-vnf-class")
	for n, call := 1, 1; ; n++ {
		f := b.recorder()
		path := b.begin(t, id, "change_vnfpkg", body)
		leaving.each(call, "exit 1")
		b.await(t, path, "FAILED_TEMP")
		killed, end := killAt(b.server, n, 0)
		// It may be killed before it answers: the step that it took by then is one of the rollback.
		if a, err := b.process.Do(t.Context(), "POST", path+"/rollback", nil); err == nil && a.Status != 202 {
			t.Fatalf("rollback: %d %s", a.Status, a.Body)
		}
		answered := call
		kit.Eventually(t, func() error {
			select {
			case <-killed:
				return nil
			default:
			}
			if calls := leaving.calls(); calls > answered {
				answered = calls
				leaving.each(calls, "exit 0")
			}
			a, err := b.process.Do(t.Context(), "GET", path, nil)
			if err == nil && strings.Contains(string(a.Body), `"ROLLED_BACK"`) {
				return nil
			}
			return fmt.Errorf("neither killed nor done")
		})
		hit := end()
		if hit {
			b.server = serve(t, b.data)
			kit.Eventually(t, func() error {
				if calls := leaving.calls(); calls > answered {
					answered = calls
					leaving.each(calls, "exit 0")
				}
				if s := b.must(t, 200, "GET", path, nil).object(t).text("operationState"); s != "ROLLED_BACK" {
					return fmt.Errorf("the operation is %s", s)
				}
				return nil
			})
		}
		b.unchanged(before, true)
		if got := f.record().flow("front"); got != "0, 1, 0" {
			t.Errorf("killed at step %d of the rollback: the Service sent traffic to the generations %q", n, got)
		}
		if !hit {
			if n < 4 {
				t.Errorf("the rollback has only %d steps", n-1)
			}
			t.Logf("killed at each of %d steps of a rollback", n-1)
			return
		}
		call = answered + 1
	}
}
