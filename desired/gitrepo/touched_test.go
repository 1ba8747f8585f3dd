package gitrepo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// tree makes a tree of files ("a/b": content; a content of "link:x" is a link).
func treeOf(t *testing.T, r *Repo, files map[string]string) string {
	t.Helper()
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode, text := "100644", files[name]
		if to, ok := strings.CutPrefix(text, "link:"); ok {
			mode, text = "120000", to
		}
		hash, err := r.read.Git.RunInput(t.Context(), text, "hash-object", "-w", "--stdin")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&list, "%s %s\t%s\n", mode, strings.TrimSpace(hash), name)
	}
	index := r.read.Git
	index.Env = []string{"GIT_INDEX_FILE=" + t.TempDir() + "/index"}
	if _, err := index.RunInput(t.Context(), list.String(), "update-index", "--index-info"); err != nil && list.Len() > 0 {
		t.Fatal(err)
	}
	tree, err := index.Run(t.Context(), "write-tree")
	if err != nil {
		t.Fatal(err)
	}
	return runGit(t, r.opt.Dir, "commit-tree", "-m", "x", strings.TrimSpace(tree))
}

func TestWhatAPushTouchesIsAllThatDiffers(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{})
	const vnf = "instances/east/amf/vnf.yaml"
	base := map[string]string{vnf: "1", "instances/east/amf/run.sh": "1", "instances/east/README": "1", "instances/west/smf/vnf.yaml": "1", "vims/a.yaml": "1", "repositories.yaml": "1"}
	tests := map[string]struct {
		change  map[string]string // "-" removes
		outside []string
		dirs    []string
	}{
		"nothing":                       {},
		"an instance":                   {map[string]string{vnf: "2"}, nil, []string{"instances/east/amf"}},
		"a script":                      {map[string]string{"instances/east/amf/run.sh": "2"}, nil, []string{"instances/east/amf"}},
		"a link in a folder":            {map[string]string{"instances/east/amf/a/b": "link:/x"}, nil, []string{"instances/east/amf"}},
		"a file of no instance":         {map[string]string{"instances/east/README": "2"}, nil, []string{"instances/east"}},
		"a deep file of no instance":    {map[string]string{"instances/east/x/y/z": "2"}, nil, []string{"instances/east/x/y"}},
		"a link beside instances":       {map[string]string{"instances/east/l": "link:/x"}, nil, []string{"instances/east"}},
		"one above another":             {map[string]string{"instances/east/vnf.yaml": "2"}, nil, []string{"instances/east", "instances/east/amf"}},
		"the end of one":                {map[string]string{vnf: "-", "instances/east/amf/run.sh": "-"}, nil, []string{"instances/east/amf"}},
		"a move":                        {map[string]string{vnf: "-", "instances/east/amf/run.sh": "-", "instances/west/amf/vnf.yaml": "1"}, nil, []string{"instances/east/amf", "instances/west/amf"}},
		"a VIM":                         {map[string]string{"vims/b.yaml": "1"}, []string{"vims/b.yaml"}, nil},
		"the end of all VIMs":           {map[string]string{"vims/a.yaml": "-"}, []string{"vims/a.yaml"}, nil},
		"deep beside instances":         {map[string]string{"docs/a/b/c": "1"}, []string{"docs/a"}, nil},
		"another case":                  {map[string]string{"Instances/east/amf/vnf.yaml": "1"}, []string{"Instances/east"}, nil},
		"a file in the folder's place":  {map[string]string{vnf: "-", "instances/east/amf/run.sh": "-", "instances/east/README": "-", "instances/west/smf/vnf.yaml": "-", "instances": "x"}, []string{"instances"}, []string{"instances/east", "instances/east/amf", "instances/west/smf"}},
		"a file right below instances":  {map[string]string{"instances/x": "1"}, []string{"instances"}, nil},
		"a link in a folder's place":    {map[string]string{"vims/a.yaml": "-", "vims": "link:/etc"}, []string{"vims", "vims/a.yaml"}, nil},
		"a folder with a space, and é":  {map[string]string{"instances/ east/é/vnf.yaml": "1"}, nil, []string{"instances/ east/é"}},
		"an instance's file as another": {map[string]string{"instances/east/amf/vnf.yml": "1"}, nil, []string{"instances/east/amf"}},
	}
	before := treeOf(t, r, base)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for f, text := range base {
				files[f] = text
			}
			for f, text := range tt.change {
				if files[f] = text; text == "-" {
					delete(files, f)
				}
			}
			after := treeOf(t, r, files)
			for _, way := range [][2]string{{before, after}, {after, before}} {
				got, err := r.read.Touched(t.Context(), way[0], way[1])
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(got.Outside)
				slices.Sort(got.Dirs)
				if !slices.Equal(got.Outside, tt.outside) || !slices.Equal(got.Dirs, tt.dirs) {
					t.Errorf("got %q and %q, want %q and %q", got.Outside, got.Dirs, tt.outside, tt.dirs)
				}
			}
		})
	}
}

func TestAFewTreesThatUnfoldToBillionsAreNotWalked(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{})
	blob, err := r.read.Git.RunInput(t.Context(), "x", "hash-object", "-w", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	entry := "100644 blob " + strings.TrimSpace(blob)
	var tree string
	for range 12 {
		var list strings.Builder
		for i := range 100 {
			fmt.Fprintf(&list, "%s\t%02d\n", entry, i)
		}
		out, err := r.read.Git.RunInput(t.Context(), list.String(), "mktree")
		if err != nil {
			t.Fatal(err)
		}
		tree = strings.TrimSpace(out)
		entry = "040000 tree " + tree
	}
	for _, top := range []string{"instances", "docs"} {
		root, err := r.read.Git.RunInput(t.Context(), entry+"\t"+top+"\n", "mktree")
		if err != nil {
			t.Fatal(err)
		}
		commit := runGit(t, r.opt.Dir, "commit-tree", "-m", "x", strings.TrimSpace(root))
		got, err := r.read.Touched(t.Context(), "", commit)
		if top == "instances" && !errors.Is(err, read.ErrUnfolds) {
			t.Errorf("got %v", err)
		}
		if top == "docs" && (err != nil || len(got.Outside) != 100) {
			t.Errorf("got %v of %v", err, got)
		}
	}
}
