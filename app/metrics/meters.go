// Package metrics measures what a process does and shows, at each scrape, how it stands. It asks the other
// rooms and changes nothing.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// Meters measure what the rooms below tell their observers: git, store, hooks, notifications,
// requests, rejections and VIMs. The rooms know nothing of Prometheus.
type Meters struct {
	registry      *prometheus.Registry
	build         *prometheus.GaugeVec
	git           *prometheus.HistogramVec
	conflicts     prometheus.Counter
	held          prometheus.Histogram
	store         *prometheus.HistogramVec
	fenced        prometheus.Counter
	hooks         *prometheus.HistogramVec
	notifications *prometheus.HistogramVec
	rejections    *prometheus.CounterVec
	requests      *prometheus.HistogramVec
	vims          *vimMeters
	// off has nothing counted of git, store, requests and notifications.
	off bool

	// view and update are of store: the hot path looks nothing up.
	view, update prometheus.Observer
}

// The outcomes of what is measured.
const (
	outcomeOK       = "ok"
	outcomeError    = "error"
	outcomeConflict = "conflict"
)

func outcomeOf(err error) string {
	if err != nil {
		return outcomeError
	}
	return outcomeOK
}

// Config says of what process the meters are.
type Config struct {
	// Version is that of Jibe, and Revision the commit that it was built of.
	Version, Revision string
	// Off has nothing measured that happens again and again: git, store, requests and notifications.
	Off bool
	// Unconfined says that hooks of packages may run and aren't confined.
	Unconfined bool
}

// New makes the meters, and the registry with what is measured from the start.
func New(c Config) *Meters {
	m := &Meters{
		registry: prometheus.NewRegistry(), off: c.Off,
		build: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "jibe_build_info", Help: "1, by the version of Jibe, the revision that it was built of, and the version of Go.",
		}, []string{"version", "revision", "goversion"}),
		git: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_git_duration_seconds",
			Help:    "Duration of fetches, commits (a batch of writes until it is durable) and pushes of the desired repository, by outcome.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 10),
		}, []string{"command", "outcome"}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "jibe_git_conflicts_total", Help: "Commits that were built anew, as the branch had moved meanwhile.",
		}),
		held: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "jibe_git_push_wait_seconds",
			Help:    "Time that writes to the desired repository waited until they might be pushed, as pushes are kept an interval apart.",
			Buckets: []float64{0, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300},
		}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_store_duration_seconds",
			Help:    "Duration of reads of the store (view), and of writes until they are durable (update).",
			Buckets: prometheus.ExponentialBuckets(0.00001, 5, 10),
		}, []string{"operation"}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "jibe_store_fenced_total",
			Help: "Writes that the store refused, as the lease that they were made under had been lost.",
		}),
		hooks: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_hook_duration_seconds",
			Help:    "Duration of runs of hooks of packages, by stage and outcome.",
			Buckets: prometheus.ExponentialBuckets(0.05, 3, 10),
		}, []string{"stage", "outcome"}),
		notifications: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_notification_delivery_duration_seconds",
			Help:    "Duration of tries to deliver a notification, by outcome.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 10),
		}, []string{"outcome"}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jibe_admission_rejections_total",
			Help: "Proposed changes that were refused, by rule and by the way that they came.",
		}, []string{"rule", "by"}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_http_request_duration_seconds",
			Help:    "Duration of API requests, by route, method and status.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 10),
		}, []string{"route", "method", "status"}),
		vims: newVIMMeters(),
	}
	m.view, m.update = m.store.WithLabelValues(bolt.View), m.store.WithLabelValues(bolt.Update)
	for _, command := range []string{"fetch", "commit", "push"} {
		m.git.WithLabelValues(command, outcomeOK) // shown before the first
	}
	for _, by := range []string{byPush, byRequest} {
		m.rejections.WithLabelValues(ruleOther, by)
	}
	m.notifications.WithLabelValues(outcomeOK)
	m.build.WithLabelValues(cmp.Or(c.Version, "unknown"), cmp.Or(c.Revision, "unknown"), runtime.Version()).Set(1)

	unconfined := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "jibe_hooks_unconfined", Help: "1 where hooks of packages may run and aren't confined (--unconfined-hooks), else 0.",
	})
	if c.Unconfined {
		unconfined.Set(1)
	}
	m.Register(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), unconfined,
		m.build, m.git, m.conflicts, m.held, m.store, m.fenced, m.hooks, m.notifications, m.rejections, m.requests)
	m.Register(m.vims.collectors()...)
	return m
}

// Register adds what another room measures.
func (m *Meters) Register(c ...prometheus.Collector) { m.registry.MustRegister(c...) }

// Handler answers scrapes.
func (m *Meters) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Request measures a request to the API that has to do with a trace.
func (m *Meters) Request(route, method string, status int, took time.Duration, of trace.Context) {
	if !m.off {
		observe(m.requests.WithLabelValues(route, method, http.StatusText(status)), took.Seconds(), of)
	}
}

// VIM measures what goes to a VIM through a transport.
func (m *Meters) VIM(vim string, next http.RoundTripper, tracer *trace.Tracer) http.RoundTripper {
	return m.vims.wrap(vim, next, tracer)
}

// VIMUp notes that a VIM is there that is asked by no requests.
func (m *Meters) VIMUp(vim string) { m.vims.vim(vim).up.Set(1) }

// Fenced counts a write that the store refused.
func (m *Meters) Fenced() { m.fenced.Inc() }

// Git implements [gitrepo.Options.Observe].
func (m *Meters) Git(command string, took time.Duration, err error) {
	if m.off {
		return
	}
	outcome := outcomeOf(err)
	if errors.Is(err, git.ErrRefMoved) || errors.Is(err, git.ErrRefLocked) {
		outcome = outcomeConflict
		m.conflicts.Inc()
	}
	m.git.WithLabelValues(command, outcome).Observe(took.Seconds())
}

// Held implements [gitrepo.Options.Held].
func (m *Meters) Held(waited time.Duration) { m.held.Observe(waited.Seconds()) }

// Store is the observer of the store, whose operations are called the same in all.
func (m *Meters) Store(operation string, took time.Duration) {
	switch {
	case m.off:
	case operation == bolt.View:
		m.view.Observe(took.Seconds())
	default:
		m.update.Observe(took.Seconds())
	}
}

// Notification implements [notify.Config.Observe].
func (m *Meters) Notification(_ oplog.Event, began time.Time, taken bool) {
	if m.off {
		return
	}
	outcome := outcomeOK
	if !taken {
		outcome = outcomeError
	}
	m.notifications.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
}

// Hooks measures the runs of hooks.
func (m *Meters) Hooks(r reconciler.HookRunner) reconciler.HookRunner {
	return meteredHooks{r, m.hooks}
}

// meteredHooks measures the runs of hooks.
type meteredHooks struct {
	reconciler.HookRunner
	duration *prometheus.HistogramVec
}

// Run implements [reconciler.HookRunner].
func (m meteredHooks) Run(ctx context.Context, c hooks.Call) (hooks.Output, error) {
	began := time.Now()
	out, err := m.HookRunner.Run(ctx, c)
	m.duration.WithLabelValues(hookStage(c.Input.Hook), outcomeOf(err)).Observe(time.Since(began).Seconds())
	return out, err
}

// hookStage is the stage of an operation that a hook belongs to: the type of the operation is in
// other metrics, and the name of a unit or an action in none.
func hookStage(name string) string {
	script, _ := plan.HookUnit(name)
	script, _ = plan.Coordination(script)
	switch {
	case script == plan.UserData:
		return "user_data"
	case hooks.Coordinates(script):
		return "coordinate"
	case strings.HasSuffix(script, "_start"):
		return "start"
	case strings.HasSuffix(script, "_end"):
		return "end"
	}
	return "other"
}
