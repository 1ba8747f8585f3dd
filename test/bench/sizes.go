package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

const (
	// sizeWait bounds a wait for something that is done for each instance. One that gets
	// nowhere for stalled is given up.
	sizeWait = 30 * time.Minute
	stalled  = 90 * time.Second
	// writers of one figure, and how many requests they make together.
	writers     = 16
	writersMake = 480
	aloneMakes  = 60
	alonePause  = 5 * time.Millisecond // an operation's end belongs to no request
)

// layout is a way of laying out the directories of many instances.
type layout struct {
	word, name string
	dir        func(i int, id string) string
}

// filledWord picks the figures of instances that run, as the words of layouts pick theirs.
const filledWord = "filled"

func layouts() []layout {
	return []layout{
		{"api", "as the API makes them", func(_ int, id string) string { return desired.APIDir(id) }},
		{"folders", "in a hundred folders", func(i int, id string) string { return fmt.Sprintf("instances/site-%02d/%s", i%100, id) }},
		{"flat", "all in one folder", func(_ int, id string) string { return "instances/" + id }},
	}
}

// size is one size of which figures are taken.
type size struct {
	*bench
	*table
	n, column int
	server    *jibe
}

// bySize measures what starts, pushes, commits, writes and lists cost in repositories of
// several sizes, side by side. What can't be measured at a size is said, and the rest goes
// on.
func (b *bench) bySize(ctx context.Context) error {
	for _, l := range layouts() {
		if !slices.Contains(b.laid, l.word) {
			continue
		}
		b.note("the directories are %s; one in %d instances runs", l.name, standingEach)
		if b.commits > 0 {
			b.note("history of %d commits", b.commits)
		}
		b.each(ctx, func(s *size, ctx context.Context) error { return s.laidOut(ctx, l) })
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if !slices.Contains(b.laid, filledWord) {
		return nil
	}
	b.note("all but one in %d instances run, instantiated from one commit", rarely)
	b.each(ctx, (*size).filled)
	return ctx.Err()
}

// each takes the figures of each size, and prints them.
func (b *bench) each(ctx context.Context, take func(*size, context.Context) error) {
	t := &table{sizes: b.grown}
	for i, n := range t.sizes {
		s := &size{bench: b, table: t, n: n, column: i}
		b.progress("%d instances", n)
		if err := take(s, ctx); err != nil {
			s.fail("the rest", err)
		}
		if s.server != nil {
			s.server.Kill()
			if err := os.RemoveAll(s.server.Data); err != nil { // there may not be room for all sizes
				s.fail("removing its data", err)
			}
		}
	}
	t.print(b.report)
}

func (s *size) fail(what string, err error) {
	text := fmt.Sprintf("%d instances, %s: %s", s.n, what, firstLine(err.Error()))
	if s.server != nil && s.server.Server != nil {
		for _, line := range complaints(s.server.Log()) {
			text += "\n      " + line
		}
	}
	s.failed = append(s.failed, text)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// complaintsShown is how many lines of a server's log are shown where something failed.
const complaintsShown = 3

// complaints are the last warnings and errors of a log.
func complaints(log string) (lines []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines[max(0, len(lines)-complaintsShown):]
}

// try takes figures without which the others can be taken too.
func (s *size) try(ctx context.Context, what string, take func(context.Context) error) {
	if err := take(ctx); err != nil {
		s.fail(what, err)
	}
}

func (s *size) took(f figure, d time.Duration) { s.duration(s.column, f, d) }

// memory takes what the server has resident, and the most that it had since it was last
// told to forget.
func (s *size) memory(f, most figure) error {
	now, err := resident(s.server.Pid())
	if err != nil {
		return err
	}
	top, err := peak(s.server.Pid())
	if err != nil {
		return err
	}
	if f.name != "" {
		s.set(s.column, f, float64(now))
	}
	s.set(s.column, most, float64(top))
	return nil
}

// restLimit and mostLimit are what a server may have resident at 50,000 instances.
func restLimit() func(int) float64 { return only(50_000, 600<<20) }
func mostLimit() func(int) float64 { return only(50_000, 1<<30) }

// only is a limit at one size and those below.
func only(size int, v float64) func(int) float64 {
	return func(n int) float64 {
		if n > size {
			return 0
		}
		return v
	}
}

func resting(name string) figure  { return figure{name, mebibytes, growing, restLimit()} }
func mostly(name string) figure   { return figure{name, mebibytes, growing, mostLimit()} }
func fixed(name string) figure    { return figure{name: name} }
func expected(name string) figure { return figure{name: name, work: growing} }

// restart starts the server again on its data and returns when it serves.
func (s *size) restart() (took time.Duration, err error) {
	begin := time.Now()
	s.server.Server, err = s.spawn(s.server.Data)
	return time.Since(begin), err
}

// awaitAll waits until look's number has reached n, and gives up where it doesn't grow.
func (s *size) awaitAll(ctx context.Context, n int, look func(counts) int) error {
	ctx, cancel := context.WithTimeout(ctx, sizeWait)
	defer cancel()
	last, moved := -1, time.Now()
	for {
		asked := time.Now()
		c, err := s.server.counts(ctx)
		if err != nil {
			return err
		}
		now := look(c)
		switch {
		case c.failed > 0:
			return fmt.Errorf("%d operations failed", c.failed)
		case now >= n:
			return nil
		case now > last:
			last, moved = now, time.Now()
		case time.Since(moved) > stalled:
			return fmt.Errorf("%d of %d, and no more for %s; %d instances wait", now, n, stalled, c.queue)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d after %s: %w", now, n, sizeWait, ctx.Err())
		case <-time.After(max(scrapePause, scrapeShare*time.Since(asked))):
		}
	}
}

func passes(c counts) int    { return c.passes }
func completed(c counts) int { return c.completed }

// writes takes what requests cost that change one instance each.
func (s *size) writes(ctx context.Context) error {
	var one times
	err := s.server.clients(ctx, 1, min(s.n, aloneMakes), func(w *wire, i int) error {
		begin := time.Now()
		_, err := modifying().send(w, i)
		one = append(one, time.Since(begin))
		time.Sleep(alonePause)
		return err
	})
	if err != nil {
		return err
	}
	s.took(fixed("PATCH, 1 client: p50 until 202"), one.median())
	if err := s.server.quiet(ctx, time.Minute); err != nil {
		return err
	}
	all := make(times, min(s.n, writersMake))
	if err := s.server.clients(ctx, writers, len(all), func(w *wire, i int) error {
		begin := time.Now()
		_, err := modifying().send(w, i)
		all[i] = time.Since(begin)
		return err
	}); err != nil {
		return err
	}
	s.took(figure{fmt.Sprintf("PATCH, %d clients: p50 until 202", writers), seconds, steady, within(20 * time.Millisecond)}, all.median())
	return s.server.quiet(ctx, 5*time.Minute)
}

// disk takes what is on disk.
func (s *size) disk() error {
	store, err := os.Stat(filepath.Join(s.server.Data, "store.db"))
	if err != nil {
		return err
	}
	var repository int64
	err = filepath.WalkDir(s.server.Desired(), func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreMissing(err)
		}
		info, err := e.Info()
		if err == nil {
			repository += info.Size()
		}
		return ignoreMissing(err)
	})
	s.set(s.column, figure{name: "store.db", unit: mebibytes, work: growing}, float64(store.Size()))
	s.set(s.column, figure{name: "the desired repository", unit: mebibytes, work: growing}, float64(repository))
	return err
}

// ignoreMissing is for files that go while one looks.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
