package openstack_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

// fromVolume is front with a disk of its own, made of the image, that the server starts from.
var fromVolume = strings.Replace(front, "      image: {get_param: image}\n", "      block_device_mapping_v2: [{volume_id: {get_resource: disk}, boot_index: 0}]\n", 1) + `
  disk:
    type: OS::Cinder::Volume
    properties: {image: {get_param: image}, size: 1}
`

// flat has the server of VDU1 in the top template, without a nested file.
const flat = `
heat_template_version: 2018-08-31
parameters:
  nfv: {type: json}
resources:
  VDU1:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: [nfv, VDU, VDU1, computeFlavourId]}
      image: {get_param: [nfv, VDU, VDU1, vcImageId]}
      networks: [{port: {get_resource: CP1}}]
  CP1:
    type: OS::Neutron::Port
    properties: {network: {get_param: [nfv, CP, CP1, network]}}
`

var flatFromVolume = strings.Replace(flat, "      image: {get_param: [nfv, VDU, VDU1, vcImageId]}\n",
	"      block_device_mapping_v2: [{volume_id: {get_resource: disk}, boot_index: 0}]\n", 1) + `
  disk:
    type: OS::Cinder::Volume
    properties: {image: {get_param: [nfv, VDU, VDU1, vcImageId]}, size: 1}
`

// booted is an instance whose VDU1 has the shape of the top template, and starts from a
// volume or from an image.
func booted(id, top string, volume bool, image string) drivers.Source {
	nested := front
	if volume && top == flat {
		top = flatFromVolume
	}
	if volume {
		nested = fromVolume
	}
	src := source(id, top, 2, image)
	files := maps.Clone(src.Package.Files.(fstest.MapFS))
	files["BaseHOT/simple/nested/VDU1.yaml"] = &fstest.MapFile{Data: []byte(nested)}
	src.Package.Files = files
	return src
}

// boots are the ways from one kind of disk to the other.
var boots = map[string]bool{"from image to volume": false, "from volume to image": true}

var shapes = map[string]string{"in a group": grouped, "of a nested file": expanded, "in the top template": flat}

func TestServersMoveBetweenImagesAndVolumesAtAFakeCloud(t *testing.T) {
	t.Parallel()

	for way, volume := range boots {
		for shape, top := range shapes {
			t.Run(way+", "+shape, func(t *testing.T) {
				t.Parallel()
				cloud := fakeCloud(t)
				movesRolling(t, start(t, cloud), top, volume, 1)
				movesRolling(t, start(t, cloud), top, volume, 2)
				movesBlueGreen(t, start(t, cloud), top, volume)
				if left := cloud.Left(); len(left) > 0 {
					t.Errorf("terminating left %v", left)
				}
			})
		}
	}
}

func TestServersMoveBetweenImagesAndVolumesAtARealCloud(t *testing.T) {
	t.Parallel()
	vim := lab(t)
	osenv.NeedFull(t)
	for way, volume := range boots {
		for shape, top := range shapes {
			t.Run(way+", "+shape, func(t *testing.T) { movesRolling(t, begin(t, vim, realSpeed), top, volume, 1) })
		}
	}
	t.Run("blue-green", func(t *testing.T) { movesBlueGreen(t, begin(t, vim, realSpeed), flat, true) })
}

// movesRolling changes from one kind of disk to the other, as rolls does.
func movesRolling(t *testing.T, v *vnf, top string, volume bool, fails int) {
	t.Helper()
	was, back, now := rolls(t, v, booted(v.id, top, volume, "img1"), booted(v.id, top, !volume, "img2"), fails)
	startsFrom(t, was, volume)
	startsFrom(t, back, volume)
	startsFrom(t, now, !volume)
	if n := len(differing(was, back, "VDU1")); n != fails {
		t.Errorf("after the rollback %d servers have other ids, want those of the %d that had been renewed", n, fails)
	}
	if n := len(differing(back, now, "VDU1")); n != 2 {
		t.Errorf("after the change %d of 2 servers have other ids", n)
	}
	if n := len(differing(was, now, "VDU2")); n != 0 {
		t.Error("the server of VDU2, whose image alone is another, has another id")
	}
	v.gone()
}

// rolls makes a rolling change of an instance with two VNFCs of VDU1 and one of VDU2: it is
// rolled back when the script of the given VNFC fails, and then comes to its end. Not more
// than one VNFC of VDU1 may be away at a time, each with its script, and all keep their ports.
func rolls(t *testing.T, v *vnf, before, after drivers.Source, fails int) (was, back, now plan.Observed) {
	t.Helper()
	was = v.reach(before)
	v.coordinate = true
	v.watch = func(o plan.Observed, j plan.Journal) {
		ready, renewed := 0, 0
		for _, u := range unitsOf(o, "VDU1") {
			if u.Ready {
				ready++
			}
			if u.Ready && u.Outdated == "" {
				renewed++
			}
		}
		if ready == 0 {
			t.Errorf("no VNFC of VDU1 is ready: %+v", unitsOf(o, "VDU1"))
		}
		if scripts := len(scriptsFor(j)); !j.Rollback && renewed > scripts+1 {
			t.Errorf("%d VNFCs are renewed after %d scripts", renewed, scripts)
		}
	}
	journal := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}
	v.failing = fails
	v.operate(after, &journal)
	v.failing = 0
	if renewed := len(slices.DeleteFunc(unitsOf(v.observe(after), "VDU1"), func(u plan.Unit) bool { return u.Outdated != "" })); renewed != fails {
		t.Errorf("%d VNFCs are renewed when script %d fails", renewed, fails)
	}
	journal.Rollback, journal.Issued = true, nil
	back = v.succeed(before, &journal)
	sameAddresses(t, was, back)

	journal = plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}
	now = v.succeed(after, &journal)
	sameAddresses(t, was, now)
	if scripts := scriptsFor(journal); len(scripts) != 2 {
		t.Errorf("the scripts were %v, want one for each of 2 VNFCs", scripts)
	}
	v.coordinate, v.watch = false, nil
	return was, back, now
}

// scriptsFor are the scripts that ran for single VNFCs as they were renewed.
func scriptsFor(j plan.Journal) []string {
	return slices.DeleteFunc(slices.Clone(j.Hooks), func(h string) bool { return !strings.HasPrefix(h, plan.CoordinateNew+"@") })
}

// movesBlueGreen does so with two generations.
func movesBlueGreen(t *testing.T, v *vnf, top string, volume bool) {
	t.Helper()
	before, after := booted(v.id, top, volume, "img1"), booted(v.id, top, !volume, "img2")
	after.Instance.Generation, after.Instance.Update.Strategy = "1", desired.BlueGreen
	was := v.reach(before)
	v.coordinate = true
	journal := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}
	v.failing = 1
	v.operate(after, &journal)
	v.failing = 0
	if n := len(unitsOf(v.observe(after), "VDU1")); n != 4 {
		t.Errorf("%d servers of VDU1 stand side by side, want 4", n)
	}
	journal.Rollback, journal.Issued = true, nil
	back := v.succeed(before, &journal)
	startsFrom(t, back, volume)
	sameAddresses(t, was, back)
	if n := len(differing(was, back, "VDU1")); n != 0 {
		t.Errorf("the rollback of a blue-green change made %d servers anew", n)
	}
	journal = plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}
	now := v.succeed(after, &journal)
	startsFrom(t, now, !volume)
	if n := len(differing(was, now, "VDU1")); n != 2 {
		t.Errorf("%d of 2 servers have other ids", n)
	}
	v.coordinate = false
	v.gone()
}

// startsFrom fails unless each server of VDU1 has a disk of its own exactly where it starts from
// a volume.
func startsFrom(t *testing.T, o plan.Observed, volume bool) {
	t.Helper()
	disks := map[string]int{}
	for _, r := range o.Resources {
		if r.Kind == plan.Storage && r.Name == "disk" {
			disks[r.Unit]++
		}
	}
	units := unitsOf(o, "VDU1")
	if len(units) != 2 {
		t.Errorf("VDU1 has %d servers, want 2: %+v", len(units), units)
	}
	for _, u := range units {
		if want := map[bool]int{true: 1}[volume]; disks[u.Key] != want || u.Outdated != "" || !u.Ready {
			t.Errorf("%s has %d disks, want %d: %+v", u.Key, disks[u.Key], want, u)
		}
		delete(disks, u.Key)
	}
	if len(disks) > 0 {
		t.Errorf("there are disks of nobody: %v", disks)
	}
}

// differing are the VNFCs that aren't the servers that they were, by key; those that came
// under a key of their own are among them.
func differing(was, is plan.Observed, vdu string) []string {
	before := map[string]string{}
	for _, u := range unitsOf(was, vdu) {
		before[u.Key] = u.Resource()
	}
	var all []string
	for _, u := range unitsOf(is, vdu) {
		if u.Resource() != before[u.Key] {
			all = append(all, u.Key)
		}
	}
	return all
}

// sameAddresses fails unless each VNFC has the port that it had.
func sameAddresses(t *testing.T, was, is plan.Observed) {
	t.Helper()
	of := func(o plan.Observed) map[string]string {
		all := map[string]string{}
		for _, r := range o.Resources {
			if r.Kind == plan.LinkPort {
				all[r.Unit+" "+r.Name] = r.ID + " " + r.Addresses[0].IP
			}
		}
		return all
	}
	if a, b := of(was), of(is); len(a) == 0 || !maps.Equal(a, b) {
		t.Errorf("the ports were %v and are %v", a, b)
	}
}
