package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// leftOver matches a row of the table in the chart's guide: | `--flag` | why it has no value |
var leftOver = regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| (\\S.*) \\|$")

// What the chart renders is given to the command itself, so that neither a flag that was renamed nor
// a value that isn't one stays in it.
func TestEachFlagOfServeHasAValueInTheChartOrAReasonToHaveNone(t *testing.T) {
	root := filepath.Join("..", "..")
	guide, err := os.ReadFile(filepath.Join(root, "docs", "guide", "chart.md"))
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, row := range leftOver.FindAllStringSubmatch(string(guide), -1) {
		left[row[1]] = true
	}
	cases, err := filepath.Glob(filepath.Join(root, "test", "chart", "testdata", "golden", "*.yaml"))
	if err != nil || len(cases) < 12 {
		t.Fatalf("there are %d rendered cases: %v", len(cases), err)
	}
	rendered := map[string]bool{}
	for _, golden := range cases {
		cmd := newServe()
		if err := cmd.ParseFlags(chartArgs(t, golden)); err != nil {
			t.Errorf("%s: jibe serve refuses what the chart says: %v", filepath.Base(golden), err)
		}
		if more := cmd.Flags().Args(); len(more) > 0 {
			t.Errorf("%s: these are no flags: %q", filepath.Base(golden), more)
		}
		cmd.Flags().Visit(func(f *pflag.Flag) { rendered[f.Name] = true })
	}
	newServe().Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case rendered[f.Name] && left[f.Name]:
			t.Errorf("--%s has a value: take it out of the table in docs/guide/chart.md", f.Name)
		case !rendered[f.Name] && !left[f.Name]:
			t.Errorf("--%s has no value in the chart: give it one (charts/jibe/templates/_flags.tpl, values.yaml and the schema; test/chart/testdata/values/settings.yaml shows it), or tell why not in docs/guide/chart.md", f.Name)
		}
		delete(left, f.Name)
	})
	for name := range left {
		t.Errorf("docs/guide/chart.md tells of --%s, which jibe serve doesn't have", name)
	}
}

// chartArgs are the flags that the chart gives to jibe serve in a rendered case, without those that its file of
// values says as they are.
func chartArgs(t *testing.T, golden string) []string {
	t.Helper()
	var values struct{ ExtraArgs []string }
	read(t, strings.Replace(golden, "golden", "values", 1), &values)
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var set struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(doc), &set); err != nil {
			t.Fatalf("%s: %v", golden, err)
		}
		if containers := set.Spec.Template.Spec.Containers; set.Kind == "StatefulSet" && len(containers) > 0 && len(containers[0].Args) > 0 {
			return slices.DeleteFunc(containers[0].Args[1:], func(arg string) bool { return slices.Contains(values.ExtraArgs, arg) })
		}
	}
	t.Fatalf("%s has no StatefulSet with arguments", golden)
	return nil
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
