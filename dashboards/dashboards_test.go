package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const docsFolder = "../docs"

func TestTheGeneratedFilesAreCurrent(t *testing.T) {
	files, err := Files(docs, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := current("../charts/jibe", files); err != nil {
		t.Error(err)
	}
}

func TestFilesThatNothingGeneratesAnyMoreAreNoticedAndGo(t *testing.T) {
	files, err := Files(docs, 1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := current(dir, files); err == nil || !strings.Contains(err.Error(), "rules/jibe.yaml (missing)") {
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
	for _, g := range alerts(1) {
		for _, a := range g.Alerts {
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
			if !strings.Contains(string(text), "Severity: "+a.Severity) {
				t.Errorf("the runbook of %s doesn't say that its severity is %s", a.Name, a.Severity)
			}
			if !strings.Contains(string(guide), "(../runbooks/"+a.Name+".md)") {
				t.Errorf("the guide doesn't name the runbook of %s", a.Name)
			}
			if strings.Contains(a.Description, "{{") {
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
	for _, g := range alerts(1) {
		for _, a := range g.Alerts {
			hold(a.Name, a.Value)
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
