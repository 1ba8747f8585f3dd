package gitrepo

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

// At a forge nobody refuses a project's file: what can't be read, and what takes another
// project's folder, counts as it last was.
func TestAProjectThatIsBrokenAtTheForgeCountsAsItLastWasAlsoAfterARestart(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		change map[string]string
		says   string
		of     map[string]string // project by directory
	}{
		"a file that can't be read": {map[string]string{"projects/north.yaml": "instances: [a]\nhook: no\n"}, "projects/north.yaml:2: ",
			map[string]string{"instances/a/x": "north", "instances/b/x": "south", "instances/c/x": "default"}},
		"a folder of another project": {map[string]string{"projects/east.yaml": "instances: [b/x]\n"}, "projects east and south both claim",
			map[string]string{"instances/a/x": "north", "instances/b/x": "south"}},
		"a folder that is taken, as both files change": {map[string]string{"projects/north.yaml": "instances: [a, b]\n", "projects/south.yaml": "instances: [b]\nhooks: false\n"},
			"projects north and south both claim", map[string]string{"instances/a/x": "north", "instances/b/x": "south"}},
		"folders that are exchanged": {map[string]string{"projects/north.yaml": "instances: [b]\n", "projects/south.yaml": "instances: [a]\n"}, "",
			map[string]string{"instances/a/x": "south", "instances/b/x": "north"}},
		"a file that goes": {map[string]string{"projects/north.yaml": ""}, "", map[string]string{"instances/a/x": "default", "instances/b/x": "south"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forge, person := forgeWith(t, map[string]string{
				"projects/north.yaml": "instances: [a]\npodSecurity: restricted\n", "projects/south.yaml": "instances: [b]\n"})
			r := openRepo(t, Options{Dir: t.TempDir() + "/desired.git", Remote: forge})
			person.change(c.change)
			followed(t, r, person)
			bothWays(t, r, func(t *testing.T, r *Repo) {
				s, err := r.Settings()
				if err != nil {
					t.Fatal(err)
				}
				for at, want := range c.of {
					if got := s.ProjectOf(at).Name; got != want {
						t.Errorf("%s is of %s, want %s", at, got, want)
					}
				}
				if north := s.Projects["north"]; c.of["instances/a/x"] == "north" && (north == nil || north.PodSecurity != desired.PodSecurityRestricted) {
					t.Errorf("north is %+v", north)
				}
				if said := problemText(r.Problems()); !strings.Contains(said, c.says) || c.says == "" && said != "" {
					t.Errorf("problems: %q, want %q", said, c.says)
				}
			})
		})
	}
}

func TestAMovedInstanceIsOfTheProjectOfItsNewFolder(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Dir: t.TempDir() + "/desired.git"})
	person := commitTo(t, r.opt.Dir)
	person.put("instances/a/x/vnf.yaml", vnfFile(testID(1), 1))
	person.push("Add")
	followed(t, r, person)
	read := func() string {
		rev, _ := r.Lookup(testID(1))
		in, err := r.read.Read(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		return in.Dir
	}
	if got := read(); got != "instances/a/x" {
		t.Errorf("read in %s", got)
	}
	person.move("instances/a", "instances/b")
	person.push("Move")
	followed(t, r, person)
	if got := read(); got != "instances/b/x" {
		t.Errorf("after a move, the same text is read in %s", got)
	}
}
