package metrics

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTimeout bounds how long a scrape may read the store.
const scrapeTimeout = 10 * time.Second

// inventory counts, at each scrape, instances, problems, drift, and the operations that
// haven't ended: what alerts are made of.
type inventory struct {
	Sources
	exempt *exemptions

	instances, suspended, held *prometheus.Desc
	waiting                    *prometheus.Desc
	needing, needingSince      *prometheus.Desc
	open, contended, drifted   *prometheus.Desc
	problems, problemSince     *prometheus.Desc
	unlisted                   *prometheus.Desc
	formerVIM, atVIM           *prometheus.Desc
	healthy, writable, omitted *prometheus.Desc
}

func newInventory(s Sources) *inventory {
	return &inventory{
		Sources: s, exempt: newExemptions(s.Repo),
		instances: prometheus.NewDesc("jibe_instances", "VNF instances in the desired repository.", nil, nil),
		suspended: prometheus.NewDesc("jibe_instances_suspended", "VNF instances for which nothing is done, as suspend: true says.", nil, nil),
		waiting: prometheus.NewDesc("jibe_instances_waiting_for_window",
			"VNF instances on which an operation isn't begun yet, as a maintenance window is closed or a freeze holds, by type of operation and whether an end is in sight.", []string{"type", "end"}, nil),
		needing: prometheus.NewDesc("jibe_lcm_operations_waiting_for_instances",
			"VNF LCM operations that wait for other instances before anything of them begins, by type.", []string{"type"}, nil),
		needingSince: prometheus.NewDesc("jibe_lcm_operations_waiting_for_instances_since_timestamp_seconds",
			"When the VNF LCM operation began to wait for other instances that has waited longest, by type.", []string{"type"}, nil),
		held: prometheus.NewDesc("jibe_instance_held_since_timestamp_seconds",
			"When the operation failed for which the VNF instance is held until the next request or commit.", []string{"instance"}, nil),
		open: prometheus.NewDesc("jibe_lcm_operations_open",
			"VNF LCM operations that have not ended, by type and state; FAILED_TEMP waits for a person, unless the operation is automatic.",
			[]string{"type", "state", "automatic"}, nil),
		contended: prometheus.NewDesc("jibe_fights", "Automatic operations whose repairs somebody else undoes again and again.", nil, nil),
		drifted: prometheus.NewDesc("jibe_drift_since_timestamp_seconds",
			"When what runs began to differ from what git says, while it does.", []string{"instance", "object", "field", "by", "state"}, nil),
		problems: prometheus.NewDesc("jibe_desired_problems", "What at the head of the desired repository can't be obeyed: the lines of jibe get problems.", nil, nil),
		problemSince: prometheus.NewDesc("jibe_desired_problem_since_timestamp_seconds",
			"When a file at the head of the desired repository was first seen not to be obeyed, while it isn't.", []string{"file", "instance"}, nil),
		unlisted: prometheus.NewDesc("jibe_vim_unlisted_instances",
			"VNF instances that aren't looked after, as the VIM answers, but can't list or watch a kind of object that they have.", []string{"vim", "kind"}, nil),
		formerVIM: prometheus.NewDesc("jibe_vim_former_instances",
			"VNF instances that were instantiated at another VIM than the one that answers under the name now, by name.", []string{"vim"}, nil),
		atVIM: prometheus.NewDesc("jibe_vim_instances",
			"VNF instances of this process that are at the VIM or are to be, by name; 0 for one that none uses.", []string{"vim"}, nil),
		healthy:  prometheus.NewDesc("jibe_desired_repository_healthy", "1 while the desired repository's branch is followed, else 0.", nil, nil),
		writable: prometheus.NewDesc("jibe_data_writable", "1 while the store and the desired repository can be written, else 0: a full disk, or a Redis that is away.", nil, nil),
		omitted:  prometheus.NewDesc("jibe_series_omitted", "Series that are left out of a metric, as it has as many as it may have.", []string{"metric"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (i *inventory) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{i.instances, i.suspended, i.held, i.waiting, i.needing, i.needingSince, i.open, i.contended, i.drifted, i.problems, i.problemSince, i.unlisted, i.formerVIM, i.atVIM, i.healthy, i.writable, i.omitted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (i *inventory) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	i.collectProblems(ch)
	i.collectUnlisted(ch)
	for vim, n := range i.View.AtFormerVIMs() {
		gauge(ch, i.formerVIM, float64(n), vim)
	}
	for vim, n := range i.View.InstancesAtVIMs() {
		gauge(ch, i.atVIM, float64(n), vim)
	}
	healthy := 1.0
	if i.Repo.Health() != nil {
		healthy = 0
	}
	gauge(ch, i.healthy, healthy)
	writable := 1.0
	if i.Writable() != nil {
		writable = 0
	}
	gauge(ch, i.writable, writable)
	i.collectDrift(ch)
	i.collectWaiting(ch)
	i.collectNeeding(ch)
	i.collectExempt(ctx, ch)
	i.collectOperations(ch)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	for n, l := range labels {
		labels[n] = strings.ToValidUTF8(l, "\uFFFD") // a VIM may say anything, and one bad label spoils the scrape
	}
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (i *inventory) collectProblems(ch chan<- prometheus.Metric) {
	list := i.Problems()
	gauge(ch, i.problems, float64(len(list)))
	type series struct{ file, instance string }
	since := map[series]time.Time{} // a file may be wrong in several places
	for _, x := range list {
		if x.VIM != "" || x.Repository != "" {
			continue // its file is in effect: jibe_orphaned_objects and jibe_package_repository_up tell
		}
		s := series{x.File, x.Instance}
		if was, ok := since[s]; !ok || x.Since.Before(was) {
			since[s] = x.Since
		}
	}
	for s, at := range bounded(i, ch, "jibe_desired_problem_since_timestamp_seconds", since) {
		gauge(ch, i.problemSince, stamp(at), s.file, s.instance)
	}
}

func (i *inventory) collectUnlisted(ch chan<- prometheus.Metric) {
	type series struct{ vim, kind string }
	since, count := map[series]time.Time{}, map[series]int{}
	for _, x := range i.View.Unlisted() {
		s := series{x.VIM, x.Kind}
		if count[s]++; count[s] == 1 || x.Since.Before(since[s]) {
			since[s] = x.Since
		}
	}

	for s := range bounded(i, ch, "jibe_vim_unlisted_instances", since) {
		gauge(ch, i.unlisted, float64(count[s]), s.vim, s.kind)
	}
}

func (i *inventory) collectDrift(ch chan<- prometheus.Metric) {
	type series struct{ instance, object, field, by, state string }
	since := map[series]time.Time{} // two deviations may have the same labels
	for _, d := range i.View.Drift() {
		for _, v := range d.Deviations {
			s := series{d.Instance, v.Object, v.Field, v.By, string(d.State)}
			at := cmp.Or(v.At, d.Since)
			if was, ok := since[s]; !ok || at.Before(was) {
				since[s] = at
			}
		}
	}
	for s, at := range bounded(i, ch, "jibe_drift_since_timestamp_seconds", since) {
		gauge(ch, i.drifted, stamp(at), s.instance, s.object, s.field, s.by, s.state)
	}
}

func (i *inventory) collectWaiting(ch chan<- prometheus.Metric) {
	type series struct{ operation, end string }
	n := map[series]int{}
	for _, x := range i.View.Waiting() {
		n[series{string(x.Type), strconv.FormatBool(!x.Until.IsZero())}]++
	}
	for s, count := range n {
		gauge(ch, i.waiting, float64(count), s.operation, s.end)
	}
}

func (i *inventory) collectNeeding(ch chan<- prometheus.Metric) {
	n, since := map[string]int{}, map[string]time.Time{}
	for _, x := range i.View.WaitingForInstances() {
		t := string(x.Type)
		if n[t]++; n[t] == 1 || x.Since.Before(since[t]) {
			since[t] = x.Since
		}
	}
	for t, count := range n {
		gauge(ch, i.needing, float64(count), t)
		gauge(ch, i.needingSince, stamp(since[t]), t)
	}
}

func (i *inventory) collectExempt(ctx context.Context, ch chan<- prometheus.Metric) {
	x := i.exempt.read()
	gauge(ch, i.instances, float64(x.instances))
	gauge(ch, i.suspended, float64(x.suspended))
	gauge(ch, i.omitted, float64(max(0, len(x.held)-mostInstances)), "jibe_instance_held_since_timestamp_seconds")
	left := mostInstances
	for instance, m := range x.held {
		if left--; left < 0 {
			break
		}
		since := m.seen
		if op, err := i.Operations.Operation(ctx, m.operation); err == nil {
			since = op.StateEntered
		}
		gauge(ch, i.held, stamp(since), instance)
	}
}

// bounded returns at most as many series as a metric may have, those that began first, and says
// how many are left out.
func bounded[K comparable](i *inventory, ch chan<- prometheus.Metric, metric string, since map[K]time.Time) map[K]time.Time {
	gauge(ch, i.omitted, float64(max(0, len(since)-mostInstances)), metric)
	if len(since) <= mostInstances {
		return since
	}
	oldest := slices.SortedFunc(maps.Keys(since), func(a, b K) int { return since[a].Compare(since[b]) })
	kept := make(map[K]time.Time, mostInstances)
	for _, k := range oldest[:mostInstances] {
		kept[k] = since[k]
	}
	return kept
}

func (i *inventory) collectOperations(ch chan<- prometheus.Metric) {
	counts := i.Operations.Counts()
	for k, n := range counts.Open {
		gauge(ch, i.open, float64(n), string(k.Type), string(k.State), strconv.FormatBool(k.Automatic))
	}
	gauge(ch, i.contended, float64(counts.Contended))
}

// stamp is a moment as Prometheus has it: seconds since 1970.
func stamp(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
