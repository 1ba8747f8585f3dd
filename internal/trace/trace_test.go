package trace_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/internal/trace"
)

// kept is a sink that keeps everything.
type kept struct {
	mu    sync.Mutex
	spans []trace.Span
}

func (k *kept) Record(s trace.Span) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, s)
}

const operation = "7bb7fc90-525f-417d-978e-99875fc63d82"

func TestATraceparentIsReadAsTheStandardSaysOrNotAtAll(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	if c := trace.Parse(good); !c.Valid() || c.Traceparent() != good {
		t.Errorf("%s is read as %s", good, c.Traceparent())
	}
	if c := trace.Parse("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-of-a-later-version"); !c.Valid() {
		t.Error("one of a later version isn't read")
	}
	for _, bad := range []string{
		"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", // not sampled
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", good + "-more", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473x-00f067aa0ba902b7-01", "00-4bf92f-00f067aa0ba902b7-01",
	} {
		if c := trace.Parse(bad); c.Valid() {
			t.Errorf("%q is read as %s", bad, c.Traceparent())
		}
	}
}

func TestEveryProcessKnowsWhereASpanOfAnOperationBelongs(t *testing.T) {
	one, other := trace.New(&kept{}, 1), trace.New(&kept{}, 1)
	if a, b := one.Operation(operation), other.Operation(operation); a != b || a.Trace.String() != "7bb7fc90525f417d978e99875fc63d82" {
		t.Errorf("the operation's trace is %s and %s", a.Traceparent(), b.Traceparent())
	}
	if a, b := one.At(operation, "request"), one.Operation(operation); a.Trace != b.Trace || a.Span == b.Span {
		t.Errorf("the request's span is %s, the root %s", a.Traceparent(), b.Traceparent())
	}
	if c := one.Operation("no id"); c.Valid() {
		t.Errorf("what has no id has the trace %s", c.Trace)
	}
}

func TestTheShareOfOperationsIsTracedThatWasAskedFor(t *testing.T) {
	tracer := trace.New(&kept{}, 0.25)
	n := 0
	for i := range 4000 {
		if tracer.Operation(uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(i), byte(i >> 8)}).String()).Valid() {
			n++
		}
	}
	if n < 900 || n > 1100 {
		t.Errorf("of 4,000 operations %d are traced, want a quarter", n)
	}
}

func TestASpanThatWasStoppedIsRecordedWhereSomethingBelongsToItOrItIsKept(t *testing.T) {
	k := &kept{}
	tracer := trace.New(k, 1)
	ctx := trace.With(context.Background(), tracer.Operation(operation))
	_, idle := tracer.Start(ctx, "idle", trace.Internal)
	idle.Stop(false)
	within, used := tracer.Start(ctx, "used", trace.Internal)
	_, child := tracer.Start(within, "child", trace.Client)
	child.End(false)
	used.Stop(false)
	used.Keep() // is recorded already
	_, wanted := tracer.Start(ctx, "wanted", trace.Internal)
	wanted.Stop(false)
	wanted.Keep()
	_, failed := tracer.Start(ctx, "failed", trace.Internal)
	failed.Stop(true)
	var names []string
	for _, s := range k.spans {
		names = append(names, s.Name)
	}
	if len(names) != 4 || names[0] != "child" || names[1] != "used" || names[2] != "wanted" || names[3] != "failed" {
		t.Errorf("recorded are %q", names)
	}
	if k.spans[0].Parent != k.spans[1].Span || k.spans[1].Parent != tracer.Operation(operation).Span {
		t.Error("spans don't belong where they were begun")
	}
}

func TestATracerThatIsOffMakesNothingAndAllocatesNothing(t *testing.T) {
	var off *trace.Tracer
	ctx := context.Background()
	allocated := testing.AllocsPerRun(100, func() {
		in, span := off.Start(ctx, "observe", trace.Internal)
		span.Stop(false)
		span.Keep()
		if in != ctx || off.On() || off.Operation(operation).Valid() {
			t.Error("it does something")
		}
	})
	if allocated != 0 {
		t.Errorf("it allocates %v times", allocated)
	}
}

// BenchmarkSpansOfAPass is what tracing costs a pass that only waits: it asks where the operation
// belongs, and begins two spans that aren't kept.
func BenchmarkSpansOfAPass(b *testing.B) {
	pass := func(b *testing.B, tracer *trace.Tracer) {
		b.ReportAllocs()
		for b.Loop() {
			ctx := b.Context()
			if tracer.On() {
				ctx = trace.With(ctx, tracer.At(operation, "PROCESSING"))
			}
			_, observe := tracer.Start(ctx, "observe", trace.Internal)
			observe.Stop(false)
			_, plan := tracer.Start(ctx, "plan", trace.Internal)
			plan.Stop(false)
		}
	}
	b.Run("off", func(b *testing.B) { pass(b, nil) })
	b.Run("not among the share", func(b *testing.B) { pass(b, trace.New(&kept{}, 0)) })
	b.Run("traced", func(b *testing.B) { pass(b, trace.New(&kept{}, 1)) })
}
