package desired_test

import (
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestWhatJibeFilledInIsMergedKeyByKey(t *testing.T) {
	const base = `# the front of site A
name: web # as the panel calls it
vnfdId: 5f1d0c2e-0001-4000-8000-000000000001

state: instantiated
levels: {web_aspect: 1}
condemned:
  Pod/a/one: u-1 # hangs
  Pod/a/two: u-2
`
	const pinned = `# the front of site A
id: 5f1d0c2e-0002-4000-8000-000000000002
name: web # as the panel calls it
vnfdId: 5f1d0c2e-0001-4000-8000-000000000001
package: a111111111111111111111111111111111111111

state: instantiated
levels: {web_aspect: 1, db_aspect: 2}
vim: kube-a
`
	for name, c := range map[string]struct {
		base, ours, theirs, want string
		conflicts                []string
	}{
		"their comments, order and change stay, and ours come": {base: base, ours: pinned,
			theirs: `vnfdId: 5f1d0c2e-0001-4000-8000-000000000001
name: web-1 # as the new panel calls it
state: instantiated
levels: {web_aspect: 3} # until Friday
condemned:
  Pod/a/one: u-1 # hangs
  Pod/a/two: u-2
  Pod/a/three: u-3
`,
			want: `id: 5f1d0c2e-0002-4000-8000-000000000002
vnfdId: 5f1d0c2e-0001-4000-8000-000000000001
name: web-1 # as the new panel calls it
state: instantiated
levels: {web_aspect: 3, db_aspect: 2} # until Friday
package: a111111111111111111111111111111111111111
vim: kube-a
condemned:
  Pod/a/three: u-3
`},
		"nothing of theirs": {base: base, ours: pinned, theirs: base + "# a note\n", want: `# the front of site A
name: web # as the panel calls it
id: 5f1d0c2e-0002-4000-8000-000000000002
vnfdId: 5f1d0c2e-0001-4000-8000-000000000001

state: instantiated
levels: {web_aspect: 1, db_aspect: 2}
package: a111111111111111111111111111111111111111
vim: kube-a
# a note
`},
		"the same from both": {base: base, ours: pinned, theirs: pinned, want: pinned},
		"other values of one key": {base: "name: web\nvnfdId: v\n", ours: "name: web\nvnfdId: v\nvim: kube-a\npackage: p\nlevels: {a: 1, b: 1}\n",
			theirs: "name: web\nvnfdId: v\nvim: kube-b\nlevels: {a: 2}\n", conflicts: []string{"levels.a", "vim"}},
		"a map that they removed and we filled":  {base: "vnfdId: v\nlevels: {a: 1}\n", ours: "vnfdId: v\nlevels: {a: 1, b: 1}\n", theirs: "vnfdId: v\n", conflicts: []string{"levels"}},
		"a key that they changed and we removed": {base: "vnfdId: v\nvim: a\n", ours: "vnfdId: v\n", theirs: "vnfdId: v\nvim: b\n", conflicts: []string{"vim"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, conflicts, err := desired.MergeInstance("instances/a/web/vnf.yaml", []byte(c.base), []byte(c.ours), []byte(c.theirs))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want || !slices.Equal(conflicts, c.conflicts) {
				t.Errorf("conflicts %q, text\n%s\nwant %q,\n%s", conflicts, got, c.conflicts, c.want)
			}
		})
	}
}

func TestATextThatIsNoInstanceIsNotMerged(t *testing.T) {
	for _, text := range []string{"name: [", "- a\n", "vnfdId: v\ncolour: red\n"} {
		if got, conflicts, err := desired.MergeInstance("instances/a/vnf.yaml", []byte("vnfdId: v\n"), []byte("vnfdId: v\nvim: a\n"), []byte(text)); err == nil {
			t.Errorf("%q: merged to %q, conflicts %q", text, got, conflicts)
		}
	}
}

func TestChangedKeysAreNamedAsTheyNest(t *testing.T) {
	got, err := desired.ChangedKeys("f", []byte("vnfdId: v\nlevels: {a: 1, b: 1}\nname: x\n"), []byte("vnfdId: v\nlevels: {a: 2, b: 1}\nvim: k\n"))
	if want := []string{"levels.a", "name", "vim"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}
