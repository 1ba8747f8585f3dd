package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func unobeyed() []reconciler.Problem {
	return []reconciler.Problem{
		{Problem: desired.Problem{File: "instances/a/vnf.yaml", Line: 4, Message: "scale level of aspect web\nis 9", Remedy: "give 0 to 5"}, Instance: "i1", Since: moment},
		{Problem: desired.Problem{File: "vims/b.yaml", Message: "is a folder, not a file"}, Since: moment.Add(90 * time.Second)},
	}
}

func TestProblemsAreShownByFileAndLineWithInstanceReasonAndRemedy(t *testing.T) {
	var b strings.Builder
	problemTable(&b, &sheet{now: moment.Add(2 * time.Minute), wide: true}, unobeyed())
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"FILE SINCE PROBLEM INSTANCE ID",
		"instances/a/vnf.yaml:4 2m (2026-05-04T03:02:01Z) scale level of aspect web is 9 (give 0 to 5) i1",
		"vims/b.yaml 30s (2026-05-04T03:03:31Z) is a folder, not a file -",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if got := output(t, map[string]any{"/jibe/v1/problems": []any{}}, "get", "problems"); got != "every file is obeyed\n" {
		t.Errorf("with none: %q", got)
	}
}

func TestProblemsAreShownAsJSONAndYAMLAsTheServerGivesThem(t *testing.T) {
	answers := map[string]any{"/jibe/v1/problems": unobeyed()}
	want, err := json.Marshal(unobeyed())
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "yaml"} {
		var list []reconciler.Problem
		if err := yaml.Unmarshal([]byte(output(t, answers, "get", "problems", "-o", format)), &list); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(list); err != nil || string(got) != string(want) {
			t.Errorf("%s: got %s, want %s (%v)", format, got, want, err)
		}
	}
}

func TestProblemsFailACommandOnlyWithTheFlagExitCode(t *testing.T) {
	for _, tt := range []struct {
		list []reconciler.Problem
		args []string
		want error
	}{
		{unobeyed(), nil, nil},
		{unobeyed(), []string{"--exit-code"}, haveProblems},
		{[]reconciler.Problem{}, []string{"--exit-code"}, nil},
	} {
		server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(tt.list) })
		if _, _, err := execute(t, server, append([]string{"get", "problems"}, tt.args...)...); !errors.Is(err, tt.want) {
			t.Errorf("%d problems, %v: %v, want %v", len(tt.list), tt.args, err, tt.want)
		}
	}
}

func TestTheNoteOfAnInstanceSaysWhatFailedAndWhyItsFileIsNotObeyed(t *testing.T) {
	o := object{"id": "i1", "jibe": object{
		"failed":   object{"id": "3f2a9c1e-0000-4000-8000-000000000000", "operation": "SCALE", "reason": "Deployment/demo/web:\nno room"},
		"problems": []any{object{"file": "instances/a/vnf.yaml", "line": 4, "message": "scale level of aspect web is 9"}},
	}}
	if got, want := note(o), "SCALE 3f2a9c1e failed: Deployment/demo/web: no room, not obeyed: scale level of aspect web is 9"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var b strings.Builder
	notes(&b, o)
	for _, part := range []string{"jibe retry, rollback or fail 3f2a9c1e-0000-4000-8000-000000000000", "instances/a/vnf.yaml:4: scale level of aspect web is 9", "jibe get problems --instance i1"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q isn't in\n%s", part, b.String())
		}
	}
	b.Reset()
	notes(&b, object{"id": "i1", "jibe": object{"waitsFor": object{"for": "what it needs: instances/udm, which is stopped", "since": "2030-01-02T03:04:05Z"}}})
	if want := "\nWAITS\n  since 2030-01-02T03:04:05Z for what it needs: instances/udm, which is stopped\n"; b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
	back := object{"id": "i1", "jibe": object{"rolledBack": object{"id": "3f2a9c1e-0000", "operation": "INSTANTIATE", "reason": "namespace site-b not found"}}}
	if got, want := note(back), "INSTANTIATE 3f2a9c1e rolled back: namespace site-b not found"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := note(object{"id": "i1"}); got != "" {
		t.Errorf("of one with no note: %q", got)
	}
}

func TestTheNoteOfAnOperationShowsTheReasonInOneLine(t *testing.T) {
	got := output(t, listedAs(operationsPath, "exclude_default", "fields=error,jibe", object{"id": "o1", "operation": "SCALE", "operationState": "FAILED_TEMP",
		"error": object{"detail": "VIM kube-a: Deployment/demo/web: first\nService/demo/web: second"}}), "get", "operations", "--limit", "0")
	if !strings.HasSuffix(strings.TrimRight(got, " \n"), "VIM kube-a: Deployment/demo/web: first Service/demo/web: second") || strings.Count(got, "\n") != 2 {
		t.Errorf("got\n%s", got)
	}
}

func TestTheNoteOfAnOperationSaysWhatItWaitsForAndSinceWhen(t *testing.T) {
	got := output(t, listedAs(operationsPath, "exclude_default", "fields=error,jibe", object{"id": "o1", "operation": "SCALE", "operationState": "STARTING",
		"jibe": object{"waiting": object{"for": "the grant of nfvo-a: 502\nBad Gateway", "since": "2030-01-02T03:04:05.678Z"}}}), "get", "operations", "--limit", "0")
	if !strings.HasSuffix(got, "  waits since 2030-01-02T03:04:05Z for the grant of nfvo-a: 502 Bad Gateway\n") {
		t.Errorf("got\n%s", got)
	}
}
