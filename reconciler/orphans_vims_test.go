package reconciler_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// endpoints gives every VIM its endpoint, too, by which it is told from others.
type endpoints struct{}

func (endpoints) VIM(v *desired.VIM) (drivers.VIM, error) {
	return drivers.VIM{Name: v.Name, Type: v.Type, Endpoint: v.Endpoint}, nil
}

func TestOrphansAreToldFromWhatRunsByTheIdentityOfTheirVIM(t *testing.T) {
	t.Parallel()

	a, b := sim.NewCloud(), sim.NewCloud()
	w := newWorld(t, func(c *reconciler.Config) {
		c.Secrets = endpoints{}
		c.Driver = func(v drivers.VIM) (drivers.Driver, error) {
			if v.Endpoint == "https://b" {
				return sim.New(b, v), nil
			}
			return sim.New(a, v), nil
		}
	})
	vims := func(lab, other string) {
		files := map[string][]byte{
			"vims/lab.yaml":   []byte("type: sim\ndefault: true\nendpoint: " + lab + "\n"),
			"vims/twin.yaml":  []byte("type: sim\nendpoint: " + lab + "\n"),
			"vims/other.yaml": []byte("type: sim\nendpoint: " + other + "\n"),
			"vims/third.yaml": []byte("type: sim\nendpoint: " + other + "\n"),
		}
		if err := w.repo.Seed(t.Context(), files, "VIMs"); err != nil {
			t.Fatal(err)
		}
	}
	vims("https://a", "https://b")
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)

	b.Restore(a.Copy())

	list := w.orphans() // those of b once, though two drivers lead there
	if len(list) != 2 || list[0].VIM != "other" || list[1].VIM != "other" || list[0].Why != "the VNF runs at lab" {
		t.Fatalf("orphans are %+v", list)
	}
	vims("https://b", "https://a") // the VNF runs at a, where its file leads no more
	if now := w.orphans(); len(now) > 0 {
		t.Fatalf("orphans are %+v", now)
	}
	vims("https://a", "https://b")
	if _, err := w.recon.DeleteOrphans(t.Context(), shown(list)); err != nil {
		t.Fatal(err)
	}
	w.until("they are gone", func() bool { return len(b.Instances()) == 0 })
	if !slices.Contains(a.Instances(), id) || w.units("VDU1") != 1 {
		t.Errorf("what runs is %v", a.Instances())
	}
}

// between has something happen in a survey that has read the settings.
type between struct {
	desired.Repo
	then func()
}

func (r between) Problems() []*desired.Problem {
	r.then()
	return r.Repo.Problems()
}

func TestASurveyOpensNoConnectionOfFormerSettings(t *testing.T) {
	t.Parallel()

	var once sync.Once
	var meanwhile atomic.Pointer[func()]
	var mu sync.Mutex
	var made []string
	w := newWorld(t, func(c *reconciler.Config) {
		c.Secrets = endpoints{}
		settings := c.Repo
		c.Repo = between{settings, func() {
			if do := meanwhile.Load(); do != nil {
				once.Do(*do)
			}
		}}
		next := c.Driver
		c.Driver = func(v drivers.VIM) (drivers.Driver, error) {
			mu.Lock()
			made = append(made, v.Endpoint)
			mu.Unlock()
			return next(v)
		}
	})
	w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://a\n")
	w.looks()
	w.orphans()

	moves := func() { // while a survey goes by the settings that it has just read
		w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://b\n")
		if _, err := w.recon.View().FormerVIM(t.Context(), "lab"); err != nil {
			t.Error(err)
		}
	}
	meanwhile.Store(&moves)
	w.orphans()

	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(slices.Compact(made), " "); got != "https://a https://b" {
		t.Errorf("connected to %s", got)
	}
}

func TestOrphansOfAVIMThatIsAwayAreUnseen(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.comeBack("")
	list := shown(w.orphans())
	w.cloud.SetAway(errors.New("no route to host"))

	found, err := w.recon.View().Orphans(t.Context())
	_, deleted := w.recon.DeleteOrphans(t.Context(), list)

	if err != nil || len(found.Orphans) > 0 || len(found.Unseen) != 1 || found.Unseen[0].VIM != "lab" {
		t.Errorf("%+v, %v", found, err)
	}
	if !errors.Is(deleted, drivers.ErrUnavailable) {
		t.Errorf("deletion: %v", deleted)
	}
}
