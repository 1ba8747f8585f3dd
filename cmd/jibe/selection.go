package main

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// selection is what of a list a person wants to see. The zero value is all of it.
type selection struct {
	folder, state, pkg, kind, instance string
	since                              sinceFlag
	limit                              int
}

// defaultLimit says that a table shows as many as its view has by default, and every other
// form all of them.
const defaultLimit = -1

// flags adds those of the flags that the list knows: any of "folder", "state", "package",
// "type", "instance", "since" and "limit". states are the values of --state, for its help.
func (q *selection) flags(cmd *cobra.Command, states string, names ...string) {
	f := cmd.Flags()
	for _, name := range names {
		switch name {
		case "folder":
			f.StringVar(&q.folder, name, "", "only what is in this folder below instances/, or below that")
		case "state":
			f.StringVar(&q.state, name, "", "only what is in one of these states: "+states)
		case "package":
			f.StringVar(&q.pkg, name, "", "only those of this package: a vnfdId, PRODUCT or PRODUCT:VERSION")
		case "type":
			f.StringVar(&q.kind, name, "", "only operations of these types, as SCALE,HEAL")
		case "instance":
			f.StringVar(&q.instance, name, "", "only this VNF instance: by its id or the beginning of it, its name, or folder/name")
		case "since":
			f.Var(&q.since, name, "only what began since then: a duration, as 90m or 7d, or a time, as 2026-05-04 or 2026-05-04T03:02:01Z")
		case "limit":
			f.IntVar(&q.limit, name, defaultLimit, "show at most this many; 0 is all (default: 500 instances, the newest 100 operations; all with -o json, yaml, name)")
		}
	}
}

// sinceFlag is the flag --since: a moment, or how long ago it was.
type sinceFlag struct {
	said string
	ago  time.Duration
	at   time.Time
}

// Set implements pflag.Value.
func (a *sinceFlag) Set(said string) error {
	*a = sinceFlag{said: said}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, said); err == nil {
			a.at = t
			return nil
		}
	}
	if days, ok := strings.CutSuffix(said, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n > 0 {
			a.ago = time.Duration(n * float64(24*time.Hour))
			return nil
		}
	}
	d, err := time.ParseDuration(said)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is no duration above zero, as 90m, 36h or 7d, and no time, as 2026-05-04 or 2026-05-04T03:02:01Z", said)
	}
	a.ago = d
	return nil
}

// String implements pflag.Value.
func (a *sinceFlag) String() string { return a.said }

// Type implements pflag.Value: it is what the help calls the value.
func (a *sinceFlag) Type() string { return "DURATION|TIME" }

// from is the moment that is meant, the zero time for none.
func (a *sinceFlag) from(now time.Time) time.Time {
	if a.ago > 0 {
		return now.Add(-a.ago)
	}
	return a.at
}

// within says whether something is in the folder that was asked for, or below it. dir is its
// directory in git.
func (q *selection) within(dir string) bool {
	want := q.dir()
	dir = strings.TrimPrefix(dir, "instances/")
	return want == "" || dir == want || strings.HasPrefix(dir, want+"/")
}

// dir is the folder that was asked for, below instances/.
func (q *selection) dir() string {
	if q.folder == "" {
		return ""
	}
	dir := strings.TrimPrefix(strings.Trim(path.Clean("/"+q.folder), "/"), "instances")
	return strings.Trim(dir, "/")
}

// states are the words of --state in capitals, nil where all are wanted.
func (q *selection) states() []string { return words(q.state) }

// in says whether a state is one that was asked for.
func (q *selection) in(state string) bool {
	want := q.states()
	return want == nil || slices.Contains(want, strings.ToUpper(state))
}

// words are the parts of a flag that are separated by commas, in capitals.
func words(said string) []string {
	if said == "" {
		return nil
	}
	var out []string
	for w := range strings.SplitSeq(said, ",") {
		out = append(out, strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(w), "-", "_")))
	}
	return out
}

// known refuses a word that isn't one of those that there are.
func known(flag string, said, there []string) error {
	for _, w := range said {
		if !slices.Contains(there, w) {
			return fmt.Errorf("--%s %s: want some of %s", flag, strings.ToLower(w), strings.ToLower(strings.Join(there, ", ")))
		}
	}
	return nil
}

// most is how many are shown at most, 0 for all. byDefault is how many a table has.
func (q *selection) most(output string, byDefault int) int {
	switch {
	case q.limit >= 0:
		return q.limit
	case output == "table" || output == "wide":
		return byDefault
	}
	return 0
}
