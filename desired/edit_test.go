package desired_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const someFile = "instances/site-a/amf/vnf.yaml"

// Each testdata/edit/*.txtar holds before, changes (a YAML list of path and
// value, no value removes) and after. "go test -update" rewrites after.
func TestEditKeepsAPersonsText(t *testing.T) {
	files, err := filepath.Glob("testdata/edit/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var changes []struct {
				Path  []string
				Value any
			}
			if err := yaml.Unmarshal(ar.Files[1].Data, &changes); err != nil {
				t.Fatal(err)
			}
			var kvs []desired.KeyValue
			for _, c := range changes {
				kvs = append(kvs, desired.KeyValue{Path: c.Path, Value: c.Value})
			}
			got, err := desired.Edit(someFile, ar.Files[0].Data, kvs...)
			if err != nil {
				t.Fatal(err)
			}
			ar.Files[2].Data = got
			kit.Golden(t, f, txtar.Format(ar))
			if !strings.HasSuffix(string(got), "\n") {
				t.Error("the last line has no end, which an archive would give it")
			}
			again, err := desired.Edit(someFile, got, kvs...)
			if err != nil || string(again) != string(got) {
				t.Errorf("the same changes again: %v\n%s", err, again)
			}
		})
	}
}

func TestEditKeepsWindowsLineEnds(t *testing.T) {
	before := "name: a # é\r\nvnfdId: x\r\n\r\n# below\r\n"
	got, err := desired.Edit(someFile, []byte(before), desired.KeyValue{Path: []string{"levels", "a"}, Value: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := "name: a # é\r\nvnfdId: x\r\nlevels:\r\n  a: 1\r\n\r\n# below\r\n"; string(got) != want {
		t.Errorf("got %q", got)
	}
}

func TestEditRefusesAResultThatIsNoInstance(t *testing.T) {
	for _, c := range []desired.KeyValue{
		{Path: []string{"vnfdId"}},
		{Path: []string{"level"}, Value: 1},
		{Path: []string{"levels", "a"}, Value: -1},
		{Path: []string{"name"}, Value: "\xff"},
		{Path: nil, Value: 1},
	} {
		if out, err := desired.Edit(someFile, []byte("vnfdId: x\n"), c); err == nil {
			t.Errorf("%v gave %q", c, out)
		}
	}
}

// word makes text with what is special in YAML.
func word() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z][a-z0-9-]{0,8}`),
		rapid.SampledFrom([]string{"yes", "null", "1", "1.0", "~", "a: b", "# no", "- a", "{", "x #y", " lead", "trail ",
			"two\nlines", "two\nlines\n", "\n\nafter", "tab\tbed", "a\n  b\n\n", "é→", "'", `"`, `\`, "2020-01-01", "0x1f", "<<", "=", "!t", "&a", "*a", "%", "@", "`", "\u2028", "a\r\nb", "\u0085", ":", "?", "|", ">"}),
		rapid.StringN(1, 12, -1).Filter(func(s string) bool { return strings.ToValidUTF8(s, "") == s }),
	)
}

func free(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 5
		if depth > 0 {
			kinds = 7
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return word().Draw(t, "text")
		case 1:
			return rapid.Int64().Draw(t, "int")
		case 2:
			return rapid.Float64().Draw(t, "float")
		case 3:
			return rapid.Bool().Draw(t, "bool")
		case 4:
			return rapid.IntRange(0, 9).Draw(t, "small")
		case 5:
			return rapid.SliceOfN(free(depth-1), 0, 3).Draw(t, "list")
		}
		return rapid.MapOfN(word(), free(depth-1), 0, 3).Draw(t, "map")
	})
}

func instance() *rapid.Generator[*desired.Instance] {
	return rapid.Custom(func(t *rapid.T) *desired.Instance {
		in := &desired.Instance{
			ID:         desired.DeriveID(word().Draw(t, "dir")),
			Name:       word().Draw(t, "name"),
			VnfdID:     word().Draw(t, "vnfdId"),
			State:      rapid.SampledFrom([]string{desired.Instantiated, desired.NotInstantiated}).Draw(t, "state"),
			Flavour:    rapid.SampledFrom([]string{"", "simple", "1"}).Draw(t, "flavour"),
			Levels:     rapid.MapOfN(word(), rapid.IntRange(0, 9), 0, 3).Draw(t, "levels"),
			Update:     policy().Draw(t, "update"),
			Generation: rapid.SampledFrom([]string{"", "1", "2", "007", "green", "1e3", "0x1f"}).Draw(t, "generation"),
			Follow: desired.Follow{
				Versions: rapid.SampledFrom([]string{"", "~1.4", "1.4", "*", "1", ">=2.1, <3", "^2 || ~4.0.0-rc.1"}).Draw(t, "versions"),
				Branch:   rapid.SampledFrom([]string{"", "upgrades/amf", "1.4", "true"}).Draw(t, "branch"),
			},
			Drift:       rapid.SampledFrom([]string{desired.DriftCorrect, desired.DriftReport}).Draw(t, "drift"),
			Hooks:       rapid.SampledFrom([]string{"", desired.HooksSkip}).Draw(t, "hooks"),
			Supersede:   rapid.SampledFrom([]string{"", desired.SupersedeNever}).Draw(t, "supersede"),
			EM:          rapid.SampledFrom([]string{"", "em-a", "1", "no"}).Draw(t, "em"),
			Params:      rapid.MapOfN(word(), free(2), 0, 3).Draw(t, "params"),
			Condemned:   rapid.MapOfN(word(), word(), 0, 2).Draw(t, "condemned"),
			Metadata:    rapid.MapOfN(word(), free(1), 0, 2).Draw(t, "metadata"),
			Suspend:     rapid.Bool().Draw(t, "suspend"),
			Description: rapid.SampledFrom([]string{"", "one", "two\nlines\n"}).Draw(t, "description"),
		}
		if rapid.Bool().Draw(t, "updated") {
			in.Base, in.Package = treeA, treeC
			in.Overlays = []desired.Overlay{{Package: treeB}, {Package: treeC, Paths: rapid.SliceOfN(word(), 1, 3).Draw(t, "paths")}}
		}
		if rapid.Bool().Draw(t, "needy") {
			in.Needs = []desired.Need{{Instance: "instances/core/udm", Version: rapid.SampledFrom([]string{"", ">=2.1", "1"}).Draw(t, "needed")}, {Instance: "instances/1"}}
		}
		if rapid.Bool().Draw(t, "linked") {
			in.ExtVirtualLinks, in.ExtManagedVirtualLinks = links(t), []desired.ExtManagedVirtualLink{{ID: "m", VirtualLinkDescID: "vl", ResourceID: "1e3"}}
			in.Placement = map[string]string{"VDU2": rapid.SampledFrom([]string{"core", "1", "yes"}).Draw(t, "placed")}
		}
		if rapid.Bool().Draw(t, "connected") {
			in.VIMConnections = map[string]desired.VIMConnection{"vim1": {
				VimType: "kubernetes", InterfaceInfo: map[string]string{"endpoint": "https://[::1]:6443"},
				AccessInfo: map[string]string{"bearer_token": "env:TOKEN"}, Extra: map[string]any{"a": int64(1)},
			}}
		}
		return in
	})
}

func links(t *rapid.T) []desired.ExtVirtualLink {
	name := func(label string) string { return rapid.SampledFrom([]string{"a", "1", "no", "x: y"}).Draw(t, label) }
	return []desired.ExtVirtualLink{{
		ID: name("link"), ResourceID: name("network"), ExtLinkPorts: []desired.ExtLinkPort{{ID: "p", ResourceHandle: desired.ResourceHandle{ResourceID: name("port")}}},
		ExtCps: []desired.ExtCp{{CpdID: name("cpd"), CpConfig: map[string]desired.ExtCpConfig{
			"1":    {LinkPortID: "p"},
			"null": {CreateLinkPort: true},
			"true": {Protocols: []desired.CpProtocol{{LayerProtocol: desired.OverEthernet, IPOverEthernet: &desired.IPOverEthernet{MACAddress: "fa:16:3e:00:00:01",
				IPAddresses: []desired.IPAddress{{Type: desired.IPv6, FixedAddresses: []string{"::1"}}, {Type: desired.IPv4, NumDynamicAddresses: rapid.IntRange(1, 64).Draw(t, "number"), SubnetID: "1.0"}}}}}},
		}}},
	}}
}

func policy() *rapid.Generator[desired.UpdatePolicy] {
	return rapid.Custom(func(t *rapid.T) desired.UpdatePolicy {
		return desired.UpdatePolicy{
			Strategy: rapid.SampledFrom([]string{desired.Rolling, desired.BlueGreen}).Draw(t, "strategy"),
			Drain:    rapid.SampledFrom([]string{"", "0s", "30s", "1h0m0s"}).Draw(t, "drain"),
			BarePods: rapid.Bool().Draw(t, "barePods"), AllAtOnce: rapid.Bool().Draw(t, "allAtOnce"),
			Coordinate: desired.Coordination{
				New:    word().Draw(t, "new"),
				Old:    rapid.SampledFrom([]string{"", "Scripts/old.sh", "yes"}).Draw(t, "old"),
				Params: rapid.MapOfN(word(), free(2), 0, 2).Draw(t, "coordinate params"),
			},
		}
	})
}

func TestFormatAndParseAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := instance().Draw(t, "instance")
		text, err := desired.Format(in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := desired.ParseInstance(someFile, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := desired.Changed(in, out); len(diff) > 0 {
			t.Fatalf("%v differ in\n%s", diff, text)
		}
		again, err := desired.Format(out)
		if err != nil || string(again) != string(text) {
			t.Fatalf("not the same twice: %v\n%s\n%s", err, text, again)
		}
	})
}

// annotate puts a comment behind, above and below lines of text that came from
// Format, where that can't be inside a block of text.
func annotate(t *rapid.T, text string) (string, []string) {
	var b strings.Builder
	var comments []string
	block := strings.ContainsAny(text, "|>?") // lines of blocks and long keys are no place for a comment
	for i, l := range strings.SplitAfter(text, "\n") {
		top := l != "" && l[0] != ' ' && l[0] != '\n'
		if top && rapid.Bool().Draw(t, "above") {
			c := fmt.Sprintf("# above %d", i)
			comments = append(comments, c)
			if !block {
				b.WriteString("\n") // it would belong to the block above
			}
			b.WriteString(c + "\n")
		}
		if l != "" && !block && rapid.Bool().Draw(t, "indented") && !top {
			c := fmt.Sprintf("# inner %d", i)
			comments = append(comments, c)
			b.WriteString(l[:len(l)-len(strings.TrimLeft(l, " "))] + c + "\n")
		}
		b.WriteString(l)
	}
	c := "# the end"
	b.WriteString(c + "\n")
	return b.String(), append(comments, c)
}

func TestEditChangesWhatItShouldAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := instance().Draw(t, "before")
		clean, err := desired.Format(before)
		if err != nil {
			t.Fatal(err)
		}
		text, comments := annotate(t, string(clean))
		after := *before
		var change desired.KeyValue
		switch rapid.IntRange(0, 9).Draw(t, "change") {
		case 0:
			after.Name = word().Draw(t, "new name")
			change = desired.KeyValue{Path: []string{"name"}, Value: after.Name}
		case 1:
			aspect, level := word().Draw(t, "aspect"), rapid.IntRange(0, 9).Draw(t, "level")
			after.Levels = map[string]int{aspect: level}
			for k, v := range before.Levels {
				if k != aspect {
					after.Levels[k] = v
				}
			}
			change = desired.KeyValue{Path: []string{"levels", aspect}, Value: level}
		case 2:
			after.Params = rapid.MapOfN(word(), free(2), 0, 3).Draw(t, "new params")
			change = desired.KeyValue{Path: []string{"params"}, Value: after.Params}
		case 3:
			after.Condemned = nil
			change = desired.KeyValue{Path: []string{"condemned"}}
		case 4:
			after.State = desired.NotInstantiated
			change = desired.KeyValue{Path: []string{"state"}, Value: after.State}
		case 5:
			after.Update.Strategy = desired.Container
			change = desired.KeyValue{Path: []string{"update", "strategy"}, Value: desired.Container}
		case 6:
			after.Held = "an-operation"
			change = desired.KeyValue{Path: []string{"held"}, Value: after.Held}
		case 7:
			after.Generation = rapid.SampledFrom([]string{"3", "blue"}).Draw(t, "new generation")
			change = desired.KeyValue{Path: []string{"generation"}, Value: after.Generation}
		case 8:
			after.Follow = desired.Follow{Versions: "~1.5", Branch: after.Follow.Branch}
			change = desired.KeyValue{Path: []string{"follow"}, Value: after.Follow}
		case 9:
			after.Update.Coordinate.New = "Scripts/other.sh"
			change = desired.KeyValue{Path: []string{"update", "coordinate", "new"}, Value: after.Update.Coordinate.New}
		}
		got, err := desired.Edit(someFile, []byte(text), change)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		parsed, err := desired.ParseInstance(someFile, got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := desired.Changed(&after, parsed); len(diff) > 0 {
			t.Fatalf("%v differ:\n%s\n%s", diff, text, got)
		}
		for _, c := range comments {
			gone := strings.Contains(c, "inner") && (change.Value == nil || len(change.Path) == 1)
			if n := strings.Count("\n"+string(got), c+"\n"); n > 1 || n == 0 && !gone {
				t.Fatalf("%q stands %d times:\n%s\n---\n%s", c, n, text, got)
			}
		}
		if reflect.DeepEqual(before, parsed) || desired.Equal(before, parsed) {
			if string(got) != text {
				t.Fatalf("no change, but other text:\n%s\n---\n%s", text, got)
			}
		}
		// Lines of other top-level entries are as they were.
		kept := 0
		lines := strings.Split(string(got), "\n")
		for l := range strings.SplitSeq(text, "\n") {
			if slices.Contains(lines, l) {
				kept++
			}
		}
		if kept == 0 {
			t.Fatalf("nothing kept:\n%s\n---\n%s", text, got)
		}
	})
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte("# c\nvnfdId: x\nlevels: {a: 1} # d\n"), "levels", "a", "2")
	f.Add([]byte("{vnfdId: x}"), "params", "b", "x: y")
	f.Add([]byte("vnfdId: |-\n  x\n\n...\n"), "params", "b", "#")
	f.Fuzz(func(t *testing.T, data []byte, one, two, value string) {
		if _, err := desired.ParseInstance(someFile, data); err != nil {
			return
		}
		out, err := desired.Edit(someFile, data, desired.KeyValue{Path: []string{one, two}, Value: value})
		if err != nil {
			return
		}
		in, err := desired.ParseInstance(someFile, out)
		if err != nil {
			t.Fatalf("%v\n%q", err, out)
		}
		if one == "params" && in.Params[two] != any(value) {
			t.Fatalf("%q isn't %q in %q", in.Params[two], value, out)
		}
	})
}
