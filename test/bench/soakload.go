package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/lab"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	soakWriters = 8
	// writePause is what one client lets pass after the end of its operation.
	writePause   = 150 * time.Millisecond
	pushPause    = 3 * time.Second
	meddlePeriod = 2 * time.Second
	listPause    = time.Second
	// manyEvery is how often many files are pushed at once, and walkEvery how often all
	// instances are listed.
	manyEvery = time.Minute
	manyFiles = 100
	walkEvery = 2 * time.Minute
	// followWait bounds the wait for an operation that a push or a change by hand begins.
	followWait = 2 * time.Minute
	soakAsk    = 20 * time.Millisecond
)

// pause waits, and says whether the time isn't over yet.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// write is one client that changes instances by requests, one after the other.
func (s *soak) write(ctx, inTime context.Context, client int) {
	w, err := s.dial()
	if err != nil {
		s.lost("client %d: %s", client, err)
		return
	}
	defer w.close()
	mine := s.n / 2 / soakWriters
	for step := 0; pause(inTime, writePause); step++ {
		i := client*mine + step*7%mine // not side by side in git's folders
		kind, l, next := s.next(i, step)
		s.branch.RLock()
		begin := time.Now()
		a, err := l.send(w, i)
		answered := time.Since(begin)
		s.branch.RUnlock()
		if err != nil {
			s.lost("%s: %s", kind, err)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		s.count("requests accepted")
		o, err := w.completed(ctx, a.location, soakAsk, endWait)
		if err != nil {
			s.lost("%s: %s", kind, err)
			continue
		}
		s.took(kind+" until 202", begin, answered)
		s.took(kind+" until COMPLETED", begin, o.Entered.Sub(begin))
		s.count("operations of requests COMPLETED")
		s.wanted[i] = next
	}
}

// next is what a client does next to an instance, and what it is then.
func (s *soak) next(i, step int) (kind string, l load, next wanted) {
	next = s.wanted[i]
	next.touched = true
	switch {
	case !next.runs:
		next.runs, next.level = true, 0
		return "instantiate", instantiating(), next
	case step%20 == 19:
		next.runs, next.level = false, 0
		return "terminate", terminating(), next
	case step%2 == 0:
		next.name = fmt.Sprintf("load %d", i) // as the request says
		return "modify", modifying(), next
	case next.level == 0:
		next.level = 1
		return "scale", scaling("SCALE_OUT"), next
	}
	next.level--
	return "scale", scaling("SCALE_IN"), next
}

func terminating() load {
	return load{"terminate", http.MethodPost, onInstance("/terminate"), always(`{"terminationType":"FORCEFUL"}`), jsonContent, http.StatusAccepted}
}

// push is a person who pushes one file, and now and then many.
func (s *soak) push(ctx, inTime context.Context) {
	w, err := s.dial()
	if err != nil {
		s.lost("pushes: %s", err)
		return
	}
	defer w.close()
	first, n := s.n/2, s.n/4
	at, many := 0, time.Now().Add(manyEvery)
	for pause(inTime, pushPause) {
		files, kind := 1, "push of one file"
		if time.Now().After(many) {
			files, kind, many = min(manyFiles, n), fmt.Sprintf("push of %d files", manyFiles), time.Now().Add(manyEvery)
		}
		var changed []int
		for range files {
			i := first + at%n
			at++
			if s.wanted[i].runs {
				s.wanted[i].level, s.wanted[i].touched = 1-s.wanted[i].level, true
				changed = append(changed, i)
			}
		}
		if err := s.pushLevels(ctx, w, kind, changed); err != nil {
			s.lost("%s: %s", kind, err)
		}
	}
}

// pushLevels pushes the levels of instances, and waits for their operations.
func (s *soak) pushLevels(ctx context.Context, w *wire, kind string, changed []int) error {
	s.branch.Lock()
	commit, begin, err := s.pushFiles(ctx, changed)
	returned := time.Now()
	s.branch.Unlock()
	if err != nil {
		return err
	}
	s.count("pushes accepted")
	s.took(kind+" until git returns", begin, returned.Sub(begin))
	var last time.Time
	for _, i := range changed {
		o, err := s.begun(ctx, w, reconciler.OperationID(commit, instanceID("fill", i)))
		if err != nil {
			return err
		}
		last = later(last, o.Entered)
		s.count("operations of pushes COMPLETED")
	}
	s.took(kind+" until all COMPLETED", begin, last.Sub(begin))
	return nil
}

func (s *soak) pushFiles(ctx context.Context, changed []int) (commit string, begin time.Time, err error) {
	if _, err := process.Git(ctx, s.clone, "fetch", "--quiet", "origin", "+main:main"); err != nil {
		return "", begin, err
	}
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A Person <person@example.org> %d +0000\ndata 5\nlevel\nfrom refs/heads/main^0\n", time.Now().Unix())
	for _, i := range changed {
		id := instanceID("fill", i)
		text := s.named(i, id) + fmt.Sprintf("levels: {web: %d}\n", s.wanted[i].level)
		fmt.Fprintf(&in, "M 100644 inline %s/%s\ndata %d\n%s\n", desired.APIDir(id), desired.InstanceFile, len(text), text)
	}
	if err := fastImport(ctx, s.clone, &in); err != nil {
		return "", begin, err
	}
	if commit, err = process.Git(ctx, s.clone, "rev-parse", "main"); err != nil {
		return "", begin, err
	}
	begin = time.Now()
	_, err = process.Git(ctx, s.clone, "push", "--quiet", filepath.Clean(s.Desired()), "main:main")
	return commit, begin, err
}

// begun waits until an operation that a push begins is there, and COMPLETED.
func (s *soak) begun(ctx context.Context, w *wire, id string) (o outcome, err error) {
	target := process.Operations + "/" + id
	for deadline := time.Now().Add(followWait); ; {
		a, err := w.do(http.MethodGet, target, "", "", false)
		switch {
		case err != nil:
			return o, err
		case a.status == http.StatusOK:
			return w.completed(ctx, target, soakAsk, endWait)
		case time.Now().After(deadline):
			return o, fmt.Errorf("operation %s of a push isn't there after %s: %d: %s", id, followWait, a.status, a.body)
		case !pause(ctx, soakAsk):
			return o, ctx.Err()
		}
	}
}

// meddle changes what runs of one instance after the other, and waits until that is put
// right by an operation.
func (s *soak) meddle(ctx, inTime context.Context) {
	w, err := s.dial()
	if err != nil {
		s.lost("drift: %s", err)
		return
	}
	defer w.close()
	change := lab.At(s.Data).Resize
	first, n := s.n*3/4, s.n/4
	for step := 0; pause(inTime, meddlePeriod); step++ {
		i := first + step*7%n
		if !s.wanted[i].runs {
			continue
		}
		s.wanted[i].touched = true
		if err := s.repaired(ctx, w, change, instanceID("fill", i)); err != nil {
			s.lost("drift: %s", err)
		}
	}
}

func (s *soak) repaired(ctx context.Context, w *wire, change func(context.Context, string, int) error, id string) error {
	begin := time.Now()
	if err := change(ctx, "Workload/"+id+"/web", 3); err != nil {
		return err
	}
	s.count("changes by hand")
	target := process.Operations + "?filter=" + url.QueryEscape(fmt.Sprintf("(eq,vnfInstanceId,%s);(eq,operation,HEAL);(gte,startTime,%s)", id, begin.UTC().Format(time.RFC3339Nano)))
	for deadline := begin.Add(followWait); ; {
		var all []outcome
		if _, err := w.get(target, &all); err != nil {
			return err
		}
		if len(all) > 0 && all[0].State == "COMPLETED" {
			s.took("change by hand until put right", begin, all[0].Entered.Sub(begin))
			s.count("changes by hand put right")
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("instance %s isn't put right after %s: %+v", id, followWait, all)
		}
		if !pause(ctx, soakAsk) {
			return ctx.Err()
		}
	}
}

// list is a client that lists by turns, and now and then all.
func (s *soak) list(ctx, inTime context.Context) {
	w, err := s.dial()
	if err != nil {
		s.lost("lists: %s", err)
		return
	}
	defer w.close()
	walk := time.Now().Add(walkEvery)
	for step := 0; pause(inTime, listPause); step++ {
		if time.Now().After(walk) {
			begin := time.Now()
			x, err := s.walk(ctx, process.Instances)
			if err != nil || x.took < walkBudget && x.entries != s.n {
				s.lost("all instances: %d of %d entries, %v", x.entries, s.n, err)
			}
			s.took("all instances, page by page", begin, x.took)
			walk = time.Now().Add(walkEvery)
		}
		all := questions(s.n, time.Now().Add(-time.Second), "no-such-operation")
		q := all[step%len(all)]
		begin := time.Now()
		_, err := w.want(http.StatusOK, http.MethodGet, q.target, "", "")
		if err != nil {
			s.lost("%s: %s", q.name, err)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		s.took("list: "+q.name, begin, time.Since(begin))
	}
}
