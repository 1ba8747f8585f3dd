package hooks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/jibe-vnfm/jibe/hooks"
)

func TestTheRegistryTellsHowAHookEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := hooks.NewRegistry(t.Context())
		goOn, ended := make(chan struct{}), 0
		r.Start("vnf", "op", "scale_start", func(context.Context, <-chan struct{}) (hooks.Output, error) {
			<-goOn
			return hooks.Output{Message: "prepared"}, nil
		}, func() { ended++ })
		synctest.Wait()
		if now, known := r.Get("vnf", "op", "scale_start"); !known || now.Done || ended != 0 {
			t.Errorf("while it runs: %+v, known %t, ended %d times", now, known, ended)
		}
		close(goOn)
		r.Wait()
		if now, known := r.Get("vnf", "op", "scale_start"); !known || !now.Done || now.Output.Message != "prepared" || ended != 1 {
			t.Errorf("afterwards: %+v, known %t, ended %d times", now, known, ended)
		}
		r.Drop("vnf")
		if _, known := r.Get("vnf", "op", "scale_start"); known {
			t.Error("it is known although it was dropped")
		}
	})
}

func TestAHookEndsWhenItIsDroppedOrAnotherIsAskedForOrTheProcessStops(t *testing.T) {
	for name, end := range map[string]func(r *hooks.Registry, stop func()){
		"dropped":           func(r *hooks.Registry, _ func()) { r.Drop("vnf") },
		"another hook":      func(r *hooks.Registry, _ func()) { r.Get("vnf", "op", "scale_end") },
		"another operation": func(r *hooks.Registry, _ func()) { r.Get("vnf", "op2", "scale_start") },
		"the process stops": func(_ *hooks.Registry, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lifetime, stop := context.WithCancel(t.Context())
				defer stop()
				r := hooks.NewRegistry(lifetime)
				var got error
				r.Start("vnf", "op", "scale_start", func(ctx context.Context, _ <-chan struct{}) (hooks.Output, error) {
					<-ctx.Done()
					got = ctx.Err()
					return hooks.Output{}, got
				}, func() {})
				end(r, stop)
				r.Wait()
				if !errors.Is(got, context.Canceled) {
					t.Errorf("it ended with %v", got)
				}
			})
		})
	}
}
