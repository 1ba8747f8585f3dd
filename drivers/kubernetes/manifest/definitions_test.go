package manifest_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// paths are those of files under Files/kubernetes, by their names.
func paths(names ...string) []string {
	var all []string
	for _, name := range names {
		all = append(all, "Files/kubernetes/"+name)
	}
	return all
}

func TestDefinitionsCarryOverWhatARequestDoesNotList(t *testing.T) {
	type files = map[string]string
	web, db, svc := sample.Deployment("web", "cm"), sample.Deployment("db", "cm"), serviceOf("web", "{app: web}")
	whole := files{"web.yaml": web, "db.yaml": db, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "a")}
	all := []string{"web.yaml", "db.yaml", "svc.yaml", "cm.yaml"}
	for name, test := range map[string]struct {
		old, new   files
		before     []string // that are listed
		given      []string
		vdus, then []string // before and, where they differ, after
		want       []string
		refused    string
	}{
		"one of many is listed": {old: whole, new: whole, before: all, given: []string{"db.yaml"}, want: all},
		"nothing is listed":     {old: whole, new: whole, before: all, want: all},
		"there is no list":      {old: whole, new: whole},
		"nothing was listed": {old: whole, new: whole, given: []string{"web.yaml"},
			want: []string{"cm.yaml", "db.yaml", "svc.yaml", "web.yaml"}},
		"the order is another": {old: whole, new: whole, before: all, given: []string{"svc.yaml", "web.yaml"}, want: all},
		"what is new comes last": {old: whole, before: all, given: []string{"extra.yaml", "db.yaml"},
			new:  files{"web.yaml": web, "db.yaml": db, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "a"), "extra.yaml": sample.ConfigMap("extra", "a")},
			want: []string{"web.yaml", "db.yaml", "svc.yaml", "cm.yaml", "extra.yaml"}},
		"a file was renamed": {old: whole, before: all, given: []string{"web.yaml"},
			new:  files{"web.yaml": web, "database.yaml": db, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "b")},
			want: []string{"web.yaml", "database.yaml", "svc.yaml", "cm.yaml"}},
		"a file was renamed, and nothing is listed": {old: whole, before: all,
			new:  files{"web.yaml": web, "database.yaml": db, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "b")},
			want: []string{"web.yaml", "database.yaml", "svc.yaml", "cm.yaml"}},
		"a file was renamed, and its new name is listed": {old: whole, before: all, given: []string{"database.yaml"},
			new:  files{"web.yaml": web, "database.yaml": db, "twin.yaml": db, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "b")},
			want: []string{"web.yaml", "database.yaml", "svc.yaml", "cm.yaml"}},
		"a file is gone": {old: whole, before: all, given: []string{"web.yaml"},
			new:  files{"web.yaml": web, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "b")},
			want: []string{"web.yaml", "svc.yaml", "cm.yaml"}},
		"a file became two": {old: whole, before: all, given: []string{"web.yaml"},
			new:     files{"web.yaml": web, "db-a.yaml": db, "db-b.yaml": db, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "b")},
			refused: "params.lcm-kubernetes-def-files: Files/kubernetes/db.yaml is gone, and Files/kubernetes/db-a.yaml and Files/kubernetes/db-b.yaml hold what it held: list the one that takes its place"},
		"a listed file holds what an old one held": {old: whole, before: all, given: []string{"both.yaml"},
			new:  files{"both.yaml": web + "---\n" + db, "web.yaml": web, "db.yaml": db, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "a")},
			want: []string{"both.yaml", "svc.yaml", "cm.yaml"}},
		"a listed file holds a part of what an old one held": {given: []string{"web.yaml"},
			old: files{"all.yaml": web + "---\n" + svc}, before: []string{"all.yaml"},
			new:     files{"all.yaml": web + "---\n" + svc, "web.yaml": web},
			refused: "params.lcm-kubernetes-def-files: Files/kubernetes/all.yaml must be among the files for Service web, but the others have what takes the place of Deployment web: list files that hold each object once"},
		"a VDU's workload was renamed, in a file beside": {vdus: []string{"web"}, then: []string{"WEB=web-b"}, given: []string{"web-b.yaml"},
			old: files{"web.yaml": web, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "a")}, before: []string{"web.yaml", "cm.yaml", "svc.yaml"},
			new:  files{"web.yaml": web, "cm.yaml": sample.ConfigMap("cm", "a"), "web-b.yaml": sample.Deployment("web-b", "cm-b") + "---\n" + sample.ConfigMap("cm-b", "b"), "svc.yaml": svc},
			want: []string{"svc.yaml", "web-b.yaml"}},
		"a VDU's workload was renamed, and nothing is listed": {vdus: []string{"web"}, then: []string{"WEB=web-b"},
			old: files{"web.yaml": web, "svc.yaml": svc}, before: []string{"web.yaml", "svc.yaml"},
			new:  files{"web.yaml": web, "web-b.yaml": sample.Deployment("web-b", "cm-b"), "svc.yaml": svc},
			want: []string{"svc.yaml", "web-b.yaml"}},
		"a VDU's workload was renamed in its file": {vdus: []string{"web"}, then: []string{"WEB=web-b"}, given: []string{"svc.yaml"},
			old: files{"web.yaml": web, "svc.yaml": svc}, before: []string{"web.yaml", "svc.yaml"},
			new:  files{"web.yaml": sample.Deployment("web-b", "cm"), "svc.yaml": svc},
			want: []string{"web.yaml", "svc.yaml"}},
		"a map of a renamed workload is of others too": {vdus: []string{"web", "db"}, then: []string{"WEB=web-b", "DB=db"}, given: []string{"web-b.yaml"},
			old: whole, before: all,
			new:  files{"web.yaml": web, "db.yaml": db, "svc.yaml": svc, "cm.yaml": sample.ConfigMap("cm", "a"), "web-b.yaml": sample.Deployment("web-b", "cm-b")},
			want: []string{"db.yaml", "svc.yaml", "cm.yaml", "web-b.yaml"}},
		"a VDU is new": {vdus: []string{"web"}, then: []string{"WEB=web", "DB=db"}, given: []string{"web.yaml"},
			old: files{"web.yaml": web}, before: []string{"web.yaml"},
			new:  files{"web.yaml": web, "db.yaml": db, "notes.yaml": "not: a manifest"},
			want: []string{"web.yaml", "db.yaml"}},
		"a VDU is new, and in two files": {vdus: []string{"web"}, then: []string{"WEB=web", "DB=db"}, given: []string{"web.yaml"},
			old: files{"web.yaml": web}, before: []string{"web.yaml"},
			new:     files{"web.yaml": web, "db-a.yaml": db, "db-b.yaml": db},
			refused: "params.lcm-kubernetes-def-files: VDU DB (workload called db) is in Files/kubernetes/db-a.yaml and in Files/kubernetes/db-b.yaml: list the one that is meant"},
		"a file that isn't there is listed": {old: whole, new: whole, before: all, given: []string{"none.yaml"},
			refused: "params.lcm-kubernetes-def-files: the package has no file Files/kubernetes/none.yaml; see its Files/kubernetes folder"},
		"a file is listed twice": {old: whole, new: whole, before: all, given: []string{"web.yaml", "web.yaml"},
			refused: "params.lcm-kubernetes-def-files: names Files/kubernetes/web.yaml twice"},
	} {
		t.Run(name, func(t *testing.T) {
			before := sample.Packaged("i1", "ns", filesOf(test.old), sample.Workloads(test.vdus...), nil)
			if test.before != nil {
				before.Instance.Params["lcm-kubernetes-def-files"] = paths(test.before...)
			}
			after := sample.Packaged("i1", "ns", filesOf(test.new), named(test.vdus, test.then), nil)
			d := manifest.NewRenderer(nil)
			got, err := manifest.Definitions(before, after, paths(test.given...))
			if diff := cmp.Diff(test.refused, said(t, err)); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(paths(test.want...), got); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if err != nil || got == nil {
				return
			}
			if again, err := manifest.Definitions(before, after, got); err != nil || !slices.Equal(again, got) {
				t.Errorf("completed again it is another list: %v, %v", again, err)
			}
			after.Instance.Params["lcm-kubernetes-def-files"] = got
			if _, err := d.Render(after); err != nil {
				t.Error("the list can't be rendered:", err)
			}
		})
	}
}

// named is a descriptor of VDUs "ID=name", or of those that were where there are none.
func named(were, vdus []string) *vnfd.VNFD {
	if vdus == nil {
		return sample.Workloads(were...)
	}
	var names []string
	for _, v := range vdus {
		_, name, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	descriptor := sample.Workloads(names...)
	for i, v := range vdus {
		descriptor.Flavours[0].VDUs[i].ID, _, _ = strings.Cut(v, "=")
	}
	return descriptor
}

// said is what a refusal says; "" where there is none.
func said(t *testing.T, err error) string {
	t.Helper()
	var refused *drivers.RefusedError
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("%T: %v", err, err)
	}
	if err == nil {
		return ""
	}
	return refused.Error()
}

func TestDefinitionsAfterContainerUpdatesAreThoseOfTheUpdates(t *testing.T) {
	web := sample.Deployment("web", "cm")
	before := sample.Packaged("i1", "ns", filesOf(map[string]string{"cm.yaml": sample.ConfigMap("cm", "a"), "web.yaml": web}), sample.Workloads("web"), nil)
	before.Instance.Params["lcm-kubernetes-def-files"] = paths("cm.yaml", "web.yaml")
	next := filesOf(map[string]string{"cm.yaml": sample.ConfigMap("cm", "stale"), "cm_1.yaml": sample.ConfigMap("cm", "b"), "work.yaml": web})
	before = sample.Updated(before, next, paths("cm_1.yaml")...)
	in := *before.Instance
	in.Base, in.Overlays = "", nil
	after := drivers.Source{Instance: &in, Package: before.Package}
	got, err := manifest.Definitions(before, after, nil)
	if diff := cmp.Diff(paths("cm_1.yaml", "work.yaml"), got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// Whatever paths are given: they are answered by a list that renders, or refused.
func FuzzDefinitions(f *testing.F) {
	for _, seed := range []string{"Files/kubernetes/web.yaml", "../x", "", ".", "/etc/passwd", "Files/kubernetes", "Files/kubernetes/./web.yaml", "Files\\kubernetes", "\x00", "Files/kubernetes/web.yaml\nFiles/kubernetes/cm.yaml"} {
		f.Add(seed)
	}
	contents := map[string]string{"cm.yaml": sample.ConfigMap("cm", "a"), "web.yaml": sample.Deployment("web", "cm"), "broken.yaml": "a: [b", "twin.yaml": sample.ConfigMap("cm", "b")}
	d := manifest.NewRenderer(nil)
	f.Fuzz(func(t *testing.T, list string) {
		given := strings.Split(list, "\n")
		before := sample.Packaged("i1", "ns", filesOf(contents), sample.Workloads("web"), nil)
		before.Instance.Params["lcm-kubernetes-def-files"] = paths("cm.yaml", "web.yaml")
		after := sample.Packaged("i1", "ns", filesOf(contents), sample.Workloads("web"), nil)
		got, err := manifest.Definitions(before, after, given)
		if said(t, err) != "" {
			return
		}
		after.Instance.Params["lcm-kubernetes-def-files"] = got
		if _, err := d.Render(after); said(t, err) != "" {
			t.Errorf("%q gives %q, which is refused: %v", given, got, err)
		}
		if _, err := d.Render(sample.Updated(before, filesOf(contents), given...)); said(t, err) == "" {
			for _, path := range given {
				if !fs.ValidPath(path) {
					t.Errorf("a container update takes %q for a path", path)
				}
			}
		}
	})
}
