package desired_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestAProjectSaysWhatItsInstancesMayReferTo(t *testing.T) {
	t.Parallel()

	p, err := desired.ParseProject("projects/lisbon.yaml", []byte("secrets: ['file:/etc/jibe/lisbon/', 'file:/etc/jibe/shared/lb', 'env:JIBE_SECRET_LISBON_', 'env:JIBE_SECRET_LB']\n"))
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]bool{
		"file:/etc/jibe/lisbon/a":           true,
		"file:/etc/jibe/lisbon/a/b":         true,
		"file:/etc/jibe/lisbon":             true,
		"file:/etc/jibe/./lisbon//a":        true,
		"file:/etc/jibe/porto/../lisbon/a":  true,
		"file:/etc/jibe/lisbon/../porto/a":  false,
		"file:/etc/jibe/lisbon2/a":          false,
		"file:/etc/jibe":                    false,
		"file:/etc/jibe/shared/lb":          true,
		"file:/etc/jibe/shared/lb2":         false,
		"env:JIBE_SECRET_LISBON_A":          true,
		"env:JIBE_SECRET_LISBON":            false,
		"env:JIBE_SECRET_LISBONNE":          false,
		"env:JIBE_SECRET_LB":                true,
		"env:JIBE_SECRET_LB2":               false,
		"env:JIBE_SECRET_LB_A":              false,
		"file:JIBE_SECRET_LB":               false,
		"env:/etc/jibe/lisbon/a":            false,
		"file:/etc/jibe/shared/lb/../other": false,
	} {
		if got := p.MayName(ref); got != want {
			t.Errorf("%s: %t, want %t", ref, got, want)
		}
	}
	if (&desired.Settings{}).ProjectOf("instances/a").MayName("env:JIBE_SECRET_LB") {
		t.Error("without any file an instance may refer to a variable")
	}
	for _, bad := range []string{"file:/", "file:etc", "file:/etc/../x", "file:/etc//x", "file:/etc/*", "env:", "env:_", "env:A-B", "env:*", "age:abc", "/etc", "[]"} {
		if _, err := desired.ParseProject("projects/a.yaml", []byte("secrets: ['"+bad+"']\n")); err == nil || !strings.Contains(err.Error(), "secrets") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestAChangeBringsTheReferencesThatStoodNowhere(t *testing.T) {
	t.Parallel()

	settings := &desired.Settings{}
	settings.AddProject(&desired.Project{Name: "east", Instances: []string{"east"}})
	connected := func(dir, endpoint, token string, params map[string]any) *desired.Instance {
		return &desired.Instance{Dir: "instances/" + dir, Params: params, VIMConnections: map[string]desired.VIMConnection{"v": {
			InterfaceInfo: map[string]string{"endpoint": endpoint}, AccessInfo: map[string]string{"bearer_token": token}}}}
	}
	before := connected("east/a", "https://k:6443", "file:/s/a", map[string]any{"p": "age:YQ"})
	for name, c := range map[string]struct {
		after *desired.Instance
		want  string
	}{
		"nothing":               {connected("east/a", "https://K:6443/", "file:/s/a", map[string]any{"p": "age:YQ"}), ""},
		"another way of it":     {connected("east/a", "https://k:6443", "file:/s/./a", nil), ""},
		"another parameter":     {connected("east/b", "https://k:6443", "file:/s/a", map[string]any{"q": []any{"age:YQ"}}), ""},
		"another endpoint":      {connected("east/a", "https://l:6443", "file:/s/a", nil), "file:/s/a"},
		"a parameter's value":   {connected("east/a", "https://k:6443", "age:YQ", nil), "age:YQ"},
		"a connection's secret": {connected("east/a", "https://k:6443", "", map[string]any{"p": "file:/s/a"}), "file:/s/a"},
		"another project":       {connected("west/a", "https://k:6443", "file:/s/a", map[string]any{"p": "age:YQ"}), "file:/s/a age:YQ"},
	} {
		var got []string
		for _, r := range settings.BringsReferences(before, c.after) {
			got = append(got, r.Ref)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: it brings %v, want %q", name, got, c.want)
		}
	}
	if n := len(settings.BringsReferences(nil, before)); n != 2 {
		t.Errorf("a new instance brings %d references, want 2", n)
	}
	// A project that changes around an instance brings nothing.
	settings.Projects["east"].Instances = []string{"elsewhere"}
	if got := settings.BringsReferences(before, before); len(got) > 0 {
		t.Errorf("what stands is brought: %v", got)
	}
}
