package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/process"
)

// scalePushes is how many pushes of one file are measured at each size.
const scalePushes = 5

// layout is a way of laying out the directories of many instances.
type layout struct {
	name string
	dir  func(i int, id string) string
}

func scaleLayouts() []layout {
	return []layout{
		{"as the API makes them", func(_ int, id string) string { return desired.APIDir(id) }},
		{"in a hundred folders", func(i int, id string) string { return fmt.Sprintf("instances/site-%02d/%s", i%100, id) }},
		{"all in one folder", func(_ int, id string) string { return "instances/" + id }},
	}
}

// scaled are the figures of one size.
type scaled struct {
	start, looked, restart, push, done time.Duration
	resident, peak                     int
}

// scale measures what a start, a restart and a push of one file take in repositories
// of several sizes, and how these grow from one size to the next. One in a hundred
// instances runs, in the simulator, which begins anew with each process.
func (b *bench) scale(ctx context.Context) error {
	for _, l := range scaleLayouts() {
		var last scaled
		for i, n := range b.grown {
			s, err := b.scaleAt(ctx, l, n)
			if err != nil {
				return fmt.Errorf("%d instances, %s: %w", n, l.name, err)
			}
			grew := func(now, was float64) string {
				if i == 0 {
					return ""
				}
				return fmt.Sprintf("%s of %d's", ratio(now, was), b.grown[i-1])
			}
			b.note("%d instances, %s", n, l.name)
			for _, f := range []struct {
				name     string
				now, was time.Duration
			}{
				{"first start -> serves", s.start, last.start},
				{"serves -> every instance looked at", s.looked, last.looked},
				{"restart -> serves", s.restart, last.restart},
				{"git push of one file (hook included)", s.push, last.push},
				{"begin of that push -> operation COMPLETED", s.done, last.done},
			} {
				b.value("  "+f.name, short(f.now), true, "", grew(f.now.Seconds(), f.was.Seconds()))
			}
			b.value("  resident memory at rest", fmt.Sprintf("%d MiB", s.resident>>20), true, "",
				fmt.Sprintf("most %d MiB, %.1f KiB an instance  %s", s.peak>>20, float64(s.resident)/1024/float64(n), grew(float64(s.resident), float64(last.resident))))
			last = s
		}
	}
	return nil
}

func (b *bench) scaleAt(ctx context.Context, l layout, n int) (s scaled, err error) {
	name := fmt.Sprintf("scale-%d-%s", n, strings.ReplaceAll(l.name, " ", "-"))
	j, err := b.start(ctx, name, map[string]string{"sim": simVIM})
	if err != nil {
		return s, err
	}
	defer func() { j.Kill() }()
	if err := j.Stop(); err != nil {
		return s, err
	}
	if err := j.layOut(ctx, l, n); err != nil {
		return s, err
	}
	again := func() (served time.Duration, err error) {
		begin := time.Now()
		j.Server, err = process.StartBinary(b.binary, j.Data)
		return time.Since(begin), err
	}
	if s.start, err = again(); err != nil {
		return s, err
	}
	begin := time.Now()
	if err := j.passed(ctx, n, 10*time.Minute); err != nil {
		return s, err
	}
	s.looked = time.Since(begin)
	if err := j.quiet(ctx, 5*time.Minute); err != nil {
		return s, err
	}
	if err := j.Stop(); err != nil {
		return s, err
	}
	if s.restart, err = again(); err != nil {
		return s, err
	}
	if err := j.passed(ctx, n, 10*time.Minute); err != nil {
		return s, err
	}
	if err := j.quiet(ctx, 5*time.Minute); err != nil {
		return s, err
	}
	var pushes, ends times
	for i := range scalePushes {
		pushed, done, err := j.scaleOne(ctx, l, i)
		if err != nil {
			return s, err
		}
		pushes, ends = append(pushes, pushed), append(ends, done)
	}
	s.push, s.done = pushes.median(), ends.median()
	c, err := j.counts(ctx)
	if err != nil {
		return s, err
	}
	s.resident = c.resident
	if s.peak, err = peak(j.Pid()); err != nil {
		return s, err
	}
	return s, j.Stop()
}

// standingEach is one of how many instances runs.
const standingEach = 100

// layOut commits n instances at once, past the hook, while no server runs, and clones
// the repository without its files, which a person of one site needn't have.
func (j *jibe) layOut(ctx context.Context, l layout, n int) error {
	files := map[string]string{}
	for i := range n {
		id, state := instanceID("scale", i), "notInstantiated"
		if i%standingEach == 0 {
			state = "instantiated"
		}
		files[l.dir(i, id)+"/"+desired.InstanceFile] = j.vnf(id, state, "vim: sim\n")
	}
	if err := process.Fill(ctx, j.Desired(), "Many", files); err != nil {
		return err
	}
	j.clone += "-bare.git"
	_, err := process.Git(ctx, j.Data, "clone", "--quiet", "--bare", "--no-local", j.Desired(), j.clone)
	return err
}

// scaleOne pushes another level of a running instance, one at a time.
func (j *jibe) scaleOne(ctx context.Context, l layout, i int) (pushed, done time.Duration, err error) {
	i *= standingEach
	id := instanceID("scale", i)
	text := j.vnf(id, "instantiated", "vim: sim\nlevels: {web: 2}\n")
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A Person <person@example.org> %d +0000\ndata 5\nscale\nfrom refs/heads/main^0\nM 100644 inline %s/%s\ndata %d\n%s\n",
		time.Now().Unix(), l.dir(i, id), desired.InstanceFile, len(text), text)
	if err := fastImport(ctx, j.clone, &in); err != nil {
		return 0, 0, err
	}
	commit, err := process.Git(ctx, j.clone, "rev-parse", "main")
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if _, err := process.Git(ctx, j.clone, "push", "--quiet", filepath.Clean(j.Desired()), "main:main"); err != nil {
		return 0, 0, err
	}
	pushed = time.Since(begin)
	end, err := j.ended(ctx, reconciler.OperationID(commit, id))
	return pushed, end.Sub(begin), err
}
