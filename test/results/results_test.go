package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a file of events, one a line: ACTION TEST OUTPUT.
func write(t *testing.T, lines ...string) string {
	t.Helper()

	var b strings.Builder
	for _, line := range lines {
		action, rest, _ := strings.Cut(line, " ")
		name, output, _ := strings.Cut(rest, " ")
		if output != "" {
			output += `\n`
		}
		b.WriteString(`{"Action":"` + action + `","Package":"m/p","Test":"` + name + `","Elapsed":7,"Output":"` + output + "\"}\n")
	}

	path := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

func TestSummaryTellsFlakyFromFailed(t *testing.T) {
	again := []string{"output TestA seed 7", "fail TestA/sub", "fail TestA", "fail ", "output TestA fine", "pass TestA", "pass "}

	for _, test := range []struct {
		name  string
		lines []string
		want  []string
		err   string
	}{
		{"all pass", []string{"pass TestA", "skip TestB", "pass "}, []string{"1 passed, 0 failed, 1 skipped"}, ""},
		{"one passes again", again, []string{"FLAKY m/p.TestA: attempt 2 of 2 passed", "    seed 7\n", "1 passed, 0 failed, 0 skipped"}, ""},
		{"one fails three times", []string{"fail TestA", "fail TestA", "fail TestA", "fail "}, []string{"FAILED m/p.TestA\n", "0 passed, 1 failed"}, "1 failed"},
		{"one never ends", []string{"run TestA", "fail "}, []string{"FAILED m/p.TestA\n"}, "1 failed"},
		{"none builds", []string{"fail "}, []string{"FAILED m/p: the package as a whole", "0 passed, 1 failed"}, "1 failed"},
		{"six pass again", []string{
			"fail TestA", "pass TestA", "fail TestB", "pass TestB", "fail TestC", "pass TestC",
			"fail TestD", "pass TestD", "fail TestE", "pass TestE", "fail TestF", "pass TestF",
		}, []string{"6 passed"}, "6 tests passed only when they ran again"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			file := filepath.Join(t.TempDir(), "flaky")

			err := run([]string{"summary", "-flaky", file, write(t, test.lines...)}, &out)

			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}

			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("want %q in:\n%s", want, &out)
				}
			}

			text, err := os.ReadFile(file)
			if err != nil || strings.Contains(string(text), "FLAKY") != strings.Contains(out.String(), "FLAKY") {
				t.Errorf("the file has %q, %v", text, err)
			}
		})
	}
}

func TestATestOfSeveralRunsIsJudgedInEach(t *testing.T) {
	one := write(t, "skip TestA", "skip TestB", "fail TestC", "fail ")
	two := write(t, "pass TestA", "skip TestB", "pass TestC", "pass ")

	var out strings.Builder
	err := run([]string{"summary", one, two}, &out)

	if err == nil || !strings.Contains(out.String(), "2 passed, 1 failed, 1 skipped") || strings.Contains(out.String(), "FLAKY") {
		t.Errorf("%v, and:\n%s", err, &out)
	}
}

func TestTimesWritesTheTableOfAPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	if err := run([]string{"times", "-page", page, "make test=" + write(t, "pass TestA", "pass ")}, os.Stderr); err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(page)
	want := "before\n" + begin + "\n| package | `make test` |\n|---|--:|\n| `m/p` | 7.0 |\n| 0 others | 0.0 |\n| all, which overlap | 7.0 |\n" + end + "\nafter\n"
	if err != nil || string(text) != want {
		t.Errorf("the page is %q, %v", text, err)
	}
}

func TestTimesOfTheCacheAreRefused(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, []byte(`{"Action":"output","Package":"m/p","Output":"ok  \tm/p\t(cached)\n"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	err := run([]string{"times", "-page", page, "x=" + file}, os.Stderr)

	if err == nil || !strings.Contains(err.Error(), "from the cache") {
		t.Errorf("error %v", err)
	}
}
