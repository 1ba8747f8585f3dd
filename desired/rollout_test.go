package desired_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

const wholeRollout = `# to 1.5
select: {folders: [instances/tokyo/**, osaka/*/edge], product: amf}
to: {vnfdId: amf-2, strategy: blueGreen, drain: 30s}
order: [{instances: [instances/tokyo/lab/amf]}, {percent: 5}, {percent: 100}]
atOnce: 10%
perVIM: 5
after: {soak: 30m, approve: true}
failures: {budget: 2, then: halt}
state: paused
`

func TestARolloutIsReadAsItIsWritten(t *testing.T) {
	r, err := desired.ParseRollout("rollouts/amf-1.5.yaml", []byte(wholeRollout))
	if err != nil {
		t.Fatal(err)
	}
	want := &desired.Rollout{Name: "amf-1.5", Select: desired.RolloutSelect{Folders: []string{"tokyo", "osaka/*/edge"}, Product: "amf"},
		To:     desired.RolloutTarget{VnfdID: "amf-2", Strategy: "blueGreen", Drain: "30s"},
		Order:  []desired.RolloutWave{{Instances: []string{"instances/tokyo/lab/amf"}}, {Percent: 5}, {Percent: 100}},
		AtOnce: desired.Share{Percent: 10}, PerVIM: desired.Share{Number: 5}, After: desired.RolloutGate{Soak: 30 * time.Minute, Approve: true},
		Failures: desired.RolloutFailures{Budget: 2, Then: "halt"}, Write: "direct", State: "paused"}
	if !reflect.DeepEqual(r, want) {
		t.Fatalf("got  %+v\nwant %+v", r, want)
	}
	for dir, selected := range map[string]bool{"instances/tokyo/a/b": true, "instances/osaka/x/edge/amf": true, "instances/osaka/x/core/amf": false, "instances/tokyo2/a": false} {
		if r.Selects(dir, "amf") != selected || r.Selects(dir, "smf") {
			t.Errorf("%s: selected %v, and %v with another product", dir, r.Selects(dir, "amf"), r.Selects(dir, "smf"))
		}
	}
	text, edited, err := desired.EditRollout("rollouts/amf-1.5.yaml", []byte(wholeRollout),
		desired.KeyValue{Path: []string{"id"}, Value: "5f0c1f8e-53e4-4f6e-9f0e-0d3f6a7b8c9d"},
		desired.KeyValue{Path: []string{"to", "package"}, Value: strings.Repeat("c", 40)},
		desired.KeyValue{Path: []string{"state"}, Value: "running"})
	if err != nil {
		t.Fatal(err)
	}
	if edited.ID == "" || edited.To.Package == "" || edited.State != "running" || !strings.Contains(string(text), "# to 1.5\n") {
		t.Fatalf("edited to %+v:\n%s", edited, text)
	}
}

func TestARolloutThatCannotBeCarriedOutIsRefusedWithLineAndReason(t *testing.T) {
	const good = "select: {folders: [a]}\nto: {vnfdId: x}\n"
	for text, want := range map[string]string{
		"":                         "the rollout selects no instances",
		"select: {folders: [a]}\n": `"to.vnfdId" is missing`,
		good + "atOnce: 0\n":       "rollouts/r.yaml:3: ",
		good + "atOnce: 200%\n":    "rollouts/r.yaml:3: \"atOnce\" isn't a share",
		good + "windows: []\n":     "rollouts/r.yaml:3: \"windows\" has none",
		good + "windows: [{cron: 0 1 * * TUE, timezone: Asia/Tokio, lasts: 4h}]\n":       "\"windows[0].timezone\"",
		good + "after: {prometheus: {vim: a/b, query: x}}\n":                             "\"a/b\" can't name a VIM",
		good + "after: {prometheus: [{for: 5m}]}\n":                                      "rollouts/r.yaml:3: \"after.prometheus[0]\" has no query",
		good + "after: {prometheus: [{query: x, for: ever}]}\n":                          "\"after.prometheus[0].for\" isn't a time",
		good + "after: {soak: soon}\n":                                                   "rollouts/r.yaml:3: \"after.soak\" isn't a time",
		good + "failures: {then: undo}\n":                                                "rollouts/r.yaml:3: \"failures.then\" can't be \"undo\"",
		good + "failures: {rollbackAnytime: often}\n":                                    "rollouts/r.yaml:3: \"failures.rollbackAnytime\"",
		good + "order: [{percent: 50}]\n":                                                "rollouts/r.yaml:3: \"order\" ends at 50 percent",
		good + "order: [{percent: 50}, {percent: 10}, {percent: 100}]\n":                 "can't be 10",
		good + "order: [{percent: 5, instances: [instances/a]}, {percent: 100}]\n":       "must have one of instances and percent",
		good + "order: [{instances: [amf]}, {percent: 100}]\n":                           "can't be an instance",
		good + "order: [{instances: [instances/a]}, {instances: [instances/a]}]\n":       "stands in the order already",
		good + "write: pullrequest\n":                                                    "\"write\" can't be \"pullrequest\"",
		good + "order: []\n":                                                             "\"order\" has no waves",
		good + "state: runnning\n":                                                       "did you mean \"running\"?",
		good + "sate: running\n":                                                         "unknown key \"sate\"",
		"select: {labels: {tier: an edge}}\nto: {vnfdId: x}\n":                           "\"select.labels.tier\" can't be a label's value: \"an edge\"",
		"select: {labels: {-tier: edge}}\nto: {vnfdId: x}\n":                             "\"-tier\" can't be a label",
		"select: {labels: {tier: []}}\nto: {vnfdId: x}\n":                                "\"select.labels.tier\" has no values",
		"select: {labels: {}}\nto: {vnfdId: x}\n":                                        "the rollout selects no instances",
		"select: {folders: [a]}\nto: {version: 1.5.x}\n":                                 "\"to.version\" doesn't say of which product",
		"select: {product: a}\nto: {version: soon}\n":                                    "\"to.version\" isn't a constraint of versions",
		"select: {product: a}\nto: {version: 1.5.x, vnfdId: x}\n":                        "\"to\" has a version, and a vnfdId or package",
		"select: {folders: [a]}\nto: {params: {password: s3cr3t}}\n":                     "rollouts/r.yaml:2: \"to.params.password\"",
		"select: {folders: [a]}\nto: {params: {a: .inf}}\n":                              "isn't a number that JSON knows",
		"select: {folders: [a]}\nto: {levels: {a: -1}}\n":                                "is a scale level and can't be -1",
		"select: {folders: [a]}\nto: {update: {strategy: container}}\n":                  "\"to.update.strategy\" can't be \"container\"",
		"select: {folders: [a]}\nto: {drain: 3s, update: {drain: 2s}, vnfdId: x}\n":      "says twice how instances are updated",
		"select: {folders: [a]}\nto: {strategy: rolling}\n":                              "\"to.vnfdId\" is missing",
		"select: {folders: [a]}\nto: {vim: b}\n":                                         "unknown key \"to.vim\"",
		"select: {folders: [a]}\nto: {vnfdId: x, strategy: container}\n":                 "\"to.strategy\" can't be \"container\"",
		"select: {folders: [../a]}\nto: {vnfdId: x}\n":                                   "can't be a folder",
		"select: {folders: [a]}\nto: {vnfdId: x, drain: 30s}\norder: [{percent: 101}]\n": "can't be 101",
		"select: {folders: [a]}\nto: {vnfdId: x}\nid: me\n":                              "isn't a UUID",
	} {
		_, err := desired.ParseRollout("rollouts/r.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := desired.ParseRollout("rollouts/a/b.yaml", []byte(good)); err == nil {
		t.Error("a file in a folder below rollouts/ is taken for a rollout")
	}
}

func TestAVIMMayHaveThePrometheusThatGatesAsk(t *testing.T) {
	v, err := desired.ParseVIM("vims/edge.yaml", []byte("type: sim\nprometheus: {url: \"https://prometheus.example/edge\", token: \"env:TOKEN\", caCert: \"file:/ca\"}\n"))
	if err != nil || v.Prometheus != (desired.Prometheus{URL: "https://prometheus.example/edge", Token: "env:TOKEN", CACert: "file:/ca"}) {
		t.Fatalf("%+v, %v", v, err)
	}
	ro, err := desired.ParseRollout("rollouts/r.yaml", []byte("select: {folders: [a]}\nto: {levels: {web: 1}}\nafter: {prometheus: [{vim: edge, query: up, for: 10m}, {query: up}]}\n"))
	if err != nil || len(ro.After.Prometheus) != 2 || ro.After.Prometheus[0] != (desired.RolloutQuery{VIM: "edge", Query: "up", For: 10 * time.Minute}) {
		t.Fatalf("%+v, %v", ro, err)
	}
	for _, c := range []struct {
		vims map[string]*desired.VIM
		want string
	}{{map[string]*desired.VIM{"edge": v}, ""}, {map[string]*desired.VIM{"edge": {}}, "vims/edge.yaml has no Prometheus"}, {nil, `there is no VIM "edge"`}} {
		got, remedy := ro.After.Prometheus[0].Unasked(&desired.Settings{VIMs: c.vims})
		if got != c.want || (remedy == "") != (c.want == "") {
			t.Errorf("%+v: %q (%s), want %q", c.vims, got, remedy, c.want)
		}
	}
}

func TestALedgerIsReadAsItWasWritten(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123000000, time.UTC)
	l := &desired.Ledger{Rollout: "amf", Started: at, Target: "12345678", Wave: 2, Soak: at, Forgiven: 1, Attempts: map[string][]desired.Attempt{
		"1": {{Retried: true, Target: "00000000", Prior: "p", Tree: "t", Began: at, Outcome: "failed", Ended: at, Reason: "no: \"pods\" {}\n# x"}, {Target: "1e5", Wave: 1, Prior: "p", Tree: "t", Began: at}},
		"b": {{Edited: true, Target: "12345678", Began: at, Outcome: "unknown", Ended: at}, {Back: true, Target: "12345678", Prior: "t", Tree: "p", Began: at}},
	}, Approved: &desired.Approval{Gate: "77", By: "bob: x", At: at}, Halted: &desired.Halt{At: at, Reason: "- two", Unknown: true, Closed: true}, Ended: &desired.RolloutEnd{At: at, As: "completed"},
		Proposals: 3, Unmerged: at, Proposal: &desired.RolloutProposal{Branch: "jibe/rollout/x/3-3", Commit: "c", Target: "12345678", Wave: 2, At: at, Number: 7, Link: "https://forge/7", Part: at,
			Withdrawn: "main: moved", Instances: map[string]desired.ProposedTrees{"a": {Prior: "p", Tree: "t"}, "1e5": {Prior: "q", Tree: "u"}}}}
	back, err := desired.ParseLedger("rollouts/.state/x.yaml", l.Encode())
	if err != nil {
		t.Fatalf("%v\n%s", err, l.Encode())
	}
	if !reflect.DeepEqual(l, back) {
		t.Fatalf("got  %+v\nwant %+v", back, l)
	}
	if _, err := desired.ParseLedger("rollouts/.state/x.yaml", append(l.Encode(), "more: 1\n"...)); err == nil || !strings.Contains(err.Error(), "rollouts/.state/x.yaml:") {
		t.Fatalf("a ledger with a key too many is read: %v", err)
	}
}

func TestARolloutSelectsByMetadataAndBringsAnyOfTheKeysThatItNames(t *testing.T) {
	r, err := desired.ParseRollout("rollouts/r.yaml", []byte(`select: {labels: {tier: edge, region: [tokyo, osaka], n: "3"}}
to: {levels: {front: 2}, params: {mode: {a: [1, 2]}}, update: {drain: 30s, vdus: [front]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for text, selected := range map[string]bool{"{tier: edge, region: osaka, n: 3, more: x}": true, "{tier: edge, region: kyoto, n: 3}": false, "{tier: edge, region: tokyo}": false, "{}": false} {
		in, err := desired.ParseInstance("instances/a/vnf.yaml", []byte("vnfdId: x\nmetadata: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Select.Labelled(in.Metadata) != selected {
			t.Errorf("%s: selected %v", text, !selected)
		}
	}
	before := "# kept\nvnfdId: x\nlevels: {front: 1, back: 4}\nparams: {other: 1}\n"
	after, in, err := desired.EditInstance("instances/a/vnf.yaml", []byte(before), r.To.Edits()...)
	if err != nil {
		t.Fatal(err)
	}
	if !r.To.Reached(in) || in.Levels["back"] != 4 || in.Params["other"] == nil || in.VnfdID != "x" || !strings.HasPrefix(string(after), "# kept\n") {
		t.Errorf("it is reached: %v, by:\n%s", r.To.Reached(in), after)
	}
	for _, other := range []string{strings.Replace(string(after), "front: 2", "front: 3", 1), strings.Replace(string(after), "30s", "31s", 1), before} {
		if in, err := desired.ParseInstance("instances/a/vnf.yaml", []byte(other)); err != nil || r.To.Reached(in) {
			t.Errorf("it is reached by (%v):\n%s", err, other)
		}
	}
	meets := func(a, b string) bool {
		of := func(labels string) *desired.Rollout {
			r, err := desired.ParseRollout("rollouts/r.yaml", []byte("select: {labels: "+labels+"}\nto: {vnfdId: x}\n"))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		return of(a).Meets(of(b))
	}
	if meets("{tier: [edge, lab]}", "{tier: core}") || !meets("{tier: [edge, lab]}", "{tier: [core, lab]}") || !meets("{tier: edge}", "{region: tokyo}") {
		t.Error("whether two rollouts can select the same instance isn't told by their labels")
	}
}

func TestARolloutSelectsByTheOperatorsOfALabelSelector(t *testing.T) {
	of := func(labels string) *desired.Rollout {
		t.Helper()
		r, err := desired.ParseRollout("rollouts/r.yaml", []byte("select: {labels: "+labels+"}\nto: {vnfdId: x}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const tokyo, bare, odd = "{tier: edge, region: tokyo}", "{tier: edge}", "{tier: core, region: 3}"
	for labels, want := range map[string][3]bool{
		"{matchExpressions: [{key: region, operator: In, values: [tokyo, osaka]}]}":                       {true, false, false},
		"{matchExpressions: [{key: region, operator: NotIn, values: [tokyo]}]}":                           {false, true, true},
		"{matchExpressions: [{key: region, operator: Exists}]}":                                           {true, false, true},
		"{matchExpressions: [{key: region, operator: DoesNotExist}]}":                                     {false, true, false},
		"{tier: edge, matchExpressions: [{key: region, operator: NotIn, values: [\"3\"]}]}":               {true, true, false},
		"{matchLabels: {tier: [edge, core]}, matchExpressions: [{key: region, operator: Exists}]}":        {true, false, true},
		"{matchExpressions: [{key: region, operator: Exists}, {key: tier, operator: In, values: [lab]}]}": {false, false, false},
	} {
		r := of(labels)
		for n, metadata := range []string{tokyo, bare, odd} {
			in, err := desired.ParseInstance("instances/a/vnf.yaml", []byte("vnfdId: x\nmetadata: "+metadata+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Select.Labelled(in.Metadata); got != want[n] {
				t.Errorf("%s selects %s: %v", labels, metadata, got)
			}
		}
	}
	for pair, want := range map[[2]string]bool{
		{"{r: [a, b]}", "{matchExpressions: [{key: r, operator: NotIn, values: [a, b, c]}]}"}:                                            false,
		{"{r: [a, b]}", "{matchExpressions: [{key: r, operator: NotIn, values: [a]}]}"}:                                                  true,
		{"{r: a}", "{matchExpressions: [{key: r, operator: DoesNotExist}]}"}:                                                             false,
		{"{matchExpressions: [{key: r, operator: Exists}]}", "{matchExpressions: [{key: r, operator: DoesNotExist}]}"}:                   false,
		{"{matchExpressions: [{key: r, operator: NotIn, values: [a]}]}", "{matchExpressions: [{key: r, operator: DoesNotExist}]}"}:       true,
		{"{matchExpressions: [{key: r, operator: In, values: [a]}]}", "{matchExpressions: [{key: r, operator: In, values: [b]}]}"}:       false,
		{"{matchExpressions: [{key: r, operator: Exists}]}", "{matchExpressions: [{key: s, operator: DoesNotExist}]}"}:                   true,
		{"{r: a, matchExpressions: [{key: r, operator: NotIn, values: [a]}]}", "{matchExpressions: [{key: r, operator: Exists}]}"}:       false,
		{"{matchExpressions: [{key: r, operator: NotIn, values: [a]}]}", "{matchExpressions: [{key: r, operator: NotIn, values: [b]}]}"}: true,
	} {
		if a, b := of(pair[0]), of(pair[1]); a.Meets(b) != want || b.Meets(a) != want {
			t.Errorf("%s and %s can select the same instance: %v, %v", pair[0], pair[1], a.Meets(b), b.Meets(a))
		}
	}
	for labels, want := range map[string]string{
		"{matchExpressions: [{key: r, operator: Like, values: [a]}]}":     "\"select.labels.matchExpressions[0].operator\" can't be \"Like\"",
		"{matchExpressions: [{key: r, operator: In}]}":                    "\"select.labels.matchExpressions[0]\" can't be: ",
		"{matchExpressions: [{key: r, operator: Exists, values: [a]}]}":   "\"select.labels.matchExpressions[0]\" can't be: ",
		"{matchExpressions: [{key: -r, operator: Exists}]}":               "\"select.labels.matchExpressions[0]\" can't be: ",
		"{matchExpressions: [{key: r, operator: In, values: [\"a b\"]}]}": "\"select.labels.matchExpressions[0]\" can't be: ",
		"{matchExpressions: [{operator: Exists}]}":                        "\"select.labels.matchExpressions[0]\" can't be: ",
		"{matchExpressions: []}":                                          "has no expressions",
		"{matchExpressions: {key: r}}":                                    "select.labels.matchExpressions",
		"{tier: edge, matchLabels: {tier: core}}":                         "\"tier\" stands there twice",
		"{matchExpressions: [{key: r, operator: Exists, value: a}]}":      "unknown key \"select.labels.matchExpressions[0].value\"",
	} {
		_, err := desired.ParseRollout("rollouts/r.yaml", []byte("select: {labels: "+labels+"}\nto: {vnfdId: x}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", labels, err, want)
		}
	}
}

func FuzzRolloutsAndLedgersAreReadOrRefused(f *testing.F) {
	f.Add([]byte(wholeRollout))
	f.Add([]byte("select: {labels: {matchLabels: {a: b}, matchExpressions: [{key: r, operator: NotIn, values: [a]}]}}\nto: {vnfdId: x}\nwrite: pull-request\n"))
	f.Add((&desired.Ledger{Rollout: "a", Attempts: map[string][]desired.Attempt{"i": {{Target: "t"}}}}).Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := desired.ParseRollout("rollouts/r.yaml", data); err == nil {
			r.WaveOf("id", "instances/a")
		}
		l, err := desired.ParseLedger("rollouts/.state/r.yaml", data)
		if err != nil {
			return
		}
		again, err := desired.ParseLedger("rollouts/.state/r.yaml", l.Encode())
		if err != nil || string(again.Encode()) != string(l.Encode()) {
			t.Fatalf("the ledger isn't read back as it was written: %v", err)
		}
	})
}
