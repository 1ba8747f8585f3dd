package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

// filled takes the figures of one commit with all instances, of lists and of writes while all
// run, and of a restart after which the simulator has forgotten them, so that each is put
// right.
func (s *size) filled(ctx context.Context) (err error) {
	if s.server, err = s.start(ctx, fmt.Sprintf("filled-%d", s.n), map[string]string{"sim": simVIM}); err != nil {
		return err
	}
	if err := s.oneCommit(ctx); err != nil {
		// The rest is measured where the server, started again, gets there.
		s.fail("one commit", err)
		s.server.Kill()
		if _, err := s.restart(); err != nil {
			return err
		}
		if err := s.awaitAll(ctx, running(s.n), func(c counts) int { return c.passes - c.queue }); err != nil {
			return fmt.Errorf("after a restart: %w", err)
		}
		if err := s.server.quiet(ctx, 10*time.Minute); err != nil {
			return err
		}
	}
	s.try(ctx, "memory", func(context.Context) error {
		return s.memory(resting("resident at rest, all looked at"), mostly("  most resident until then"))
	})
	s.try(ctx, "limits", s.limits)
	s.try(ctx, "lists", s.questions)
	s.try(ctx, "writes", s.writes)
	s.try(ctx, "memory", func(context.Context) error {
		return s.memory(resting("resident after lists and writes"), mostly("  most resident of all"))
	})
	s.try(ctx, "what is on disk", func(context.Context) error { return s.disk() })
	if err := s.server.Stop(); err != nil {
		return err
	}
	took, err := s.restart()
	if err != nil {
		return err
	}
	s.took(figure{"restart -> serves, the simulator begins anew", seconds, growing, startLimit}, took)
	begin := time.Now()
	if err := s.awaitAll(ctx, running(s.n), completed); err != nil {
		return fmt.Errorf("repairs after the restart: %w", err)
	}
	s.took(expected("  serves -> every instance put right by an operation"), time.Since(begin))
	if err := s.memory(figure{}, mostly("  most resident until then, with the start")); err != nil {
		return err
	}
	return s.server.Stop()
}

// oneCommit adds all instances by one commit and waits until all run.
func (s *size) oneCommit(ctx context.Context) error {
	begin := time.Now()
	if err := s.server.addUnseen(ctx, "fill", 0, s.n, s.server.named); err != nil {
		return err
	}
	imported := time.Since(begin)
	s.took(expected("limit: git fast-import of one commit with all"), imported)
	if err := s.awaitAll(ctx, running(s.n), completed); err != nil {
		return err
	}
	took := time.Since(begin) - imported
	s.took(expected("one commit with all -> all COMPLETED"), took)
	s.set(s.column, figure{name: "  operations a second", unit: perSecond}, float64(s.n)/took.Seconds())
	return s.server.quiet(ctx, 10*time.Minute)
}

func (s *size) questions(ctx context.Context) error {
	since, operation, err := s.server.few(ctx)
	if err != nil {
		return err
	}
	for _, q := range questions(s.n, since, operation) {
		for _, clients := range []int{1, listClients} {
			took, _, err := s.server.ask(ctx, q, clients, s.samples)
			if err != nil {
				s.fail(q.name, err)
				break
			}
			f := fixed(fmt.Sprintf("p50 of %s", q.name))
			if clients > 1 {
				f = fixed(fmt.Sprintf("  with %d clients", clients))
				f.name += " (" + q.name + ")"
			}
			if d := q.bound(clients); d > 0 {
				f.limit = within(d)
			}
			s.took(f, took.median())
		}
	}
	if err := forgetPeak(s.server.Pid()); err != nil {
		return err
	}
	before, err := peak(s.server.Pid())
	if err != nil {
		return err
	}
	x, err := s.server.walk(ctx, process.Instances)
	if err != nil {
		return err
	}
	after, err := peak(s.server.Pid())
	if err != nil {
		return err
	}
	s.set(s.column, figure{"all instances, page by page: entries", perSecond, steady, most(rateLimit, 0)}, x.rate())
	s.set(s.column, figure{name: "  memory that it takes: most resident beyond that before", unit: mebibytes}, float64(max(0, after-before)))
	return nil
}
