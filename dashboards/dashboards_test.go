package main

import (
	"os"
	"path/filepath"
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
