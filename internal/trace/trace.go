// Package trace follows what one VNF LCM operation causes, across processes: it makes the spans
// that OpenTelemetry knows, and carries the W3C Trace Context. It never sends anything; a [Sink]
// does that (package otlp).
//
// Every operation is one trace. Its id is that of the operation, and the ids of the spans that
// others belong to are made of it, too, so that a trace goes on after the process was killed and
// a client can name it. Attributes hold no secrets: no credentials, no query of a URL, no text
// of an error.
package trace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// ID is that of a trace. The zero value is none.
type ID [16]byte

// SpanID is that of a span within its trace. The zero value is none.
type SpanID [8]byte

// String is the id in hexadecimal, as OpenTelemetry shows it.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Context is where something belongs: a span of a trace. The zero value is nowhere.
type Context struct {
	Trace ID
	Span  SpanID
}

// Valid says whether it is somewhere.
func (c Context) Valid() bool { return c.Trace != ID{} && c.Span != SpanID{} }

// Header is the header of the W3C Trace Context that says where a request belongs, and
// AnswerHeader the one by which an answer names the trace of what it has begun.
const (
	Header       = "Traceparent"
	AnswerHeader = "Traceresponse"
)

// Traceparent is the context as W3C Trace Context has it, "" for nowhere. What is carried on is
// recorded: its flag is 01.
func (c Context) Traceparent() string {
	if !c.Valid() {
		return ""
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-01"
}

// Parse reads a traceparent (W3C Trace Context, clause 3.2). It is nowhere where that is none, or
// where the caller doesn't record its trace.
func Parse(text string) Context {
	parts := strings.Split(strings.TrimSpace(text), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 || strings.ToLower(text) != text {
		return Context{}
	}
	var c Context
	var version, flags [1]byte
	for _, x := range []struct {
		to   []byte
		from string
	}{{version[:], parts[0]}, {c.Trace[:], parts[1]}, {c.Span[:], parts[2]}, {flags[:], parts[3]}} {
		if _, err := hex.Decode(x.to, []byte(x.from)); err != nil {
			return Context{}
		}
	}
	if flags[0]&1 == 0 || !c.Valid() {
		return Context{}
	}
	return c
}

// SpanOf is the id of a span of an operation that others belong to, by what tells it apart from
// the operation's other ones. It is the same in every process.
func SpanOf(operation string, parts ...string) SpanID {
	sum := sha256.Sum256([]byte(operation + "\x00" + strings.Join(parts, "\x00")))
	return SpanID(sum[:8])
}

// Root is the name of the span to which all others of an operation belong.
const Root = "operation"

// Kind is what a span is in the talk of two parties.
type Kind uint8

// The kinds, with the numbers of OpenTelemetry.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// Attribute says something of a span. It MUST NOT hold a secret.
type Attribute struct{ Key, Value string }

// Span is something that took time.
type Span struct {
	Context
	// Parent is the span of the same trace to which it belongs, the zero value for a root.
	Parent     SpanID
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes []Attribute
	Failed     bool
	// Links are spans of other traces that it has to do with.
	Links []Context
}

// Sink takes spans that have ended. It MUST NOT block, and drops what it can't take.
type Sink interface{ Record(Span) }

// Tracer makes spans. nil makes none and costs nothing: it is what tracing that is off is.
type Tracer struct {
	sink Sink
	// below is the bound for the hash of traces that are recorded.
	below uint64
}

// New returns a tracer of the given share of all operations, from 0 to 1. Which they are depends
// on their ids alone, so that every process decides alike.
func New(sink Sink, ratio float64) *Tracer {
	below := uint64(float64(1<<63) * min(max(ratio, 0), 1))
	return &Tracer{sink: sink, below: below}
}

// On says whether spans are made at all.
func (t *Tracer) On() bool { return t != nil }

// Operation is the root of an operation's trace, nowhere where it isn't recorded.
func (t *Tracer) Operation(id string) Context {
	if t == nil {
		return Context{}
	}
	u, err := uuid.Parse(id)
	if err != nil {
		return Context{}
	}
	sum := sha256.Sum256(u[:])
	if binary.BigEndian.Uint64(sum[:8])>>1 >= t.below {
		return Context{}
	}
	return Context{ID(u), SpanOf(id, Root)}
}

// At is a span of an operation that others belong to, nowhere where the operation isn't recorded.
func (t *Tracer) At(operation string, parts ...string) Context {
	c := t.Operation(operation)
	if c.Valid() {
		c.Span = SpanOf(operation, parts...)
	}
	return c
}

// Record records a span, unless it is nowhere. Where it has no id, it gets one.
func (t *Tracer) Record(s Span) {
	if t == nil || s.Trace == (ID{}) {
		return
	}
	if s.Span == (SpanID{}) {
		s.Span = newSpanID()
	}
	t.sink.Record(s)
}

// newSpanID makes an id that no other span has.
func newSpanID() SpanID {
	u := uuid.New()
	return SpanID(append(u[:4:4], u[12:]...))
}

// Active is a span under way. nil is none.
type Active struct {
	tracer *Tracer
	span   Span
	// used says that another span belongs to it.
	used   atomic.Bool
	parent *Active
}

type key struct{}

// place is what a context.Context carries.
type place struct {
	Context
	active *Active
}

// With returns a context in which spans belong to c.
func With(ctx context.Context, c Context) context.Context {
	if !c.Valid() {
		return ctx
	}
	return context.WithValue(ctx, key{}, place{Context: c})
}

// From is where spans of the context belong.
func From(ctx context.Context) Context {
	at, _ := ctx.Value(key{}).(place)
	return at.Context
}

// Start begins a span that belongs where ctx says, and returns the context for what belongs to it.
// It begins none where that is nowhere.
func (t *Tracer) Start(ctx context.Context, name string, kind Kind, attributes ...Attribute) (context.Context, *Active) {
	if t == nil {
		return ctx, nil
	}
	at, ok := ctx.Value(key{}).(place)
	if !ok {
		return ctx, nil
	}
	a := &Active{tracer: t, parent: at.active, span: Span{Context: Context{at.Trace, newSpanID()}, Parent: at.Span, Name: name, Kind: kind,
		Start: time.Now(), Attributes: attributes}}
	return context.WithValue(ctx, key{}, place{a.span.Context, a}), a
}

// Add adds an attribute.
func (a *Active) Add(key, value string) {
	if a != nil {
		a.span.Attributes = append(a.span.Attributes, Attribute{key, value})
	}
}

// Context is the span's own, nowhere for none.
func (a *Active) Context() Context {
	if a == nil {
		return Context{}
	}
	return a.span.Context
}

// End ends and records the span.
func (a *Active) End(failed bool) {
	if a == nil {
		return
	}
	a.span.End, a.span.Failed = time.Now(), failed
	a.record()
}

// Stop notes the end of a span of which it isn't known yet whether it is worth being recorded:
// [Active.Keep] records it. It is recorded at once where another span belongs to it, or where it
// failed.
func (a *Active) Stop(failed bool) {
	if a == nil {
		return
	}
	a.span.End, a.span.Failed = time.Now(), failed
	if failed || a.used.Load() {
		a.record()
	}
}

// Keep records a span that was stopped, once.
func (a *Active) Keep() {
	if a != nil && a.tracer != nil {
		a.record()
	}
}

func (a *Active) record() {
	t := a.tracer
	if t == nil {
		return
	}
	a.tracer = nil // once
	for p := a.parent; p != nil; p = p.parent {
		p.used.Store(true)
	}
	t.Record(a.span)
}
