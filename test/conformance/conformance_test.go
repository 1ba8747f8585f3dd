package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/published"
)

const root = "../.."

func table(t *testing.T) []Line {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "sol-conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := Table(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestEveryLineNamesTestsAndTheyExist(t *testing.T) {
	found, err := Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range table(t) {
		if len(l.names) == 0 && l.Status != No {
			t.Errorf("%s, %s: %q has no test", l.Section, l.Clause, l.Title)
		}
	}
	// Tables without a status name tests too.
	text, err := os.ReadFile(filepath.Join(root, "docs", "sol-conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range test.FindAllStringSubmatch(string(text), -1) {
		if len(found[m[1]]) == 0 {
			t.Errorf("there is no test %s", m[1])
		}
	}
}

func TestEveryOperationOfThePublishedDefinitionsHasALine(t *testing.T) {
	published.Need(t)
	lines := table(t)
	for i, section := range map[published.Interface]string{published.Lifecycle: "VNF lifecycle management", published.Packages: "VNF package management", published.Grants: "Granting"} {
		operations, err := i.Operations()
		if err != nil || len(operations) < 3 {
			t.Fatalf("%s: %v, %v", i, operations, err)
		}
		for _, op := range operations {
			if op == "GET /api_versions" {
				continue // its path has no root in the file; the line has all
			}
			ours := func(l Line) bool {
				return strings.HasPrefix(l.Section, section) && slices.Contains(l.Operations, Path(op))
			}
			if !slices.ContainsFunc(lines, ours) {
				t.Errorf("%s: %s has no line", section, op)
			}
		}
	}
}

func TestTheReportSaysWhatBecameOfTheTests(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("docs/sol-conformance.md", "# Title\n\n## VNF lifecycle management (clause 5.4)\n\nAPI versions: 1.3.0, 2.0.0\n\n"+
		"| clause | resource, method | status | tests and remarks |\n|---|---|---|---|\n"+
		"| 5.4.2 | `POST /vnf_instances`, `GET /vnf_instances/{id}` | yes | `TestA`, `TestB`; `TestA` |\n| 5.4.9 | a \\| b | no | none |\n\n"+
		"## Others\n\n| clause | what | versions | status | tests |\n|---|---|---|---|---|\n| 1 | x | 2.3.0 | part | `TestC`, `FuzzD` |\n\n| what | tests |\n|---|---|\n| y | `TestA` |\n")
	write("sol/a_test.go", "package sol\n\nfunc TestA(t *testing.T) {}\n\nfunc TestB(t *testing.T) {}\n")
	write("lcm/b_test.go", "package lcm\n\nfunc TestB(t *testing.T) {}\n\nfunc TestC(t *testing.T) {}\n\nfunc FuzzD(f *testing.F) {}\n")
	write("testdata/c_test.go", "func TestA(")
	event := func(action, pkg, test string) string {
		return `{"Action":"` + action + `","Package":"github.com/jibe-vnfm/jibe/` + pkg + `","Test":"` + test + "\"}\n"
	}
	write("out.json", "# a build\n"+event("run", "sol", "TestA")+event("pass", "sol", "TestA/part")+event("pass", "sol", "TestA")+event("skip", "lcm", "TestC")+
		event("fail", "sol", "TestB")+event("pass", "sol", "TestB")+event("skip", "lcm", "TestB")+event("pass", "lcm", "TestB"))
	var text bytes.Buffer
	if err := run(&text, dir, filepath.Join(dir, "out.json"), "1.2.3"); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version string
		Lines   []struct {
			Section, Clause, Title, Status string
			Versions, Operations           []string
			Tests                          []Test
		}
		Statuses, Results map[string]int
	}
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != "1.2.3" || len(got.Lines) != 3 || got.Statuses[Yes] != 1 || got.Statuses[No] != 1 || got.Statuses[Part] != 1 {
		t.Fatalf("%s", &text)
	}
	first, last := got.Lines[0], got.Lines[2]
	if !slices.Equal(first.Versions, []string{"1.3.0", "2.0.0"}) || !slices.Equal(last.Versions, []string{"2.3.0"}) || got.Lines[1].Title != "a | b" ||
		!slices.Equal(first.Operations, []string{"POST /vnf_instances", "GET /vnf_instances/{}"}) {
		t.Errorf("%s", &text)
	}
	if want := []Test{{"TestA", "sol", passed}, {"TestB", "lcm", passed}, {"TestB", "sol", failed}}; !slices.Equal(first.Tests, want) {
		t.Errorf("%v, want %v", first.Tests, want)
	}
	if want := []Test{{"TestC", "lcm", skipped}, {"FuzzD", "lcm", notRun}}; !slices.Equal(last.Tests, want) {
		t.Errorf("%v, want %v", last.Tests, want)
	}
	if got.Results[passed] != 2 || got.Results[failed] != 1 || got.Results[skipped] != 1 || got.Results[notRun] != 1 {
		t.Errorf("%v", got.Results)
	}
}

func TestATableThatCanNotBeReadIsRefused(t *testing.T) {
	const head = "## S\n\n| clause | what | status | tests |\n|---|---|---|---|\n"
	for text, says := range map[string]string{
		"nothing":                                "no table",
		head + "| 1 | x | perhaps | `TestA` |\n": `"perhaps"`,
		head + "| 1 | x | yes |\n":               "has 3 cells",
	} {
		if _, err := Table(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
