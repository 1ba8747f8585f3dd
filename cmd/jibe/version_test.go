package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheVersionIsTheLinkersElseTheModulesElseThatOfGit(t *testing.T) {
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}}
	for _, test := range []struct {
		name   string
		linked buildInfo
		info   *debug.BuildInfo
		want   buildInfo
	}{
		{name: "a release", linked: buildInfo{Version: "v1.2.3", Commit: "abc", Date: "2026-05-05T05:05:05Z"},
			info: &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}},
			want: buildInfo{Version: "v1.2.3", Commit: "abc", Date: "2026-05-05T05:05:05Z"}},
		{name: "go install of a version", info: &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, want: buildInfo{Version: "v1.2.3"}},
		{name: "go build in a clone", info: &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings},
			want: buildInfo{Version: "devel", Commit: "c0ffee", Date: "2026-01-02T03:04:05Z", Modified: true}},
		{name: "nothing is known", want: buildInfo{Version: "devel"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.GoVersion, test.want.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
			if diff := cmp.Diff(test.want, describe(test.linked, test.info)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVersionAsJSON(t *testing.T) {
	var got buildInfo
	if err := json.Unmarshal([]byte(alone(t, "version", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(built(), got); diff != "" {
		t.Error(diff)
	}
	if got.Version == "" || got.GoVersion == "" {
		t.Errorf("%+v says too little", got)
	}
}

// alone is what a command prints that needs no server.
func alone(t *testing.T, args ...string) string {
	t.Helper()
	root := newRoot()
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
