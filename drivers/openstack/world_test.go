package openstack_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// The front end is in a group, the store is expanded; its volume can be healed.
const grouped = `
heat_template_version: 2018-08-31
parameters:
  nfv: {type: json}
resources:
  front_group:
    type: OS::Heat::AutoScalingGroup
    properties:
      min_size: 0
      max_size: 5
      desired_capacity: {get_param: [nfv, VDU, VDU1, desired_capacity]}
      resource:
        type: VDU1.yaml
        properties:
          flavor: {get_param: [nfv, VDU, VDU1, computeFlavourId]}
          image: {get_param: [nfv, VDU, VDU1, vcImageId]}
          network: {get_param: [nfv, CP, CP1, network]}
`

const expanded = `
heat_template_version: 2018-08-31
parameters:
  nfv: {type: json}
resources:
  VDU1:
    type: VDU1.yaml
    properties:
      flavor: {get_param: [nfv, VDU, VDU1, computeFlavourId]}
      image: {get_param: [nfv, VDU, VDU1, vcImageId]}
      network: {get_param: [nfv, CP, CP1, network]}
`

const front = `
heat_template_version: 2018-08-31
parameters:
  flavor: {type: string}
  image: {type: string}
  network: {type: string}
resources:
  VDU1:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: flavor}
      image: {get_param: image}
      networks: [{port: {get_resource: CP1}}]
  CP1:
    type: OS::Neutron::Port
    properties: {network: {get_param: network}}
`

const store = `
  VDU2:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: [nfv, VDU, VDU2, computeFlavourId]}
      image: {get_param: [nfv, VDU, VDU2, vcImageId]}
      networks: [{port: {get_resource: CP2}}]
  CP2:
    type: OS::Neutron::Port
    properties: {network: {get_param: [nfv, CP, CP2, network]}}
  data:
    type: OS::Cinder::Volume
    properties: {size: 1}
  data_attachment:
    type: OS::Cinder::VolumeAttachment
    properties: {instance_uuid: {get_resource: VDU2}, volume_id: {get_resource: data}}
`

func descriptor() *vnfd.VNFD {
	return &vnfd.VNFD{
		ID: "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177", DefaultFlavour: "simple",
		Flavours: []vnfd.Flavour{{
			ID: "simple",
			VDUs: []vnfd.VDU{
				{ID: "VDU1", Name: "VDU1", Initial: 1, Deltas: map[string]int{"front_aspect": 1}, Max: 5},
				{ID: "VDU2", Name: "VDU2", Initial: 1, Max: 1},
			},
			Aspects: []vnfd.Aspect{{ID: "front_aspect", MaxLevel: 4}},
		}},
	}
}

// source is an instance whose front end has the top template's shape.
func source(id, top string, units int, images ...string) drivers.Source {
	image := "img1"
	if len(images) > 0 {
		image = images[0]
	}
	files := fstest.MapFS{
		"BaseHOT/simple/top.yaml":         {Data: []byte(top + store)},
		"BaseHOT/simple/nested/VDU1.yaml": {Data: []byte(front)},
	}
	sum := sha256.Sum256([]byte(top + image))
	vdu := map[string]any{"computeFlavourId": "m1.tiny", "vcImageId": image}
	return drivers.Source{
		Package: &vnfd.Package{Tree: hex.EncodeToString(sum[:20]), Files: files, VNFD: descriptor()},
		Instance: &desired.Instance{
			ID: id, Flavour: "simple", Levels: map[string]int{"front_aspect": units - 1},
			Params: map[string]any{"nfv": map[string]any{
				"VDU": map[string]any{"VDU1": vdu, "VDU2": maps.Clone(vdu)},
				"CP":  map[string]any{"CP1": map[string]any{"network": "net0"}, "CP2": map[string]any{"network": "net0"}},
			}},
		},
	}
}

func condemned(src drivers.Source, incarnations map[string]string) drivers.Source {
	in := *src.Instance
	in.Condemned = incarnations
	src.Instance = &in
	return src
}

// vnf is one instance at work, as the reconciler works it.
type vnf struct {
	t     *testing.T
	vim   drivers.VIM
	speed speed
	d     *openstack.Driver
	id    string

	coordinate bool // changes of package have coordination scripts, for VDU1
	failing    int  // which call of coordinate_new fails and ends operate; 0 for none
	watch      func(plan.Observed, plan.Journal)
}

// speed is how long an operation may take at a VIM, and how often its driver looks there.
type speed struct {
	patience time.Duration
	options  openstack.Options
}

var (
	fakeSpeed = speed{kit.Patience, openstack.Options{Busy: 30 * time.Millisecond, Rest: 300 * time.Millisecond}}
	realSpeed = speed{20 * time.Minute, openstack.Options{Busy: 2 * time.Second, Rest: 5 * time.Second}}
)

func connect(t *testing.T, vim drivers.VIM, o openstack.Options) *openstack.Driver {
	t.Helper()
	o.Egress = egress.Anywhere()
	d, err := openstack.New(vim, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// begin makes an instance that is gone at the end of the test.
func begin(t *testing.T, vim drivers.VIM, s speed) *vnf {
	t.Helper()
	v := &vnf{t: t, vim: vim, speed: s, id: uuid.NewString(), d: connect(t, vim, s.options)}
	t.Cleanup(func() {
		d, err := openstack.New(vim, openstack.Options{Egress: egress.Anywhere()})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		ctx, cancel := context.WithTimeout(context.Background(), s.patience)
		defer cancel()
		nothing := drivers.Absent(&desired.Instance{ID: v.id})
		for ctx.Err() == nil {
			o, err := d.Observe(ctx, nothing)
			if err == nil {
				next := plan.Next(plan.Compute(plan.Desired{}, o, plan.Journal{}))
				if len(next) == 0 {
					return
				}
				if next[0].Action != plan.Wait {
					err = d.Do(ctx, nothing, next...)
				}
			}
			if err != nil {
				t.Logf("clean up: %v", err)
			}
			kit.Pause(ctx, s.options.Busy)
		}
		t.Errorf("instance %s is still there", v.id)
	})
	return v
}

// operate works towards the source until nothing is left to do, and returns what is there then,
// or until waiting is in vain, and returns why.
func (v *vnf) operate(src drivers.Source, j *plan.Journal) (o plan.Observed, failure string) {
	v.t.Helper()
	var last string
	kit.EventuallyWithin(v.t, v.speed.patience, func() error {
		want := v.render(src)
		var err error
		if o, err = v.d.Observe(v.t.Context(), want); err != nil {
			return err
		}
		if v.watch != nil {
			v.watch(o, *j)
		}
		next := plan.Next(plan.Compute(want.Desired, o, *j))
		if len(next) == 0 {
			return nil
		}
		if steps := fmt.Sprint(next); steps != last {
			v.t.Logf("%s", steps)
			last = steps
		}
		*j, _ = j.Issue(next)
		switch next[0].Action {
		case plan.Wait:
			if failure = next[0].Failure; failure != "" {
				return nil
			}
		case plan.Hook, plan.Drain:
			j.Begun = append(j.Begun, next[0].Object)
			if strings.HasPrefix(next[0].Object, plan.CoordinateNew) {
				if v.failing--; v.failing == 0 {
					failure = next[0].Object
					return nil
				}
			}
			j.Hooks = append(j.Hooks, next[0].Object)
		default:
			if err := v.d.Do(v.t.Context(), want, next...); err != nil {
				v.t.Logf("do %v: %v", next, err)
				return err
			}
		}
		return fmt.Errorf("left to do: %v", next)
	})
	return o, failure
}

// render is the rendering of the source, also where nothing should exist.
func (v *vnf) render(src drivers.Source) drivers.Rendering {
	v.t.Helper()
	if src.Package == nil {
		return drivers.Rendering{Source: src}
	}
	want, err := v.d.Render(src)
	if err != nil {
		v.t.Fatal(err)
	}
	if v.coordinate {
		want.CoordinateNew, want.CoordinateOld, want.CoordinateVDUs = true, true, []string{"VDU1"}
	}
	return want
}

// observe is what is there now, as the source has it.
func (v *vnf) observe(src drivers.Source) plan.Observed {
	v.t.Helper()
	o, err := v.d.Observe(v.t.Context(), v.render(src))
	if err != nil {
		v.t.Fatal(err)
	}
	return o
}

// succeed is operate in which nothing may fail.
func (v *vnf) succeed(src drivers.Source, j *plan.Journal) plan.Observed {
	v.t.Helper()
	o, failure := v.operate(src, j)
	if failure != "" {
		v.t.Fatal(failure)
	}
	return o
}

// reach is operate without an operation; nothing may fail.
func (v *vnf) reach(src drivers.Source) plan.Observed {
	v.t.Helper()
	return v.succeed(src, &plan.Journal{})
}

// gone takes the instance down.
func (v *vnf) gone() plan.Observed {
	v.t.Helper()
	return v.reach(drivers.Source{Instance: &desired.Instance{ID: v.id}})
}

func unitsOf(o plan.Observed, vdu string) []plan.Unit {
	units := slices.DeleteFunc(slices.Clone(o.Units), func(u plan.Unit) bool { return u.VDU != vdu })
	slices.SortFunc(units, func(a, b plan.Unit) int { return strings.Compare(a.Key, b.Key) })
	return units
}

func names(units []plan.Unit) []string {
	var all []string
	for _, u := range units {
		all = append(all, u.Resource())
	}
	slices.Sort(all)
	return all
}
