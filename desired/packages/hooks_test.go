package packages

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAChangeOfRepositoriesAloneLetsNoFurtherHooksRun(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	ours, theirs := l.upstream("ours"), l.upstream("theirs")
	l.put(ours, "vnfd-1.0", "1.0")
	good := l.commit(ours, "", "v1")
	l.put(theirs, "vnfd-1.0", "evil")
	evil := l.commit(theirs, "", "v1")
	var allowed hooks.Allowed
	if err := allowed.Set("vendor=ours#tags:v*"); err != nil {
		t.Fatal(err)
	}
	l.c.LimitHooks(allowed.Barred)
	vendor := desired.Repository{Name: "vendor", URL: "ours", Tags: "v*", Hooks: true}
	l.sync(vendor)
	if !l.c.Hooks(good) {
		t.Fatal("what the host allows may not run")
	}
	other := vendor
	other.URL = "theirs"
	further := desired.Repository{Name: "further", URL: "theirs", Tags: "v*", Hooks: true}
	for name, repos := range map[string][]desired.Repository{"another URL": {other}, "another repository": {vendor, further}} {
		p, err := l.c.Propose(t.Context(), repos)
		if err != nil {
			t.Fatal(err)
		}
		l.sync(repos...)
		for _, c := range []*Catalogue{p, l.c} {
			if ways := strings.Join(c.WaysToHooks(evil), " "); c.Hooks(evil) || !strings.Contains(ways, "--allow-hooks=") {
				t.Errorf("%s: hooks %v; %s", name, c.Hooks(evil), ways)
			}
		}
		l.sync(vendor)
	}
	// Both halves of the permission are named where both are missing.
	further.Hooks = false
	l.sync(vendor, further)
	if ways := strings.Join(l.c.WaysToHooks(evil), " "); !strings.Contains(ways, "hooks: true at repository further") || !strings.Contains(ways, "--allow-hooks=further") {
		t.Error(ways)
	}
	vendor.Hooks = false
	l.sync(vendor)
	if ways := strings.Join(l.c.WaysToHooks(good), " "); l.c.Hooks(good) || ways != "hooks: true at repository vendor in repositories.yaml" {
		t.Error(ways)
	}
}
