package desired_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestNeedsAreReadStrictly(t *testing.T) {
	const head = "vnfdId: a\n"
	in, err := desired.ParseInstance("instances/x/vnf.yaml", []byte(head+"needs:\n- instances/core/udr\n- {instance: instances/core/udm, version: \">=2.1, <3\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]desired.Need{{Instance: "instances/core/udr"}, {Instance: "instances/core/udm", Version: ">=2.1, <3"}}, in.Needs); diff != "" {
		t.Error(diff)
	}
	var many strings.Builder
	for n := range 51 {
		fmt.Fprintf(&many, "- instances/%d\n", n)
	}
	for text, want := range map[string]string{
		"needs: instances/core/udm":                               `"needs" must be a list`,
		"needs:\n- core/udm":                                      `"needs" can't be the directory of an instance: "core/udm"`,
		"needs:\n- instances/../udm":                              `can't be the directory`,
		"needs:\n- {version: \">=2\"}":                            `an entry of "needs" has no "instance"`,
		"needs:\n- {instance: instances/a, versions: \">=2\"}":    `unknown key "needs.versions" (did you mean "version"?)`,
		"needs:\n- {instance: instances/a, version: about 2}":     `"needs.version" isn't a constraint of versions`,
		"needs:\n- instances/a\n- {instance: instances/a}":        `"needs" has instances/a twice`,
		"needs:\n" + many.String():                                `"needs" has more than 50 entries`,
		"needs:\n- {instance: 7}":                                 `"needs.instance" must be text, not a number`,
		"needs:\n- [instances/a]":                                 `"needs" must be a mapping of keys to values, not a list`,
		"needs:\n- {instance: instances/a, version: [\">=2\"]}\n": `"needs.version" must be text`,
	} {
		_, err := desired.ParseInstance("instances/x/vnf.yaml", []byte(head+text))
		var invalid *desired.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) || invalid.Problems[0].Line < 2 || invalid.Problems[0].Remedy == "" {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestAVersionIsHeldAgainstTheRangeOfANeed(t *testing.T) {
	for _, c := range []struct {
		within, version string
		want            bool
	}{
		{"", "any text", true},
		{">=2.1", "2.1", true},
		{">=2.1", "v2.1.7", true},
		{">=2.1", "2.0.9", false},
		{"~2.1", "2.2", false},
		{">=2.1", "second", false},
		{">=2.1", "", false},
	} {
		if got := (desired.Need{Version: c.within}).Satisfied(c.version); got != c.want {
			t.Errorf("%q in %q is %t", c.version, c.within, got)
		}
	}
}
