package prometheus

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// shipped is a rule of the chart's files.
type shipped struct {
	Alert, Expr         string
	For                 string `yaml:"for,omitempty"`
	Labels, Annotations map[string]string
}

// shippedRules are the rules in the generated files below a folder.
func shippedRules(t *testing.T, dir string) (list []shipped) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "rules", "jibe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []shipped } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	return list
}

// rules are the rules that Prometheus has.
func (p *prometheus) rules(t *testing.T) (list []rule, err error) {
	var answer struct {
		Data struct{ Groups []struct{ Rules []rule } }
	}
	if err := p.get(t.Context(), "rules", &answer); err != nil {
		return nil, err
	}
	for _, g := range answer.Data.Groups {
		list = append(list, g.Rules...)
	}
	return list, nil
}

// promtool runs Prometheus' own tool; input is a file for its standard input, "" is none.
func promtool(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Program(t, "promtool", "prometheus"), args...)
	if input != "" {
		file, err := os.Open(input)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		cmd.Stdin = file
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestPromtoolTakesTheRules(t *testing.T) {
	if out, err := promtool(t, "", "check", "rules", filepath.Join(process.Root(), "charts", "jibe", "rules", "jibe.yaml")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// scenario is one of testdata/alerts.yaml: what an alert makes of some series.
type scenario struct {
	Alert string
	// Series are values, one Every so often (a minute unless given), as promtool has them.
	Series map[string]string
	Every  string
	// Quiet, Fires and Over are times from the start: the alert is silent, fires, is silent
	// again.
	Quiet, Fires, Over string
	// Labels are those of the alert beside its name and severity.
	Labels  map[string]string
	Summary string
}

// m is YAML that is written.
type m = map[string]any

func allScenarios(t *testing.T) (list []scenario) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestEachAlertFiresAndResolvesAsItsScenarioSays has promtool play each scenario with its rule
// alone, as it would evaluate all of them for days otherwise.
func TestEachAlertFiresAndResolvesAsItsScenarioSays(t *testing.T) {
	scenarios := allScenarios(t)
	rules, dir := shippedRules(t, filepath.Join(process.Root(), "charts", "jibe")), t.TempDir()
	args := []string{"test", "rules"}
	for _, s := range scenarios {
		i := slices.IndexFunc(rules, func(r shipped) bool { return r.Alert == s.Alert })
		if i < 0 {
			t.Errorf("no rule is called %s", s.Alert)
			continue
		}
		only := m{"groups": []m{{"name": "only", "rules": []shipped{rules[i]}}}}
		writeYAML(t, filepath.Join(dir, s.Alert+".rules.yaml"), only)
		args = append(args, filepath.Join(dir, s.Alert+".yaml"))
		writeYAML(t, args[len(args)-1], s.test(rules[i]))
	}
	for _, r := range rules {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.Alert == r.Alert }) {
			t.Errorf("%s has no scenario in testdata/alerts.yaml", r.Alert)
		}
	}
	if out, err := promtool(t, "", args...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// test is the scenario as promtool has it.
func (s scenario) test(r shipped) m {
	labels := m{"severity": r.Labels["severity"]}
	for k, v := range s.Labels {
		labels[k] = v
	}
	var series []m
	for name, values := range s.Series {
		series = append(series, m{"series": name, "values": values})
	}
	told := m{"summary": s.Summary, "description": r.Annotations["description"], "runbook_url": r.Annotations["runbook_url"]}
	every := cmp.Or(s.Every, "1m")
	return m{"rule_files": []string{s.Alert + ".rules.yaml"}, "evaluation_interval": every, "tests": []m{{
		"name": s.Alert, "interval": every, "input_series": series, "alert_rule_test": []m{
			{"alertname": s.Alert, "eval_time": s.Quiet, "exp_alerts": []m{}},
			{"alertname": s.Alert, "eval_time": s.Fires, "exp_alerts": []m{{"exp_labels": labels, "exp_annotations": told}}},
			{"alertname": s.Alert, "eval_time": s.Over, "exp_alerts": []m{}},
		},
	}}}
}

// notScraped are labels that are no metric's own: its name, and from where it was scraped.
var notScraped = []string{"__name__", "job", "instance"}

// scenariosAreOfWhatIsScraped holds the series of each scenario to those that Prometheus has of a Jibe
// that runs: a metric, a label or a bucket that is called otherwise makes a rule that never fires.
func (p *prometheus) scenariosAreOfWhatIsScraped(t *testing.T) {
	t.Helper()
	for _, s := range allScenarios(t) {
		for selector := range s.Series {
			name, labels := split(t, selector)
			real, err := p.now(t.Context(), "last_over_time("+name+"[1h])")
			if err != nil {
				t.Fatalf("%s: %v", s.Alert, err)
			}
			if !slices.ContainsFunc(real, func(x series) bool {
				return slices.Equal(names(labels), names(x.Metric)) && labels["le"] == x.Metric["le"]
			}) {
				t.Errorf("%s: no series like %s is scraped: %s", s.Alert, selector, like(real))
			}
		}
	}
}

// split is the name and the labels of a series as promtool has them.
func split(t *testing.T, selector string) (name string, labels map[string]string) {
	t.Helper()
	name, rest, ok := strings.Cut(strings.TrimSuffix(selector, "}"), "{")
	labels = map[string]string{}
	for pair := range strings.SplitSeq(rest, ", ") {
		key, value, cut := strings.Cut(pair, "=")
		text, err := strconv.Unquote(value)
		if ok = ok && cut && err == nil; !ok {
			t.Fatalf("%s isn't name{label=\"value\", …}", selector)
		}
		labels[key] = text
	}
	return name, labels
}

// names are those of the labels that a metric has of its own.
func names(labels map[string]string) []string {
	list := slices.Sorted(maps.Keys(labels))
	return slices.DeleteFunc(list, func(l string) bool { return slices.Contains(notScraped, l) })
}

// like is what there is in place of a series that there isn't.
func like(list []series) string {
	seen := map[string]bool{}
	for _, x := range list {
		seen[fmt.Sprint(names(x.Metric), " le=", x.Metric["le"])] = true
	}
	if len(seen) == 0 {
		return "the metric isn't there"
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(seen)), "; ")
}

// TestEveryAlertIsSeenFiring fails for an alert that no run makes fire.
func TestEveryAlertIsSeenFiring(t *testing.T) {
	seen := map[string]string{}
	for where, names := range map[string][]string{"the run with failures": fireAndResolve, "the machine that wears out": fireOnAWornMachine} {
		for _, name := range names {
			if other := seen[name]; other != "" {
				t.Errorf("%s fires in %s and in %s", name, where, other)
			}
			seen[name] = where
		}
	}
	for _, r := range shippedRules(t, filepath.Join(process.Root(), "charts", "jibe")) {
		if seen[r.Alert] == "" {
			t.Errorf("no run makes %s fire: cause it in one of them", r.Alert)
		}
		delete(seen, r.Alert)
	}
	for name, where := range seen {
		t.Errorf("%s is to fire in %s, and there is no such alert", name, where)
	}
}

func writeYAML(t *testing.T, path string, content any) {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(text))
}
