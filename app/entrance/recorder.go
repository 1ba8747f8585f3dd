package entrance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/lru"
)

// AuditOptions say where records of writes, refusals and failed logins go.
type AuditOptions struct {
	// File takes them; "" is one in the data directory, and "-" the standard output.
	File string
	// AllowUnaudited lets changes be made while no record of them can be written; they are
	// refused otherwise.
	AllowUnaudited bool
	// TrustedProxies are networks, as 10.0.0.0/8, whose X-Forwarded-For is believed.
	TrustedProxies []string
}

const (
	// anchorEvery is how often the process's log is told how far the audit log goes.
	anchorEvery = time.Hour
	// omittedEvery is how often it is recorded that records were left out.
	omittedEvery = 10 * time.Second
)

// How many records of refusals are kept: of strangers' in all, and of each known caller's, a
// second and at once. A disk is not to be filled by who may do nothing.
const (
	strangersRecords, strangersAtOnce = 5, 500
	callersRecords, callersAtOnce     = 20, 500
)

// Recorder records what is asked of the server.
type Recorder struct {
	audit.Log
	file      *audit.File // nil for one that is opened elsewhere
	log       *slog.Logger
	version   string
	anyway    bool // changes are made though they can't be recorded
	strangers *rate.Limiter
	callers   *lru.Cache[*rate.Limiter]
	omitted   atomic.Int64
	left      prometheus.Counter
}

func newRecorder(log audit.Log, anyway bool) *Recorder {
	return &Recorder{Log: log, anyway: anyway, strangers: rate.NewLimiter(strangersRecords, strangersAtOnce),
		callers: lru.New[*rate.Limiter](1<<20, 4<<10),
		left: prometheus.NewCounter(prometheus.CounterOpts{Name: "jibe_audit_omitted_total",
			Help: "Records of refused requests that were left out of the audit log because there were too many of them."})}
}

// Host records what a person did on the host.
func (a *Recorder) Host(action, object, reason string) error {
	err := a.Record(context.Background(), audit.Record{Identity: audit.HostUser(), Issuer: auth.IssuerHost, Action: action, Object: object, Outcome: audit.Done, Reason: reason})
	if err != nil && !a.anyway {
		return fmt.Errorf("%w (--allow-unaudited would go on without it)", err)
	}
	return nil
}

// Health returns why changes are refused for want of their records, nil where they aren't.
func (a *Recorder) Health() error {
	if a.anyway {
		return nil
	}
	return a.Ready()
}

// put records with the number of records that were left out before.
func (a *Recorder) put(ctx context.Context, r audit.Record) {
	n := a.omitted.Swap(0)
	r.Omitted = int(n)
	if a.Record(ctx, r) != nil { // the log has said so
		a.omitted.Add(n)
	}
}

// Refused records a refusal, unless there are too many.
func (a *Recorder) Refused(ctx context.Context, r audit.Record) {
	l := a.strangers
	if r.Identity != "" {
		key := r.Issuer + "\x00" + r.Identity
		if known, ok := a.callers.Get(key); ok {
			l = known
		} else {
			l = rate.NewLimiter(callersRecords, callersAtOnce)
			a.callers.Add(key, l, 100)
		}
	}
	if !l.Allow() {
		a.left.Inc()
		a.omitted.Add(1)
		return
	}
	a.put(ctx, r)
}

// Open opens the audit log of a data directory, by the key that its records are chained by. It records the
// restores that are noted there, and the start.
func Open(data string, key []byte, o AuditOptions, version, started string, log *slog.Logger) (*Recorder, error) {
	at := audit.Options{Path: o.File, Head: datadir.AuditHead(data), Key: key, Patience: datadir.EndPatience, Log: log}
	switch at.Path {
	case "":
		at.Path = datadir.AuditFile(data)
	case "-":
		at.Path, at.Out = "", os.Stdout
	}
	file, err := audit.Open(at)
	if err != nil {
		return nil, err
	}

	a := newRecorder(file, o.AllowUnaudited)
	a.file, a.log, a.version = file, log, version
	if err := a.restores(data); err != nil {
		return a, err
	}
	return a, a.Host("start", "jibe "+version, started)
}

// File is the log itself.
func (a *Recorder) File() *audit.File { return a.file }

// Unaudited reports whether changes are made though they can't be recorded.
func (a *Recorder) Unaudited() bool { return a.anyway }

// Collectors are what is measured of the records.
func (a *Recorder) Collectors() []prometheus.Collector { return []prometheus.Collector{a.left} }

// Close records the end and closes the log.
func (a *Recorder) Close() error {
	err := a.Host("stop", "jibe "+a.version, "")
	a.log.Info("audit log ends", "end", a.file.End().String())
	return errors.Join(err, a.file.Close())
}

// Run tells, until ctx ends, where the audit log stands and what was left out of it.
func (a *Recorder) Run(ctx context.Context) error {
	anchor, omitted := time.NewTicker(anchorEvery), time.NewTicker(omittedEvery)
	defer anchor.Stop()
	defer omitted.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-anchor.C:
			a.log.InfoContext(ctx, "audit log goes on", "end", a.file.End().String())
		case <-omitted.C:
			if a.omitted.Load() > 0 {
				a.put(ctx, audit.Record{Issuer: auth.IssuerHost, Action: "audit", Outcome: audit.Done, Reason: "records of refused requests were left out"})
			}
		}
	}
}

// IdentitiesChanged records that the host has changed who is let in.
func (a *Recorder) IdentitiesChanged(err error) {
	r := audit.Record{Issuer: auth.IssuerHost, Action: "reload", Object: "tokens.yaml", Outcome: audit.Done}
	if err != nil {
		r.Outcome, r.Reason = audit.Failed, "it can't be used: the log of the process says why"
	}
	if err := a.Record(context.Background(), r); err != nil {
		a.log.Error("change of the token file not recorded", "error", err)
	}
}
