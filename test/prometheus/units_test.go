package prometheus

import (
	"regexp"
	"slices"
	"testing"
)

// units says which units fit an expression: the first row whose pattern matches decides. An
// expression that no row knows fails the test: whoever writes a new kind says its unit here.
// The names are Grafana's: s seconds, bytes, percentunit a ratio from 0 to 1, short a
// number, ops, cps and reqps a number in each second.
var units = []struct {
	pattern string
	fit     []string
}{
	// A ratio: something summed, divided by something summed.
	{`^sum(?: by \([a-z, ]+\))? ?\((?:rate|increase)\(.*\)\)? / \(?sum`, []string{"percentunit"}},
	{`^max\(max by \(job\) \(jibe_redis_memory_bytes\S*\) / `, []string{"percentunit"}},
	// A time between two moments.
	{`time\(\) - .*_timestamp_seconds|time\(\) - .*process_start_time_seconds|_timestamp_seconds.* - time\(\)`, []string{"s"}},
	// How many series there are, or how many of something: whatever the metric is in.
	{`^(?:sort\(|sort_desc\()?count(?: by \([a-z, ]+\))? ?\(`, []string{"short"}},
	// Quantiles are in the unit of what the buckets count.
	{`histogram_quantile\(.*_seconds_bucket`, []string{"s"}},
	{`histogram_quantile\(.*jibe_plan_steps_bucket`, []string{"short"}},
	// Processors that are busy: seconds in each second.
	{`rate\(process_cpu_seconds_total`, []string{"short"}},
	// How many in each second.
	{`rate\(jibe_(?:http_request_duration_seconds_count|vim_request_duration_seconds_count|login_failures_total)`, []string{"reqps"}},
	{`rate\(jibe_(?:git_conflicts|admission_rejections|drift_repairs|vim_errors|vim_watch_restarts)_total`, []string{"cps"}},
	{`rate\(`, []string{"ops"}},
	// How many in the time shown.
	{`increase\(`, []string{"short"}},
	{`_bytes\b`, []string{"bytes"}},
	{`_lag_seconds\b`, []string{"s"}},
	// A moment is never shown as it is, nor is anything else in seconds.
	{`_seconds\b`, nil},
	// What is left are gauges that count.
	{`\b(?:jibe_[a-z_]+|go_goroutines|process_open_fds)\b`, []string{"short"}},
}

// misfit says why a unit doesn't fit an expression, "" where it does.
func misfit(unit, expr string) string {
	for _, row := range units {
		if regexp.MustCompile(row.pattern).MatchString(expr) {
			if !slices.Contains(row.fit, unit) {
				return "the unit is " + unit + ", and not one of [" + join(row.fit) + "], as " + row.pattern + " says"
			}
			return ""
		}
	}
	return "the table of units knows no expression like it"
}

func join(list []string) (text string) {
	for i, x := range list {
		if i > 0 {
			text += " "
		}
		text += x
	}
	return text
}

func TestTheUnitOfEachPanelFitsItsExpressions(t *testing.T) {
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				if why := misfit(p.FieldConfig.Defaults.Unit, q.Expr); why != "" {
					t.Errorf("%s: %s: %s: %s", d.Title, p.Title, q.Expr, why)
				}
			}
		}
	}
}

func TestAWrongUnitIsNoticed(t *testing.T) {
	for expr, wrong := range map[string]string{
		`histogram_quantile(0.95, sum by (le) (rate(jibe_x_duration_seconds_bucket[1m])))`: "short",
		`time() - max(jibe_backup_last_success_timestamp_seconds)`:                         "short",
		`max(jibe_backup_last_success_timestamp_seconds)`:                                  "s", // a moment
		`sum(jibe_store_size_bytes)`:                                                       "short",
		`sum(rate(jibe_a_total[1m])) / sum(rate(jibe_b_total[1m]))`:                        "short",
		`sum(jibe_instances)`:                                                              "s",
		`sum(rate(jibe_steps_total[1m]))`:                                                  "short",
		`sum(increase(jibe_steps_total[$__range]))`:                                        "ops",
	} {
		if misfit(wrong, expr) == "" {
			t.Errorf("%s is taken in the unit %s", expr, wrong)
		}
	}
}
