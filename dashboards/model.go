package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// schema is the version of Grafana's dashboard model that is written: Grafana 11's, which
// Grafana 10 reads too.
const schema = 39

// columns is the width of Grafana's grid; its unit of height is 30 pixels.
const columns = 24

// dashboard is one page. UID is also the name of its file and part of its URL, so that
// links between dashboards hold wherever they are imported.
type dashboard struct {
	UID, Title, Description string
	Vars                    []variable
	Rows                    []row
	// Range is how far back it looks when it is opened, as "6h".
	Range string
}

// variable is a choice at the head of a dashboard.
type variable struct {
	Name, Label, Query string
	// Several lets people choose several values, or all.
	Several bool
}

// row is a heading and the panels below it, from left to right.
type row struct {
	Title  string
	Panels []panel
}

// panel is one picture or table.
type panel struct {
	Kind, Title, Description, Unit string
	Queries                        []query
	W, H                           int
	Min, Max                       *float64
	// Steps colour values: from each value on its colour; the first has no value.
	Steps []step
	// Names say what values mean: 0 is "away".
	Names map[string]string
	Stack bool
	// Columns are a table's, by the label that each shows, in order.
	Columns []column
	// Text is what a panel of text says, in Markdown.
	Text string
}

type query struct{ Expr, Legend string }

type step struct {
	Colour string
	From   *float64
}

// column is a column of a table: the label that it shows ("Value" is the value), and its
// heading.
type column struct{ Label, Heading string }

func num(f float64) *float64 { return &f }

// Colours of values that need somebody, in the order of urgency.
const (
	green  = "green"
	yellow = "yellow"
	red    = "red"
	blue   = "blue"
)

// calm is for values that are good however large they are.
func calm() []step { return []step{{blue, nil}} }

// above is green below the value and the colour from it on.
func above(value float64, colour string) []step { return []step{{green, nil}, {colour, num(value)}} }

// below is the colour below the value and green from it on.
func below(value float64, colour string) []step { return []step{{colour, nil}, {green, num(value)}} }

func stat(title, unit string, steps []step, expr, description string) panel {
	return panel{Kind: "stat", Title: title, Unit: unit, Steps: steps, Description: description, Queries: []query{{expr, ""}}, W: 4, H: 4}
}

func graph(title, unit, description string, queries ...query) panel {
	return panel{Kind: "timeseries", Title: title, Unit: unit, Description: description, Queries: queries, W: 12, H: 8, Min: num(0)}
}

func bars(title, unit, description string, q query) panel {
	return panel{Kind: "bargauge", Title: title, Unit: unit, Description: description, Queries: []query{q}, W: 12, H: 8, Min: num(0), Steps: calm()}
}

func gauge(title, unit string, lowest, highest float64, steps []step, expr, description string) panel {
	return panel{Kind: "gauge", Title: title, Unit: unit, Steps: steps, Description: description, Queries: []query{{expr, ""}}, W: 4, H: 4, Min: num(lowest), Max: num(highest)}
}

func table(title, unit, description, expr string, columns ...column) panel {
	return panel{Kind: "table", Title: title, Unit: unit, Description: description, Queries: []query{{expr, ""}}, W: 12, H: 8, Columns: columns}
}

func (p panel) wide(w int) panel                    { p.W = w; return p }
func (p panel) high(h int) panel                    { p.H = h; return p }
func (p panel) named(names map[string]string) panel { p.Names = names; return p }
func (p panel) stacked() panel                      { p.Stack = true; return p }

// quantiles are the median and the 95th percentile of a histogram, by a label.
func quantiles(metric, by string) []query {
	of := func(q string) string {
		return fmt.Sprintf("histogram_quantile(%s, sum by (le, %s) (rate(%s[$__rate_interval])))", q, by, metric)
	}
	return []query{{of("0.5"), "{{" + by + "}} median"}, {of("0.95"), "{{" + by + "}} 95%"}}
}

// grown is by how much counters have grown in a time, as far as they have. increase alone
// knows nothing of a series that began in that time: the first failure of a kind would be
// none.
func grown(selector, in string) string {
	return fmt.Sprintf("increase(%[1]s[%[2]s]) > 0 or (%[1]s > 0 unless %[1]s offset %[2]s)", selector, in)
}

// metric finds the metrics of an expression. Jibe's process also has those of Go and of
// the operating system.
var metric = regexp.MustCompile(`\b(?:jibe|go|process|up)(?:_[a-z_]+)?\b(\{)?`)

// chosen narrows each metric of a dashboard's expression to the installations (jobs)
// that are chosen at its head.
func chosen(expr string) string {
	return metric.ReplaceAllStringFunc(expr, func(m string) string {
		if n := len(m) - 1; m[n] == '{' {
			return m[:n] + `{job=~"$job", `
		}
		return m + `{job=~"$job"}`
	})
}

// object is JSON whose keys are sorted when it is written.
type object = map[string]any

var source = object{"type": "prometheus", "uid": "${datasource}"}

// json is the dashboard as Grafana imports it.
func (d dashboard) json() ([]byte, error) {
	panels, err := d.panels()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(object{
		"uid": d.UID, "title": d.Title, "description": d.Description, "tags": []string{"jibe"},
		"schemaVersion": schema, "version": 1, "editable": true, "graphTooltip": 1, "timezone": "", "refresh": "30s",
		"time":       object{"from": "now-" + d.Range, "to": "now"},
		"templating": object{"list": d.variables()},
		"links": []object{{
			"title": "Jibe", "type": "dashboards", "tags": []string{"jibe"}, "asDropdown": true, "includeVars": true, "keepTime": true,
			"icon": "external link", "targetBlank": false, "tooltip": "", "url": "",
		}},
		"annotations": object{"list": []object{{
			"name": "Jibe starts", "datasource": source, "enable": true, "iconColor": blue,
			"expr": chosen("changes(process_start_time_seconds[1m]) > 0 and on (job, instance) jibe_data_writable"), "titleFormat": "Jibe was started",
		}}},
		"panels": panels,
	})
	return b.Bytes(), err
}

func (d dashboard) variables() []object {
	list := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{}, "hide": 0}}
	for _, v := range append([]variable{{"job", "Jibe", "label_values(jibe_data_writable, job)", true}}, d.Vars...) {
		x := object{
			"name": v.Name, "label": v.Label, "type": "query", "datasource": source, "definition": v.Query,
			"query": object{"query": v.Query, "refId": v.Name}, "refresh": 2, "sort": 1, "multi": v.Several, "includeAll": v.Several, "hide": 0, "current": object{},
		}
		if v.Several {
			x["allValue"] = ".*"
			x["current"] = object{"text": []string{"All"}, "value": []string{"$__all"}}
		}
		list = append(list, x)
	}
	return list
}

// panels lays the rows out. A row of panels that isn't as wide as the grid is an error:
// a hole is a slip.
func (d dashboard) panels() ([]object, error) {
	var list []object
	id, y := 0, 0
	for _, r := range d.Rows {
		id++
		list = append(list, object{"id": id, "type": "row", "title": r.Title, "collapsed": false, "panels": []object{}, "gridPos": object{"x": 0, "y": y, "w": columns, "h": 1}})
		y++
		x, high := 0, 0
		for _, p := range r.Panels {
			if x == columns {
				x, y, high = 0, y+high, 0
			}
			if x+p.W > columns || high != 0 && high != p.H {
				return nil, fmt.Errorf("panel %q doesn't fit beside those before it", p.Title)
			}
			id++
			list = append(list, p.json(id, object{"x": x, "y": y, "w": p.W, "h": p.H}))
			x, high = x+p.W, p.H
		}
		if x != columns {
			return nil, fmt.Errorf("row %q is %d wide in its last line, and not %d", r.Title, x, columns)
		}
		y += high
	}
	return list, nil
}

func (p panel) json(id int, at object) object {
	o := object{"id": id, "type": p.Kind, "title": p.Title, "description": p.Description, "gridPos": at}
	if p.Kind == "text" {
		o["options"] = object{"mode": "markdown", "content": p.Text}
		return o
	}
	defaults := object{"unit": p.Unit, "custom": object{}, "mappings": []object{}, "color": object{"mode": "palette-classic"}}
	if p.Unit == "short" && strings.Contains(p.Queries[0].Expr, "increase(") {
		defaults["decimals"] = 0 // Prometheus reckons beyond the samples, and half an operation is none
	}
	if p.Min != nil {
		defaults["min"] = *p.Min
	}
	if p.Max != nil {
		defaults["max"] = *p.Max
	}
	if p.Steps != nil {
		steps := []object{}
		for _, s := range p.Steps {
			steps = append(steps, object{"color": s.Colour, "value": s.From})
		}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
		defaults["color"] = object{"mode": "thresholds"}
	}
	if p.Names != nil {
		options := object{}
		for value, name := range p.Names {
			options[value] = object{"text": name}
		}
		defaults["mappings"] = []object{{"type": "value", "options": options}}
	}
	o["datasource"], o["targets"] = source, p.targets()
	o["fieldConfig"] = object{"defaults": defaults, "overrides": []object{}}
	p.options(o, defaults)
	return o
}

func (p panel) targets() []object {
	var list []object
	for i, q := range p.Queries {
		t := object{"refId": string(rune('A' + i)), "expr": chosen(q.Expr), "legendFormat": q.Legend, "datasource": source, "editorMode": "code"}
		switch p.Kind {
		case "timeseries":
			t["range"], t["exemplar"] = true, true
		case "table":
			t["instant"], t["format"] = true, "table"
		default:
			t["instant"] = true
		}
		list = append(list, t)
	}
	return list
}

// options fills in what the kind of panel has of its own.
func (p panel) options(o, defaults object) {
	last := object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	switch p.Kind {
	case "stat":
		o["options"] = object{"reduceOptions": last, "colorMode": "value", "graphMode": "none", "textMode": "auto", "justifyMode": "auto", "orientation": "auto"}
	case "gauge":
		o["options"] = object{"reduceOptions": last, "showThresholdLabels": false, "showThresholdMarkers": true}
	case "bargauge":
		o["options"] = object{"reduceOptions": last, "displayMode": "basic", "orientation": "horizontal", "showUnfilled": true}
	case "timeseries":
		custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false, "stacking": object{"mode": "none", "group": "A"}}
		if p.Stack {
			custom["stacking"], custom["fillOpacity"] = object{"mode": "normal", "group": "A"}, 40
		}
		defaults["custom"] = custom
		o["options"] = object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	case "table":
		o["options"] = object{"showHeader": true, "cellHeight": "sm", "footer": object{"show": false}}
		order, rename := object{}, object{}
		hide := object{"Time": true, "__name__": true}
		for i, c := range p.Columns {
			order[c.Label], rename[c.Label] = i, c.Heading
		}
		for _, label := range []string{"job", "instance", "Value", "namespace", "pod", "service", "endpoint", "container"} {
			if _, shown := rename[label]; !shown {
				hide[label] = true
			}
		}
		o["transformations"] = []object{{"id": "organize", "options": object{"excludeByName": hide, "indexByName": order, "renameByName": rename}}}
	}
}
