package main

import (
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
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
	cases := chartArgs(t, filepath.Join(root, "test", "chart", "testdata"))
	if len(cases) < 12 {
		t.Fatalf("there are %d rendered cases", len(cases))
	}
	rendered := map[string]bool{}
	for name, args := range cases {
		cmd := newServe()
		if err := cmd.ParseFlags(args); err != nil {
			t.Errorf("%s: jibe serve refuses what the chart says: %v", name, err)
		}
		if more := cmd.Flags().Args(); len(more) > 0 {
			t.Errorf("%s: these are no flags: %q", name, more)
		}
		cmd.Flags().Visit(func(f *pflag.Flag) { rendered[f.Name] = true })
	}
	newServe().Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Deprecated != "":
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

// chartArgs are the flags that the chart gives to jibe serve in each case, without those that its file of values says as
// they are. A case but the default one is what it changes of that, or what is asserted of its changes.
func chartArgs(t *testing.T, testdata string) map[string][]string {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join(testdata, "assertions.txt"))
	if err != nil {
		t.Fatal(err)
	}
	diffs, err := filepath.Glob(filepath.Join(testdata, "golden", "*.diff"))
	if err != nil {
		t.Fatal(err)
	}

	changes := map[string]string{}
	for _, file := range archive.Files {
		changes[file.Name] = string(file.Data)
	}
	for _, diff := range diffs {
		text, err := os.ReadFile(diff)
		if err != nil {
			t.Fatal(err)
		}
		changes[strings.TrimSuffix(filepath.Base(diff), ".diff")] = string(text)
	}

	defaults := renderedArgs(t, filepath.Join(testdata, "golden", "defaults.yaml"))
	cases := map[string][]string{"defaults": defaults}
	for name, text := range changes {
		args := slices.Clone(defaults)
		for change, arg := range changedArgs(text) {
			if change == "+" {
				args = append(args, arg)
			} else {
				args = slices.DeleteFunc(args, func(a string) bool { return a == arg })
			}
		}

		var values struct{ ExtraArgs []string }
		readYAML(t, filepath.Join(testdata, "values", name+".yaml"), &values)
		cases[name] = slices.DeleteFunc(args, func(arg string) bool { return slices.Contains(values.ExtraArgs, arg) })
	}

	return cases
}

// renderedArgs are the flags of the StatefulSet among rendered objects.
func renderedArgs(t *testing.T, golden string) []string {
	t.Helper()

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
			return containers[0].Args[1:]
		}
	}

	t.Fatalf("%s has no StatefulSet with arguments", golden)

	return nil
}

// changedArgs are the flags of the StatefulSet that a case adds ("+") and removes ("-").
func changedArgs(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		inSet := false
		for line := range strings.Lines(text) {
			if object, ok := strings.CutPrefix(line, "=== "); ok {
				inSet = strings.HasPrefix(object, "StatefulSet ")
			}

			var items []any
			if !inSet || line[0] != '+' && line[0] != '-' || yaml.Unmarshal([]byte(line[1:]), &items) != nil || len(items) != 1 {
				continue
			}

			if arg, ok := items[0].(string); ok && strings.HasPrefix(arg, "--") && !yield(line[:1], arg) {
				return
			}
		}
	}
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
