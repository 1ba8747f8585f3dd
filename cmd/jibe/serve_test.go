package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestTimeoutForTakesSeveralTypesOneByOneOrWithCommas(t *testing.T) {
	var got map[lcm.Type]time.Duration
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.Var((*timeouts)(&got), "timeout-for", "")
	if err := f.Parse([]string{"--timeout-for", "HEAL=2m", "--timeout-for=INSTANTIATE=30m, SCALE=90s", "--timeout-for", "HEAL=3m"}); err != nil {
		t.Fatal(err)
	}
	want := map[lcm.Type]time.Duration{lcm.Heal: 3 * time.Minute, lcm.Instantiate: 30 * time.Minute, lcm.Scale: 90 * time.Second}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, d := range want {
		if got[name] != d {
			t.Errorf("%s: got %v, want %v", name, got[name], d)
		}
	}
	if said := f.Lookup("timeout-for").Value.String(); said != "HEAL=3m0s,INSTANTIATE=30m0s,SCALE=1m30s" {
		t.Errorf("shown as %s", said)
	}
}

func TestTimeoutForRefusesWhatCantBeOneWholeAndSaysWhatCan(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "TYPE=DURATION",
		"HEAL":               "TYPE=DURATION",
		"HEAL=2m,":           "TYPE=DURATION",
		"HEALING=2m":         "INSTANTIATE, MODIFY_INFO, OPERATE, SCALE,",
		"heal=2m":            `"heal" is no type of operation`,
		"HEAL=0":             "above zero",
		"HEAL=-1s":           "above zero",
		"HEAL=120":           "above zero, as 90s or 2m",
		"HEAL=":              "above zero",
		"SCALE=2m,HEAL=soon": "HEAL=soon",
	} {
		var got timeouts
		err := got.Set(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, and doesn't say %q", text, err, want)
		}
		if len(got) > 0 {
			t.Errorf("%q: refused, and %v was taken", text, got)
		}
	}
}

func TestServeRefusesABadTimeoutBeforeItStarts(t *testing.T) {
	root := newRoot()
	root.SetArgs([]string{"serve", "--data", t.TempDir(), "--timeout-for", "SNAPSHOT=2m"})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--timeout-for") {
		t.Errorf("the error is %v, and doesn't name the flag", err)
	}
}

func TestServeRefusesAPushIntervalThatNothingFollows(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--push-interval=10s", "--remote"},
		{"--remote=https://git.example.org/vnfs.git --push-interval=-1s", "0 (pushes aren't kept apart) to 1m0s"},
		{"--remote=https://git.example.org/vnfs.git --push-interval=61s", "to 1m0s"},
	} {
		root := newRoot()
		root.SetArgs(append([]string{"serve", "--data", t.TempDir()}, strings.Fields(tt.args)...))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--push-interval") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %v, and doesn't say %q", tt.args, err, tt.want)
		}
	}
}
