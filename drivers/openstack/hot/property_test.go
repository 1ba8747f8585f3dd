package hot_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"pgregory.net/rapid"
)

// members are the names that live, by VDU.
func members(l hot.Live, vdu string) []string {
	var names []string
	for _, m := range l.Members[vdu] {
		names = append(names, m.Name)
	}
	return names
}

func digests(l hot.Live, vdu string) map[string]string {
	out := map[string]string{}
	for _, m := range l.Members[vdu] {
		out[m.Name] = m.Digest
	}
	return out
}

func TestNoMemberGoesOrIsRenewedThatWasNotNamedAndComposingAgainComesToTheSame(t *testing.T) {
	a := open(t, "testdata/nfv.txtar")
	old, err := a.render(t, "input.json")
	if err != nil {
		t.Fatal(err)
	}
	next, err := a.render(t, "changed.json")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{}
		packages := []*hot.Rendered{old, next}
		r := old
		b, err := r.Create(map[string]int{"VDU1": rapid.IntRange(0, 4).Draw(rt, "VDU1"), "VDU2": rapid.IntRange(0, 4).Draw(rt, "VDU2")})
		if err != nil {
			rt.Fatal(err)
		}
		w.update(r, b, nil)
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			r = packages[rapid.IntRange(0, 1).Draw(rt, "package")]
			before := w.live
			before.Members = maps.Clone(before.Members)
			if vdu := rapid.SampledFrom([]string{"", "VDU1", "VDU2"}).Draw(rt, "renewed"); vdu != "" {
				m := rapid.SampledFrom(append(members(w.live, vdu), "")).Draw(rt, "member")
				if m == "" || digests(w.live, vdu)[m] == r.VDUs[vdu].Digest {
					continue
				}
				if _, err := w.renew(r, vdu, m); err != nil {
					rt.Fatal(err)
				}
				for _, v := range []string{"VDU1", "VDU2"} {
					was, is := digests(before, v), digests(w.live, v)
					for name, d := range was {
						switch {
						case v == vdu && name == m && is[name] != r.VDUs[v].Digest:
							rt.Fatalf("%s/%s was to be renewed and is %q", v, name, is[name])
						case (v != vdu || name != m) && is[name] != d:
							rt.Fatalf("%s/%s was %s and is %q though %s/%s was to be renewed", v, name, d, is[name], vdu, m)
						}
					}
				}
				continue
			}
			want := hot.Want{Counts: map[string]int{}, Victims: map[string][]string{}}
			for _, v := range []string{"VDU1", "VDU2"} {
				for _, m := range members(w.live, v) {
					if rapid.Bool().Draw(rt, "goes") {
						want.Victims[v] = append(want.Victims[v], m)
					}
				}
				want.Counts[v] = len(w.live.Members[v]) - len(want.Victims[v]) + rapid.IntRange(0, 2).Draw(rt, "more")
			}
			b, err := r.Update(w.live, want)
			if err != nil {
				rt.Fatal(err)
			}
			w.update(r, b, want.Victims)
			for _, v := range []string{"VDU1", "VDU2"} {
				was, is := digests(before, v), digests(w.live, v)
				if len(is) != want.Counts[v] {
					rt.Fatalf("%s has %d members, not %d", v, len(is), want.Counts[v])
				}
				for name, d := range was {
					switch victim := slices.Contains(want.Victims[v], name); {
					case victim && is[name] != "":
						rt.Fatalf("%s/%s was to go", v, name)
					case !victim && is[name] == "":
						rt.Fatalf("%s/%s went", v, name)
					case !victim && is[name] != d:
						rt.Fatalf("%s/%s was renewed", v, name)
					}
				}
			}
			// The world is now as it was asked for: to ask for it again changes nothing.
			again, err := r.Update(w.live, hot.Want{Counts: want.Counts, Victims: want.Victims})
			if err != nil {
				rt.Fatal(err)
			}
			// (Files that only victims were made of aren't sent again.)
			for name, content := range again.Files {
				if b.Files[name] != content {
					rt.Fatalf("composing again sends another %s", name)
				}
			}
			again.Files = b.Files
			x, errX := b.JSON()
			y, errY := again.JSON()
			if errX != nil || errY != nil || !bytes.Equal(x, y) {
				rt.Fatalf("composing again differs:\n%s\n%s", x, y)
			}
		}
	})
}
