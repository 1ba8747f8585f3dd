package desired

import (
	"strings"
	"testing"
)

func TestWhatWaitsIsCarriedOnKeyByKeyAndItsAuthorsWordStands(t *testing.T) {
	const head = "vnfdId: v\nflavour: simple\n"
	for name, test := range map[string]struct{ from, to, waits, want string }{
		"a tombstone beside another key": {head, head + "condemned: {Pod/a: x}\n", head + "# tonight\nlevels: {web: 2}\n", head + "# tonight\nlevels: {web: 2}\ncondemned:\n"},
		"a tombstone is taken out again": {head + "condemned: {Pod/a: x}\n", head, head + "levels: {web: 2}\ncondemned: {Pod/a: x}\n", head + "levels: {web: 2}\n"},
		"what both change is the author's": {
			head + "overlays: [{package: a}]\n", head, head + "overlays: [{package: a}, {package: b}]\n", head + "overlays: [{package: a}, {package: b}]\n"},
		"nothing": {head, head, head + "levels: {web: 2}\n", head + "levels: {web: 2}\n"},
	} {
		got, err := Carry("instances/amf", Files{InstanceFile: []byte(test.from)}, Files{InstanceFile: []byte(test.to)}, Files{InstanceFile: []byte(test.waits), "README": []byte("r")})
		if err != nil || !strings.HasPrefix(string(got[InstanceFile]), test.want) || string(got["README"]) != "r" {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got[InstanceFile], test.want)
		}
	}
}

func TestOtherFilesAreCarriedOnAsAWholeAndADirectoryThatIsGoneStaysSo(t *testing.T) {
	text := []byte("vnfdId: v\n")
	got, err := Carry("instances/amf", Files{InstanceFile: text, "old": []byte("1"), "own": []byte("1")}, Files{InstanceFile: text, "new": []byte("2"), "own": []byte("2")},
		Files{InstanceFile: text, "old": []byte("1"), "own": []byte("3")})
	if err != nil || len(got) != 3 || string(got["new"]) != "2" || string(got["own"]) != "3" {
		t.Errorf("%v %q", err, got)
	}
	if got, err := Carry("instances/amf", Files{InstanceFile: text}, Files{InstanceFile: text, "new": text}, nil); err != nil || got != nil {
		t.Errorf("%v %q", err, got)
	}
	rev := Revision{Instance: "i", Dir: "d", Commit: "c", Tree: "t"}
	if got := ParseBeside(rev, BesideTrailer(rev).Value); got != rev {
		t.Errorf("%+v", got)
	}
	if got := ParseBeside(rev, ""); got != (Revision{}) {
		t.Errorf("%+v", got)
	}
}
