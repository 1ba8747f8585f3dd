package openstack_test

import (
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/driverstest"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

// fastDelay is how long the fake's Heat works on a stack.
const fastDelay = 20 * time.Millisecond

// fast lets a driver look at a fake cloud as often as a second's polling is to a real one.
var fast = openstack.Options{Egress: egress.Anywhere(), Busy: 5 * time.Millisecond, Rest: 50 * time.Millisecond}

func fakeCloud(t *testing.T) *openstacktest.Cloud {
	t.Helper()
	return openstacktest.New(t, openstacktest.Options{Delay: fastDelay})
}

func TestTheContractHoldsAtAFakeCloud(t *testing.T) {
	t.Parallel()

	for name, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driverstest.Run(t, harness(fakeCloud(t).VIM(), top, speed{kit.Patience, fast}))
		})
	}
}

func TestTheContractHoldsAtARealCloud(t *testing.T) {
	t.Parallel()
	h := harness(lab(t), grouped, realSpeed)
	// The end is the longest way back; the other moments are the fake cloud's, as each
	// costs minutes here.
	h.Moments = map[string][]string{desired.Rolling: {"at the end"}, desired.BlueGreen: {"when the old one goes"}}
	if !osenv.Full() {
		// make test-openstack runs the whole suite. What is left out here, one life
		// does at the real cloud in any case: scaling, changes of package, ways back.
		h.Only = []string{"DoTwiceIsDoOnce", "WhatIsMissingIsFoundByExamine", "VerifyChangesNothing", "RefusalIsTyped", "WatchTellsOfChanges"}
	}
	driverstest.Run(t, h)
}

// harness describes the VIM to the suite of drivers, where the front end has the shape of
// the top template.
func harness(vim drivers.VIM, top string, s speed) driverstest.Harness {
	return driverstest.Harness{
		Connect: func(t *testing.T) drivers.Driver { return connect(t, vim, s.options) },
		ConnectAway: func(t *testing.T) drivers.Driver {
			away := vim
			away.Endpoint = "http://127.0.0.1:1/v3"
			return connect(t, away, s.options)
		},
		VDU:    "VDU1",
		Source: func(_ *testing.T, id string, units int) drivers.Source { return source(id, top, units) },
		Refused: func(_ *testing.T, id string) drivers.Source {
			return source(id, top, 1, "no-such-image")
		},
		Unrenderable: func(_ *testing.T, id string) drivers.Source {
			src := source(id, top, 1)
			src.Instance.Flavour = "none"
			return src
		},
		Change: func(_ *testing.T, id, strategy string) (before, after drivers.Source) {
			before, after = source(id, top, 2), source(id, top, 2, "img2")
			after.Instance.Update.Strategy = strategy
			if strategy == desired.BlueGreen {
				after.Instance.Generation = "1"
			}
			return before, after
		},
		Refusal: func(_ *testing.T, id string) (before, after drivers.Source) {
			other := expanded
			if top == expanded {
				other = grouped
			}
			before, after = source(id, top, 2), source(id, other, 2)
			after.Instance.Update.Strategy = desired.Rolling
			return before, after
		},
		// Scripts switch the traffic, and no stack goes in a rolling change.
		Moments: map[string][]string{
			desired.Rolling:   {"when the new one comes up", "at the end"},
			desired.BlueGreen: {"when the new one comes up", "when the old one goes", "at the end"},
		},
		Patience: s.patience,
	}
}

func TestAVNFLivesAtAFakeCloud(t *testing.T) {
	t.Parallel()

	for name, top := range map[string]string{"in a group": grouped, "expanded": expanded} {
		t.Run(name, func(t *testing.T) {
			cloud := fakeCloud(t)
			live(t, start(t, cloud), top)
			if left := cloud.Left(); len(left) > 0 {
				t.Errorf("terminating left %v", left)
			}
		})
	}
}

// start makes an instance at the fake cloud.
func start(t *testing.T, cloud *openstacktest.Cloud) *vnf {
	t.Helper()
	v := begin(t, cloud.VIM(), fakeSpeed)
	t.Cleanup(cloud.Clear)
	return v
}
