package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func TestPackagesWithoutTheirFilesAreAmongTheProblems(t *testing.T) {
	t.Parallel()

	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 1\n"
	_, pointers := vnfd.Load(fstest.MapFS{vnfd.MetaFile: {Data: []byte(pointer)}})
	_, broken := vnfd.Load(fstest.MapFS{vnfd.MetaFile: {Data: []byte("hello")}})
	p := Problems{packages: func() []packages.Unusable {
		return []packages.Unusable{
			{Repository: "vendor", Ref: "main", Path: "smf", Err: fmt.Errorf("it is a submodule: put the files there%w", quiet{packages.ErrNoFiles})},
			{Repository: "vendor", Ref: "main", Path: "upf", Tree: "t", Err: pointers},
			{Repository: "vendor", Ref: "main", Path: "udm", Tree: "t", Err: broken},
			{Repository: "vendor", Ref: "v1", Err: errors.New("there is no directory")},
		}
	}}

	var got []string
	for _, x := range p.ofPackages() {
		got = append(got, x.Error())
	}

	want := []string{"smf at main: it is a submodule: put the files there", "upf at main: the VNF package is invalid: " + vnfd.MetaFile + ": is a pointer of git-lfs",
		". at v1: there is no directory (correct its path, branch or tags)"}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i, x := range want {
		if !strings.HasPrefix(got[i], "repositories.yaml: repository vendor: "+x) || strings.Contains(got[i], "correct its path") != strings.Contains(x, "correct") {
			t.Errorf("%q; want %q", got[i], x)
		}
	}
}

func TestARepositoryThatCantBeReadIsAProblemNotOfTheFile(t *testing.T) {
	t.Parallel()

	p := Problems{failing: func() []*packages.RepositoryError {
		return []*packages.RepositoryError{{Repository: "vendor", Err: errors.New("git fetch: gone")}}
	}}

	got := p.ofRepositories()

	if len(got) != 1 || got[0].Repository != "vendor" || got[0].File != "repositories.yaml" || !strings.Contains(got[0].Message, "what it had is still offered: git fetch: gone") {
		t.Errorf("%+v", got)
	}
}

// quiet is an error without words.
type quiet struct{ error }

func (quiet) Error() string   { return "" }
func (q quiet) Unwrap() error { return q.error }
