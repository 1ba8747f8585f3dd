package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const docsFolder = "../docs"

// group is a group of alerts, as the chart has them.
type group struct {
	Name  string
	Rules []struct {
		Name   string `yaml:"alert"`
		Expr   string
		For    string
		Labels struct{ Severity string }

		Annotations struct {
			Summary, Description string
			Runbook              string `yaml:"runbook_url"`
		}
	}
}

// groups are the alerts in the file that the chart ships, in which nothing is misspelt.
func groups(t *testing.T) []group {
	t.Helper()
	text, err := os.ReadFile("../charts/jibe/rules/jibe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []group }
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) == 0 {
		t.Fatal("there are no alerts")
	}
	return file.Groups
}

func TestEachAlertIsWrittenAsToolsAndTestsReadIt(t *testing.T) {
	for _, g := range groups(t) {
		for _, a := range g.Rules {
			if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels.Severity) {
				t.Errorf("%s has the severity %q", a.Name, a.Labels.Severity)
			}
			if want := "https://github.com/jibe-vnfm/jibe/blob/main/docs/runbooks/" + a.Name + ".md"; a.Annotations.Runbook != want {
				t.Errorf("%s names the runbook %s, not %s", a.Name, a.Annotations.Runbook, want)
			}
			if a.Annotations.Summary == "" || a.Annotations.Description == "" {
				t.Errorf("%s lacks a summary or a description", a.Name)
			}
			if !twoLines.MatchString(a.Expr) {
				t.Errorf("%s: a value and, on a line of its own, its threshold are expected: %s", a.Name, a.Expr)
			}
		}
	}
}

// twoLines matches what an alert looks at, and when that is too much.
var twoLines = regexp.MustCompile(`^[^\n]+\n(?:>|<|==) [0-9.]+(?: \* [0-9]+)*$`)

func TestTheGeneratedFilesAreCurrent(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	if err := current("../charts/jibe", files); err != nil {
		t.Error(err)
	}
}

func TestFilesThatNothingGeneratesAnyMoreAreNoticedAndGo(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := current(dir, files); err == nil || !strings.Contains(err.Error(), "dashboards/jibe-fleet.json (missing)") {
		t.Errorf("an empty folder is current: %v", err)
	}
	if err := write(dir, files); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "dashboards", "jibe-former.json")
	if err := os.WriteFile(old, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := current(dir, files); err == nil || !strings.Contains(err.Error(), "jibe-former.json (nothing generates it)") {
		t.Errorf("a file that nothing generates is current: %v", err)
	}
	if err := write(dir, files); err != nil {
		t.Fatal(err)
	}
	if err := current(dir, files); err != nil {
		t.Error(err)
	}
}

func TestEachAlertHasARunbookThatTellsAllAndTheGuideNamesIt(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(docsFolder, "guide", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range groups(t) {
		for _, a := range g.Rules {
			names = append(names, a.Name)
			text, err := os.ReadFile(filepath.Join(docsFolder, "runbooks", a.Name+".md"))
			if err != nil {
				t.Errorf("%s has no runbook: %v", a.Name, err)
				continue
			}
			for _, heading := range []string{"# " + a.Name + "\n", "## What it means\n", "## Who is hurt\n", "## How to look\n", "## What to do\n", "## How to silence it\n"} {
				if !strings.Contains(string(text), heading) {
					t.Errorf("the runbook of %s has no heading %q", a.Name, heading)
				}
			}
			if !strings.Contains(string(text), "Severity: "+a.Labels.Severity) {
				t.Errorf("the runbook of %s doesn't say that its severity is %s", a.Name, a.Labels.Severity)
			}
			if !strings.Contains(string(guide), "(../runbooks/"+a.Name+".md)") {
				t.Errorf("the guide doesn't name the runbook of %s", a.Name)
			}
			if strings.Contains(a.Annotations.Description, "{{") {
				t.Errorf("the description of %s is a template: only summaries are, whose tests hold them", a.Name)
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(docsFolder, "runbooks", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); !slices.Contains(names, name) {
			t.Errorf("%s is the runbook of no alert", page)
		}
	}
}

func TestEachPanelSaysWhatItShows(t *testing.T) {
	for _, d := range all() {
		for _, r := range d.Rows {
			for _, p := range r.Panels {
				if p.Kind != "text" && (p.Description == "" || p.Unit == "" || len(p.Queries) == 0) {
					t.Errorf("%s: the panel %q lacks a description, a unit or queries", d.UID, p.Title)
				}
			}
		}
	}
}

// TestWhatEachReplicaShowsAlikeIsTakenOnce holds every expression to what the guide says of its metrics:
// a fact of the installation stands in the series of each replica.
func TestWhatEachReplicaShowsAlikeIsTakenOnce(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(docsFolder, "guide", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(jibe_\\w+)` \\|.*\\| ([a-z, ]+) \\|$").FindAllStringSubmatch(string(guide), -1) {
		of[m[1]] = m[2]
	}
	for name, replicas := range of {
		if !slices.Contains([]string{"all", "one", "all, one", "own"}, replicas) {
			t.Errorf("the guide says of %s that it is of %q replicas", name, replicas)
		}
	}
	for expr, twice := range map[string]bool{
		"sum(jibe_instances)":                                          true,
		"sum by (job) (jibe_fights)":                                   true,
		"sum(max by (job) (jibe_instances))":                           false,
		"sum(max by (job) (jibe_fights)) + sum by (job) (jibe_fights)": true,
		"sum(jibe_queue_length)":                                       false,
	} {
		if counted := countedTwice(expr, of) != ""; counted != twice {
			t.Errorf("%s counts twice: %t", expr, counted)
		}
	}
	hold := func(where, expr string) {
		if name := countedTwice(expr, of); name != "" {
			t.Errorf("%s: each replica shows %s, which must stand in a max or min: %s", where, name, expr)
		}
	}
	for _, d := range all() {
		for _, r := range d.Rows {
			for _, p := range r.Panels {
				for _, q := range p.Queries {
					hold(d.UID+": "+p.Title, q.Expr)
				}
			}
		}
	}
	for _, g := range groups(t) {
		for _, a := range g.Rules {
			hold(a.Name, a.Expr)
		}
	}
}

// once is what stands before a metric of which the highest or lowest among replicas is taken.
var once = regexp.MustCompile(`\b(?:max|min)(?: by \([a-z_, ]+\) ?)?\((?:[a-z]+_over_time\()*$`)

// countedTwice is the first metric of an expression that would count once for each replica, though all
// show the same; "" is none. The guide says of each whether they do.
func countedTwice(expr string, of map[string]string) string {
	for _, at := range regexp.MustCompile(`\bjibe_\w+`).FindAllStringIndex(expr, -1) {
		name := expr[at[0]:at[1]]
		if strings.Contains(of[name], "all") && !once.MatchString(expr[:at[0]]) {
			return name
		}
		base := strings.NewReplacer("_bucket", "", "_count", "", "_sum", "").Replace(name)
		if of[name] == "" && of[base] == "" {
			return name + " (which the guide doesn't have)"
		}
	}
	return ""
}

func TestEachMetricIsNarrowedToTheChosenInstallations(t *testing.T) {
	for expr, want := range map[string]string{
		`sum by (type) (rate(jibe_x_total{a="b"}[5m]))`: `sum by (type) (rate(jibe_x_total{job=~"$job", a="b"}[5m]))`,
		`time() - jibe_y_seconds or vector(0)`:          `time() - jibe_y_seconds{job=~"$job"} or vector(0)`,
		`up == 0 and on (job) go_goroutines`:            `up{job=~"$job"} == 0 and on (job) go_goroutines{job=~"$job"}`,
	} {
		if got := chosen(expr); got != want {
			t.Errorf("%s became %s, want %s", expr, got, want)
		}
	}
}
