package prometheus

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// dashboard is what the tests read of the JSON that is shipped.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
	Annotations   struct{ List []query }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Targets                  []query
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
}

type query struct {
	Expr    string
	Instant bool
}

type variable struct {
	Name, Type string
	Query      any
}

// dashboards are those that the chart ships.
func dashboards(t testing.TB) (list []dashboard) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(process.Root(), "charts", "jibe", "dashboards", "jibe-*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.UID != strings.TrimSuffix(filepath.Base(file), ".json") {
			t.Errorf("%s has the uid %s", file, d.UID)
		}
		list = append(list, d)
	}
	if len(list) < 6 {
		t.Fatalf("there are %d dashboards", len(list))
	}
	return list
}

// chosen is an expression as Grafana sends it: with its variables. Where a healthy Jibe
// shows a zero that no series has, it is taken out: the series itself must be there.
func chosen(expr, instance string) string {
	expr = strings.ReplaceAll(expr, " or vector(0)", "")
	return strings.NewReplacer("$__rate_interval", "5s", "$__range", "10m", "$job", ".*", "$vim", ".*", "$instance", instance).Replace(expr)
}

// answered returns an error unless Prometheus answers the expression with numbers: now, or for
// one that is drawn over time, at any moment of the run.
func (p *prometheus) answered(t *testing.T, instant bool, expr string) error {
	ask := p.sofar
	if instant {
		ask = p.now
	}
	list, err := ask(t.Context(), expr)
	if err != nil {
		return kit.Final(fmt.Errorf("%s: %w", expr, err))
	}
	for _, s := range list {
		if s.numbers() > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: it has no answer", expr)
}

// everyPanelAnswers asks each query of each panel, and of each variable.
func (p *prometheus) everyPanelAnswers(t *testing.T, instances []string) (queries int) {
	t.Helper()
	for _, d := range dashboards(t) {
		for _, a := range d.Annotations.List {
			// An annotation is empty where nothing was started.
			if _, err := p.sofar(t.Context(), chosen(a.Expr, "")); err != nil {
				t.Errorf("%s: annotation %s: %v", d.Title, a.Expr, err)
			}
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				p.variableHasValues(t, d, v)
			}
		}
		for _, x := range d.Panels {
			for _, q := range x.Targets {
				queries++
				if err := p.anyAnswered(t, q, instances); err != nil {
					t.Errorf("%s: %s: %v", d.Title, x.Title, err)
				}
			}
		}
	}
	return queries
}

// answerWait bounds the wait for an answer: where a scrape took too long, there is none for a moment.
const answerWait = time.Minute

// anyAnswered asks a query until it is answered for one of the instances: what is drawn of an
// instance is there while something is out of the ordinary with it, and no instance has all.
func (p *prometheus) anyAnswered(t *testing.T, q query, instances []string) error {
	return kit.Poll(t.Context(), answerWait, func() error {
		if !strings.Contains(q.Expr, "$instance") {
			return p.answered(t, q.Instant, chosen(q.Expr, ""))
		}
		var all []error
		for _, id := range instances {
			err := p.answered(t, q.Instant, chosen(q.Expr, id))
			if err == nil {
				return nil
			}
			all = append(all, err)
		}
		return errors.Join(all...)
	})
}

// variableHasValues fails the test where a choice at the head of a dashboard would be empty.
func (p *prometheus) variableHasValues(t *testing.T, d dashboard, v variable) {
	t.Helper()
	m, _ := v.Query.(map[string]any)
	text, _ := m["query"].(string)
	inner, ok := strings.CutPrefix(text, "label_values(")
	selector, label, cut := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
	if i := strings.LastIndex(inner, ", "); i >= 0 {
		selector, label = inner[:i], strings.TrimSuffix(inner[i+2:], ")")
	}
	if !ok || !cut {
		t.Errorf("%s: the variable %s isn't label_values(…, …): %s", d.Title, v.Name, text)
		return
	}
	err := kit.Poll(t.Context(), answerWait, func() error {
		list, err := p.now(t.Context(), "count by ("+label+") ("+chosen(selector, "")+")")
		if err != nil || !slices.ContainsFunc(list, func(s series) bool { return s.Metric[label] != "" }) {
			return fmt.Errorf("%s: the variable %s has no values: %v %w", d.Title, v.Name, list, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
