package prometheus

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

// hurry is by how much the times of the alerts are divided: 5 minutes are a second, a day is 24
// seconds. Ranges of rates have a lower bound, of ten seconds.
const hurry = 3600

// hurried writes the rules of the chart with their times divided by n, into a new folder.
func hurried(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	writeYAML(t, filepath.Join(dir, "jibe.yaml"), m{"groups": []m{{"name": "hurried", "rules": hurriedRules(t, n)}}})
	return dir
}

// hurriedRules are the rules of the chart with their times divided by n.
func hurriedRules(t *testing.T, n int) []shipped {
	t.Helper()
	rules := shippedRules(t, filepath.Join(process.Root(), "charts", "jibe"))
	for i := range rules {
		rules[i] = rules[i].hurried(n)
	}
	return rules
}

var (
	inRange    = regexp.MustCompile(`(\[|offset )(\d+[smhd])`)
	resolution = regexp.MustCompile(`:(\d+[smhd])\]`)
	threshold  = regexp.MustCompile(`(?m)^([<>] )(\d{2,})$`)
)

// hurried is the rule with its times divided: its own wait, what it looks back at, and a threshold
// that is a time. One that is a number of events in a range is as many in the shorter range.
func (r shipped) hurried(n int) shipped {
	expr := r.Expr
	of := func(d time.Duration) time.Duration {
		return max(time.Second, (d / time.Duration(n)).Truncate(time.Second))
	}
	over := func(d time.Duration) time.Duration { return max(10*time.Second, of(d)) }
	if r.For != "" {
		r.For = prom(of(span(r.For)))
	}
	r.Expr = inRange.ReplaceAllStringFunc(r.Expr, func(s string) string {
		x := inRange.FindStringSubmatch(s)
		return x[1] + prom(over(span(x[2])))
	})
	r.Expr = resolution.ReplaceAllStringFunc(r.Expr, func(s string) string {
		return ":" + prom(of(span(resolution.FindStringSubmatch(s)[1]))) + "]"
	})
	r.Expr = threshold.ReplaceAllStringFunc(r.Expr, func(s string) string {
		x := threshold.FindStringSubmatch(s)
		number, _ := strconv.Atoi(x[2]) // it is digits
		if strings.Contains(expr, "increase(") {
			d := span(inRange.FindStringSubmatch(expr)[2])
			return x[1] + strconv.Itoa(max(1, number*int(over(d)/time.Second)/int(d/time.Second)))
		}
		return x[1] + strconv.Itoa(int(of(time.Duration(number)*time.Second)/time.Second))
	})
	return r
}

// span reads a time of PromQL in one unit.
func span(text string) time.Duration {
	last := len(text) - 1
	n, _ := strconv.Atoi(text[:last]) // it is digits
	return time.Duration(n) * map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[text[last]]
}

// prom writes a time as PromQL has it.
func prom(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }

func TestAHurriedRuleDividesEachTimeAndNothingElse(t *testing.T) {
	t.Parallel()
	for was, want := range map[string]string{
		"increase(a[1h]) > 0 or (a > 0 unless a offset 1h)\n> 0":                 "increase(a[10s]) > 0 or (a > 0 unless a offset 10s)\n> 0",
		"max_over_time(min_over_time(a[1d:30s])[2m:1m])\n== 0":                   "max_over_time(min_over_time(a[24s:1s])[10s:1s])\n== 0",
		"time() - min(a_timestamp_seconds{b=\"300s\"})\n> 86400":                 "time() - min(a_timestamp_seconds{b=\"300s\"})\n> 24",
		"max(increase(a_total[1h]))\n> 1000":                                     "max(increase(a_total[10s]))\n> 2",
		"min(a_certificate_expiry_timestamp_seconds) - time()\n< 14 * 24 * 3600": "min(a_certificate_expiry_timestamp_seconds) - time()\n< 14 * 24 * 3600",
	} {
		got := shipped{Expr: was, For: "10m"}.hurried(hurry)
		if got.Expr != want || got.For != "1s" {
			t.Errorf("%s became %s for %s, want %s", was, got.Expr, got.For, want)
		}
	}
}
