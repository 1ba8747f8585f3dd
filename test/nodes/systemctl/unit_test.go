package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestACommandIsSplitAndFilledInAsAUnitFileSays(t *testing.T) {
	env := []string{"ARGS=--first --second=2", "EMPTY=", "DIR=/var/lib", "ARGS=--last word"}
	for line, want := range map[string][]string{
		"/bin/run $ARGS $EMPTY end":       {"/bin/run", "--last", "word", "end"},
		"/bin/run --dir=${DIR}/x":         {"/bin/run", "--dir=/var/lib/x"},
		`/bin/run "two words" 'and '"it"`: {"/bin/run", "two words", "and it"},
		`/bin/run "" $NOBODY`:             {"/bin/run", ""},
	} {
		if got, optional := command(line, env); !slices.Equal(got, want) || optional {
			t.Errorf("%s is %q, may fail: %v; want %q", line, got, optional, want)
		}
	}
	if got, optional := command("-/sbin/modprobe overlay", nil); !optional || !slices.Equal(got, []string{"/sbin/modprobe", "overlay"}) {
		t.Errorf("what may fail is %q, %v", got, optional)
	}
}

func TestSettingsAreAddedUntilAnEmptyOneForgetsThem(t *testing.T) {
	dir := t.TempDir()
	u := &unit{settings: map[string][]string{}}
	write := func(text string) error {
		t.Helper()
		file := filepath.Join(dir, "unit")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return u.read(file)
	}
	if err := write("# a comment\n[Unit]\nDescription=one\n[Service]\nEnvironment=\"A=1 2\" B=3\nEnvironmentFile=-/nowhere\nExecStart=/bin/first \\\n  more\n"); err != nil {
		t.Fatal(err)
	}
	if argv, _ := command(u.value("Service", "ExecStart"), nil); !slices.Equal(argv, []string{"/bin/first", "more"}) {
		t.Errorf("it starts with %q", argv)
	}
	env, err := u.environment()
	if err != nil || !slices.Contains(env, "A=1 2") || !slices.Contains(env, "B=3") {
		t.Errorf("its environment is %q, %v", env, err)
	}
	if err := write("[Service]\nExecStart=\nExecStart=/bin/second\n"); err != nil {
		t.Fatal(err)
	}
	if all := u.settings["Service.ExecStart"]; !slices.Equal(all, []string{"/bin/second"}) {
		t.Errorf("it starts with %q", all)
	}
	if err := write("[Service]\nnonsense\n"); err == nil {
		t.Error("a line that is no setting is taken")
	}
}
