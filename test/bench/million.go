package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// fewOperations is what many operations are compared with, and fewInstances is how many
	// instances they are of.
	fewOperations = 10_000
	fewInstances  = 1_000
	// pruneWait bounds the wait for the removal of old operations.
	pruneWait = 15 * time.Minute
	prunePoll = 5 * time.Second
	// alike is how much more than before a figure may be: a tenth.
	alike = 1.1
)

// million measures what a server costs after some operations, and after very many on the
// same instances, of which the last ones are kept.
func (b *bench) million(ctx context.Context) error {
	t := &table{sizes: []int{min(fewOperations, b.many/2), b.many}, alike: alike}
	s := &size{bench: b, table: t, n: fewInstances}
	var args []string
	if b.keep != "" {
		args = append(args, "--keep-operations="+b.keep)
	}
	server, err := b.spawn(filepath.Join(b.tmp, "million"), args...)
	if err != nil {
		return err
	}
	if s.server, err = furnish(ctx, server, map[string]string{"sim": simVIM}); err != nil {
		server.Kill()
		return err
	}
	defer func() { s.server.Kill() }()
	if err := s.server.addUnseen(ctx, "fill", 0, s.n, s.server.named); err != nil {
		return err
	}
	if err := s.server.completed(ctx, running(s.n), 5*time.Minute); err != nil {
		return err
	}
	b.note("%d instances; of the operations is kept %q", s.n, b.keep)
	done := running(s.n)
	for column, goal := range t.sizes {
		s.column = column
		rate, err := s.operate(ctx, &done, goal)
		if err != nil {
			return err
		}
		if rate > 0 {
			s.set(column, figure{name: "operations a second until then", unit: perSecond}, rate)
		}
		if err := s.after(ctx, args); err != nil {
			return err
		}
	}
	t.print(b.report)
	return s.server.Stop()
}

// operate makes operations until there are so many, by turns on each half of the instances,
// so that the former operation of each has ended.
func (s *size) operate(ctx context.Context, done *int, goal int) (rate float64, err error) {
	begin, first, said := time.Now(), *done, time.Now()
	for half := 0; *done < goal; half = s.n/2 - half {
		n := min(s.n/2, goal-*done)
		err := s.server.clients(ctx, s.clients, n, func(w *wire, i int) error {
			_, err := modifying().insist(w, half+i)
			return err
		})
		if err != nil {
			return 0, err
		}
		*done += n
		if time.Since(said) > time.Minute {
			s.progress("%d of %d operations", *done, goal)
			said = time.Now()
		}
	}
	return float64(*done-first) / time.Since(begin).Seconds(), nil
}

// after takes the figures, of a server that was started again, has put right what the
// simulator forgot, and has removed the operations that aren't kept.
func (s *size) after(ctx context.Context, args []string) error {
	if err := s.server.quiet(ctx, 5*time.Minute); err != nil {
		return err
	}
	if s.keep != "" {
		if err := s.pruned(ctx); err != nil {
			return err
		}
	}
	if err := s.server.Stop(); err != nil {
		return err
	}
	begin := time.Now()
	server, err := s.spawn(s.server.Data, args...)
	if err != nil {
		return err
	}
	s.server.Server = server
	s.took(fixed("restart, warm -> serves"), time.Since(begin))
	if err := s.awaitAll(ctx, running(s.n), completed); err != nil {
		return err
	}
	if err := s.server.quiet(ctx, 5*time.Minute); err != nil {
		return err
	}
	s.try(ctx, "lists", s.questions)
	s.try(ctx, "writes", s.writes)
	s.try(ctx, "memory", func(context.Context) error { return s.memory(resting("resident at rest"), mostly("most resident")) })
	s.try(ctx, "what is on disk", func(context.Context) error { return s.disk() })
	return nil
}

// pruned waits until the number of operations doesn't fall any more.
func (s *size) pruned(ctx context.Context) error {
	last, since := -1, time.Now()
	for deadline := time.Now().Add(pruneWait); ; {
		x, err := s.server.walk(ctx, process.Operations)
		if err != nil {
			return err
		}
		if last < 0 || x.entries < last {
			since = time.Now()
		}
		last = x.entries
		// Between two removals there are minutes.
		if few := s.n * fewKept; last <= few && time.Since(since) > 2*prunePoll {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d operations are still kept after %s", last, pruneWait)
		}
		if !pause(ctx, prunePoll) {
			return ctx.Err()
		}
	}
}

// fewKept is how many operations of an instance there are at most where old ones go: those
// that are kept, and some that are on their way.
const fewKept = 30
