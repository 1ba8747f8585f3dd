package grant_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/grant"
	"github.com/jibe-vnfm/jibe/lcm"
)

// sealFor is [seal] for any endpoint.
func sealFor(_, clear string) (string, error) { return seal(clear) }

// seal marks what was encrypted.
func seal(clear string) (string, error) {
	return "age:" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(clear, 30))), nil
}

func must(s string, _ error) string { return s }

// answer is a grant of all that was asked for, as JSON reads it; change alters it.
func answer(t testing.TB, r *grant.Request, change func(g map[string]any)) *grant.Grant {
	t.Helper()
	infos := func(list []grant.ResourceDefinition) (out []any) {
		for _, d := range list {
			out = append(out, map[string]any{"resourceDefinitionId": d.ID})
		}
		return out
	}
	g := map[string]any{"id": "g-1", "vnfInstanceId": r.VnfInstanceID, "vnfLcmOpOccId": r.VnfLcmOpOccID,
		"addResources": infos(r.Add), "removeResources": infos(r.Remove), "updateResources": infos(r.Update)}
	if change != nil {
		change(g)
	}
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var out grant.Grant
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// each sets attributes of the entries in addResources that are for units of the VDU.
func each(r *grant.Request, g map[string]any, vdu string, attributes ...map[string]any) {
	n := 0
	for i, d := range r.Add {
		if d.Type == "COMPUTE" && d.VduID == vdu {
			for k, v := range attributes[n%len(attributes)] {
				g["addResources"].([]any)[i].(map[string]any)[k] = v
			}
			n++
		}
	}
}

func zones(names ...string) []any {
	var out []any
	for _, n := range names {
		out = append(out, map[string]any{"id": "z-" + n, "zoneId": n, "vimConnectionId": "vim-id-a"})
	}
	return out
}

func TestAGrantThatSaysNothingMoreLeavesNoFile(t *testing.T) {
	f := instantiation(t)
	next, _, err := f.Apply(f.Request(), answer(t, f.Request(), nil), sealFor)
	if err != nil || !next.IsZero() {
		t.Fatal(next, err)
	}
	if text, err := next.Format(); text != nil || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}

func TestZonesImagesFlavoursAndReservationsStandInTheFile(t *testing.T) {
	f := instantiation(t)
	r := f.Request()
	g := answer(t, r, func(g map[string]any) {
		g["zones"] = zones("az-2", "az-1")
		each(r, g, "VDU1", map[string]any{"zoneId": "z-az-2", "reservationId": "res"}, map[string]any{"zoneId": "z-az-1", "reservationId": "res"})
		g["vimAssets"] = map[string]any{
			"computeResourceFlavours": []any{map[string]any{"vnfdVirtualComputeDescId": "VDU1", "vimFlavourId": "m1.granted"}},
			"softwareImages": []any{
				map[string]any{"vnfdSoftwareImageId": "VDU1", "vimSoftwareImageId": "image-a", "vimConnectionId": "vim-id-a"},
				map[string]any{"vnfdSoftwareImageId": "VDU1", "vimSoftwareImageId": "image-b", "vimConnectionId": "cloud-b"},
			},
		}
	})
	next, _, err := f.Apply(r, g, sealFor)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]desired.GrantedVDU{"VDU1": {Zones: []string{"az-1", "az-2"}, Image: "image-a", Flavour: "m1.granted", Reservation: "res"}}
	if !reflect.DeepEqual(next.VDUs, want) || next.VIM != "" {
		t.Errorf("got %+v", next)
	}
	text, err := next.Format()
	if err != nil {
		t.Fatal(err)
	}
	back, err := desired.ParseGranted("granted.yaml", text)
	if err != nil || !back.Same(next) {
		t.Errorf("%s reads as %+v, %v", text, back, err)
	}
}

func TestTheVIMsOfAGrantArePutInPlaceOfTheInstances(t *testing.T) {
	inline := map[string]any{"vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3", "vimId": "id-new", "interfaceInfo": map[string]any{"endpoint": "https://new.example/v3"},
		"accessInfo": map[string]any{"username": "u", "password": "p4ss", "project": "p"}}
	known := map[string]any{"vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3", "vimId": "cloud-b"}
	for name, c := range map[string]struct {
		change func(r *grant.Request, g map[string]any)
		want   desired.Granted
	}{
		"the one where it would run anyway": {func(_ *grant.Request, g map[string]any) {
			g["vimConnectionInfo"] = map[string]any{"x": map[string]any{"vimType": "openstack", "vimId": "vim-id-a"}}
		}, desired.Granted{}},
		"another one that Jibe knows": {func(_ *grant.Request, g map[string]any) { g["vimConnectionInfo"] = map[string]any{"x": known} }, desired.Granted{VIM: "cloud-b"}},
		"a new one": {func(_ *grant.Request, g map[string]any) { g["vimConnectionInfo"] = map[string]any{"new": inline} }, desired.Granted{VIM: "new",
			VIMConnections: map[string]desired.VIMConnection{"new": {VimID: "id-new", VimType: desired.VIMOpenStack, InterfaceInfo: map[string]string{"endpoint": "https://new.example/v3"},
				AccessInfo: map[string]string{"username": "u", "password": must(seal("p4ss")), "project": "p"}}}}},
		"one for each VDU": {func(r *grant.Request, g map[string]any) {
			g["vimConnectionInfo"] = map[string]any{"x": known, "a": map[string]any{"vimType": "openstack", "vimId": "vim-id-a"}}
			each(r, g, "VDU1", map[string]any{"vimConnectionId": "a"})
			each(r, g, "VDU2", map[string]any{"vimConnectionId": "x"})
		}, desired.Granted{VDUs: map[string]desired.GrantedVDU{"VDU2": {VIM: "cloud-b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := instantiation(t)
			r := f.Request()
			next, _, err := f.Apply(r, answer(t, r, func(g map[string]any) { c.change(r, g) }), sealFor)
			if err != nil {
				t.Fatal(err)
			}
			if !next.Same(&c.want) {
				t.Errorf("got %+v, want %+v", next, c.want)
			}
			f.Instance.Granted = next
			if at, err := f.Settings.MainPlace(f.Instance); c.want.VIM != "" && (err != nil || at.Name != c.want.VIM) {
				t.Errorf("it runs at %v, %v", at, err)
			}
		})
	}
}

func TestLinksOfAGrantStandBesideTheInstancesOwnAndInsteadOfThem(t *testing.T) {
	f := instantiation(t)
	own := desired.ExtVirtualLink{ID: "mgmt", ResourceID: "net-asked", ExtCps: []desired.ExtCp{{CpdID: "CP1", CpConfig: map[string]desired.ExtCpConfig{"c": {LinkPortID: "p"}}}}}
	f.Instance.ExtVirtualLinks = []desired.ExtVirtualLink{own}
	r := f.Request()
	link := func(id, network, cp string) map[string]any {
		return map[string]any{"id": id, "resourceId": network, "extCps": []any{map[string]any{"cpdId": cp, "cpConfig": map[string]any{id: map[string]any{"cpProtocolData": []any{map[string]any{"layerProtocol": "IP_OVER_ETHERNET"}}}}}}}
	}
	next, _, err := f.Apply(r, answer(t, r, func(g map[string]any) {
		g["extVirtualLinks"] = []any{link("mgmt", "net-granted", "CP1"), link("data", "net-data", "CP2")}
	}), sealFor)
	if err != nil {
		t.Fatal(err)
	}
	f.Instance.Granted = next
	networks := func() (out []string) {
		for _, l := range f.Instance.WithGrant().ExtVirtualLinks {
			out = append(out, l.ResourceID)
		}
		return out
	}
	if got := networks(); !reflect.DeepEqual(got, []string{"net-granted", "net-data"}) {
		t.Errorf("the networks are %v", got)
	}
	f.Instance.ExtVirtualLinks[0].ResourceID = "net-later" // a person has chosen another since
	if got := networks(); !reflect.DeepEqual(got, []string{"net-later", "net-data"}) {
		t.Errorf("the networks are %v: what a person says later counts", got)
	}
}

// A scale-out must not make anew what runs: one template makes all units of a VDU.
func TestAGrantNeverMakesAnewWhatStays(t *testing.T) {
	f := scaleOut(t)
	f.Instance.Granted = &desired.Granted{VDUs: map[string]desired.GrantedVDU{"VDU1": {Zones: []string{"az-1", "az-2"}}}}
	r := f.Request()
	in := func(zone string) *grant.Grant {
		return answer(t, r, func(g map[string]any) {
			g["zones"] = zones(zone)
			each(r, g, "VDU1", map[string]any{"zoneId": "z-" + zone})
		})
	}
	next, _, err := f.Apply(r, in("az-2"), sealFor)
	if err != nil || !next.Same(f.Instance.Granted) {
		t.Errorf("a zone among those that it has: %+v, %v", next, err)
	}
	var wrong *grant.WrongError
	if _, _, err := f.Apply(r, in("az-3"), sealFor); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "az-3") {
		t.Errorf("another zone: %v", err)
	}
	f.Instance.Granted = nil
	next, notes, err := f.Apply(r, in("az-3"), sealFor)
	if err != nil || !next.IsZero() || len(notes) != 1 || !strings.Contains(notes[0], "az-3") {
		t.Errorf("a zone for what was made without one: %+v, %v, %v", next, notes, err)
	}
	f.Moves.Leaving = []string{"server-1@1"} // all of VDU1 is made anew
	if next, _, err = f.Apply(r, in("az-3"), sealFor); err != nil || next.VDUs["VDU1"].Zones[0] != "az-3" {
		t.Errorf("%+v, %v", next, err)
	}
}

func TestAnInstantiationForgetsWhatWasGrantedToAFormerOne(t *testing.T) {
	f := instantiation(t)
	f.Instance.Granted = &desired.Granted{VDUs: map[string]desired.GrantedVDU{"VDU1": {Zones: []string{"old"}}}}
	next, _, err := f.Apply(f.Request(), answer(t, f.Request(), nil), sealFor)
	if err != nil || !next.IsZero() {
		t.Errorf("%+v, %v", next, err)
	}
	if f.Operation.Type != lcm.Instantiate {
		t.Error("it is no instantiation")
	}
}

// A grant is up to 4 MiB of an NFVO's words: what of it gets into records, commits and errors is
// bounded, and so is the work that it makes.
func TestAGrantOfAnyLengthMakesShortWork(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	many := func(n int, entry func(i int) any) (list []any) {
		for i := range n {
			list = append(list, entry(i))
		}
		return list
	}
	for name, c := range map[string]struct {
		change func(r *grant.Request, g map[string]any)
		says   string
	}{
		"a long id":                   {func(_ *grant.Request, g map[string]any) { g["id"] = long }, "id"},
		"an id of several lines":      {func(_ *grant.Request, g map[string]any) { g["id"] = "g-1\nVnf-Lcm-Op-Occ: other" }, "id"},
		"an id that a terminal obeys": {func(_ *grant.Request, g map[string]any) { g["id"] = "g-1\x1b[2J" }, "id"},
		"many links": {func(_ *grant.Request, g map[string]any) {
			g["extVirtualLinks"] = many(100_000, func(i int) any { return map[string]any{"id": strconv.Itoa(i)} })
		}, "100000 extVirtualLinks"},
		"many managed links": {func(_ *grant.Request, g map[string]any) {
			g["extManagedVirtualLinks"] = many(100_000, func(i int) any { return map[string]any{"id": strconv.Itoa(i)} })
		}, "100000 extManagedVirtualLinks"},
		"many zones": {func(_ *grant.Request, g map[string]any) {
			g["zones"] = many(100_000, func(i int) any { return map[string]any{"id": strconv.Itoa(i), "zoneId": "z"} })
		}, "100000 zones"},
		"many VIMs": {func(_ *grant.Request, g map[string]any) {
			all := map[string]any{}
			for i := range 50_000 {
				all[strconv.Itoa(i)] = map[string]any{"vimType": "kubernetes", "interfaceInfo": map[string]any{"endpoint": "https://x"}}
			}
			g["vimConnectionInfo"] = all
		}, "50000 vimConnectionInfo"},
		"many images": {func(_ *grant.Request, g map[string]any) {
			g["vimAssets"] = map[string]any{"softwareImages": many(50_000, func(int) any { return map[string]any{"vnfdSoftwareImageId": "VDU1"} })}
		}, "50000 vimAssets"},
		"a long type of VIM": {func(r *grant.Request, g map[string]any) {
			g["vimConnectionInfo"] = map[string]any{"x": map[string]any{"vimType": long, "interfaceInfo": map[string]any{"endpoint": "https://x"}, "accessInfo": map[string]any{"a": "b"}}}
			each(r, g, "VDU1", map[string]any{"vimConnectionId": "x"})
		}, "isn't known"},
		"several VIMs with long names": {func(r *grant.Request, g map[string]any) {
			each(r, g, "VDU1", map[string]any{"vimConnectionId": long}, map[string]any{"vimConnectionId": long + "\x1b[2J"})
		}, "several VIMs"},
		"several reservations with long names": {func(r *grant.Request, g map[string]any) {
			each(r, g, "VDU1", map[string]any{"reservationId": long}, map[string]any{"reservationId": long + "y"})
		}, "several reservations"},
		"a long zone": {func(r *grant.Request, g map[string]any) {
			g["zones"] = []any{map[string]any{"id": "z", "zoneId": long}}
			each(r, g, "VDU1", map[string]any{"zoneId": "z"})
		}, "at most 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := instantiation(t)
			r := f.Request()

			next, _, err := f.Apply(r, answer(t, r, func(g map[string]any) { c.change(r, g) }), sealFor)

			var wrong *grant.WrongError
			if !errors.As(err, &wrong) || next != nil {
				t.Fatalf("it is followed: %.200v", err)
			}
			if text := err.Error(); len(text) > 2000 || strings.ContainsAny(text, "\n\x1b") || !strings.Contains(text, c.says) {
				t.Errorf("%d bytes, want %q: %.200q", len(text), c.says, text)
			}
		})
	}
}

func TestAWrongGrantIsRefusedWithWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *grant.Request, g map[string]any)
		says   string
	}{
		"no id":             {func(_ *grant.Request, g map[string]any) { g["id"] = "" }, "no id"},
		"another instance":  {func(_ *grant.Request, g map[string]any) { g["vnfInstanceId"] = "other" }, `VNF instance "other"`},
		"another operation": {func(_ *grant.Request, g map[string]any) { g["vnfLcmOpOccId"] = "other" }, `operation "other"`},
		"an unknown resource": {func(_ *grant.Request, g map[string]any) {
			g["addResources"] = append(g["addResources"].([]any), map[string]any{"resourceDefinitionId": "nobody"})
		}, `"nobody", which wasn't asked for`},
		"a resource twice": {func(_ *grant.Request, g map[string]any) {
			g["addResources"] = append(g["addResources"].([]any), g["addResources"].([]any)[0])
		}, "twice"},
		"only some": {func(_ *grant.Request, g map[string]any) { g["addResources"] = g["addResources"].([]any)[:2] }, "2 of the"},
		"what nobody asked for": {func(_ *grant.Request, g map[string]any) {
			g["tempResources"] = []any{map[string]any{"resourceDefinitionId": "x"}}
		}, "tempResources"},
		"an unknown zone": {func(r *grant.Request, g map[string]any) { each(r, g, "VDU1", map[string]any{"zoneId": "z9"}) }, `zone "z9"`},
		"an unknown VIM":  {func(r *grant.Request, g map[string]any) { each(r, g, "VDU1", map[string]any{"vimConnectionId": "v9"}) }, `VIM "v9"`},
		"a VIM by nothing but its name": {func(_ *grant.Request, g map[string]any) {
			g["vimConnectionInfo"] = map[string]any{"x": map[string]any{"vimType": "openstack", "vimId": "nobody"}}
		}, `vimId "nobody"`},
		"one VDU at two VIMs": {func(r *grant.Request, g map[string]any) {
			each(r, g, "VDU1", map[string]any{"vimConnectionId": "cloud-a"}, map[string]any{"vimConnectionId": "cloud-b"})
		}, "several VIMs"},
		"a connection with a command": {func(_ *grant.Request, g map[string]any) {
			g["vimConnectionInfo"] = map[string]any{"x": map[string]any{"vimType": "kubernetes", "interfaceInfo": map[string]any{"endpoint": "https://x"}, "accessInfo": map[string]any{"exec": "sh"}}}
		}, "accessInfo.exec"},
		"a connection with a reference": {func(_ *grant.Request, g map[string]any) {
			g["vimConnectionInfo"] = map[string]any{"x": map[string]any{"vimType": "kubernetes", "interfaceInfo": map[string]any{"endpoint": "https://x"}, "accessInfo": map[string]any{"bearer_token": "file:/etc/shadow"}}}
		}, "is a reference"},
		"an unknown image": {func(_ *grant.Request, g map[string]any) {
			g["vimAssets"] = map[string]any{"softwareImages": []any{map[string]any{"vnfdSoftwareImageId": "nobody", "vimSoftwareImageId": "i"}}}
		}, `"nobody", which flavour simple`},
		"a link without a network": {func(_ *grant.Request, g map[string]any) {
			g["extVirtualLinks"] = []any{map[string]any{"id": "l", "resourceId": "", "extCps": []any{}}}
		}, "resourceId"},
		"a VIM for what runs elsewhere": {nil, "isn't taken to another VIM"},
	} {
		t.Run(name, func(t *testing.T) {
			f := instantiation(t)
			if c.change == nil {
				f = scaleOut(t)
				c.change = func(r *grant.Request, g map[string]any) {
					each(r, g, "VDU1", map[string]any{"vimConnectionId": "cloud-b"})
				}
			}
			r := f.Request()
			_, _, err := f.Apply(r, answer(t, r, func(g map[string]any) { c.change(r, g) }), sealFor)
			var wrong *grant.WrongError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want it to say %q", err, c.says)
			}
		})
	}
}
