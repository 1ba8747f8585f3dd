package watched

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// askedKinds is the mapper of an API server that serves nothing, and notes what it is asked for.
type askedKinds struct {
	noKinds
	asked map[schema.GroupKind]bool
}

func (m askedKinds) Find(gk schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	m.asked[gk] = true
	return m.noKinds.Find(gk)
}

// A user who may write in an instance's namespace may write its inventory, and ConfigMaps that look
// like one: a few kinds are looked for, and little is remembered of them.
func TestAnInventoryOfAnyLengthMakesLittleWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object string
		kinds  int
		asked  int
	}{
		"an inventory":          {manifest.InventoryName("i1"), 3, 3},
		"one of many kinds":     {manifest.InventoryName("i1"), 100_000, maxUnusual},
		"a ConfigMap like it":   {"forged", 3, 0},
		"one of another's name": {manifest.InventoryName("i2"), 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mapper := askedKinds{asked: map[schema.GroupKind]bool{}}
			cache := NewCache(nil, mapper, "a", nil, slog.New(slog.DiscardHandler))
			t.Cleanup(cache.Close)
			for gk := range always() {
				k := &kindCache{cache: cache, scope: scope{gk: gk}, facts: map[string]*Fact{}}
				cache.kinds[scope{gk: gk}] = k
				if err := k.Replace(nil, "1"); err != nil {
					t.Fatal(err)
				}
			}

			for round := range 20 { // another list each time
				var kinds []string
				for i := range c.kinds {
					kinds = append(kinds, fmt.Sprintf("Kind%d.round%d.example.com", i, round))
				}
				u := applied("ConfigMap", "i1", "a", nil)
				u.SetName(c.object)
				u.SetAnnotations(map[string]string{manifest.AnnotationDigest: "d", manifest.AnnotationKinds: strings.Join(kinds, ",")})
				u.SetResourceVersion(fmt.Sprint(10 + round))
				if err := cache.kinds[scope{gk: manifest.KindConfigMap}].Update(u); err != nil {
					t.Fatal(err)
				}
				if _, err := cache.Observe(t.Context(), "i1", plan.Desired{}, nil, nil, func(*Fact) bool { return false }); err != nil {
					t.Fatal(err)
				}
				if n := len(mapper.asked); n != c.asked {
					t.Fatalf("%d kinds are asked for, want %d", n, c.asked)
				}
				clear(mapper.asked)
			}

			if n := len(cache.absent); n > maxAbsent {
				t.Errorf("%d kinds are remembered that don't exist", n)
			}
		})
	}
}
