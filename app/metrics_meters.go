package app

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// meters measure what the rooms below tell their observers: git, store, hooks, notifications,
// rejections and VIMs. The rooms know nothing of Prometheus.
type meters struct {
	build         *prometheus.GaugeVec
	git           *prometheus.HistogramVec
	conflicts     prometheus.Counter
	held          prometheus.Histogram
	store         *prometheus.HistogramVec
	fenced        prometheus.Counter
	hooks         *prometheus.HistogramVec
	notifications *prometheus.HistogramVec
	rejections    *prometheus.CounterVec
	vims          *vimMeters
	// off has nothing counted of git, store and notifications.
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

func newMeters(version, revision string) *meters {
	m := &meters{
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
	m.build.WithLabelValues(cmp.Or(version, "unknown"), cmp.Or(revision, "unknown"), runtime.Version()).Set(1)
	return m
}

// collectors are all of them.
func (m *meters) collectors() []prometheus.Collector {
	return append(m.vims.collectors(), m.build, m.git, m.conflicts, m.held, m.store, m.fenced, m.hooks, m.notifications, m.rejections)
}

// observeGit implements [gitrepo.Options.Observe].
func (m *meters) observeGit(command string, took time.Duration, err error) {
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

// observeHeld implements [gitrepo.Options.Held].
func (m *meters) observeHeld(waited time.Duration) { m.held.Observe(waited.Seconds()) }

// observeStore is the observer of the store, whose operations are called the same in all.
func (m *meters) observeStore(operation string, took time.Duration) {
	switch {
	case m.off:
	case operation == bolt.View:
		m.view.Observe(took.Seconds())
	default:
		m.update.Observe(took.Seconds())
	}
}

// observeNotification implements [notify.Config.Observe].
func (m *meters) observeNotification(_ oplog.Event, began time.Time, taken bool) {
	if m.off {
		return
	}
	outcome := outcomeOK
	if !taken {
		outcome = outcomeError
	}
	m.notifications.WithLabelValues(outcome).Observe(time.Since(began).Seconds())
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
