package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/natural"
	"github.com/jibe-vnfm/jibe/plan"
)

// picture is VNF -> VDU -> VNFC -> VIM, as far as it is seen.
type picture struct {
	VDUs []pictureVDU
	// Routes are what directs traffic to the VNF, and to which generation.
	Routes []pictureRoute
	// Generations are those that exist side by side, more than one only while a blue-green change is
	// on its way. Traffic is the one that traffic goes to.
	Generations []string
	Traffic     string
	// Failing are the VNFCs that fail, Units all that exist; More is how many aren't shown.
	Failing, Units, More int
	// Stale says that the VIM can't be seen, and that the picture is of the last record.
	Stale bool
}

// pictureVDU is a VDU with its VNFCs.
type pictureVDU struct {
	ID, VIM string
	Ready   int
	Units   []pictureUnit
}

// pictureUnit is a VNFC.
type pictureUnit struct {
	ID, Name, Kind, VIM, Node, Address, Generation string
	// State is a word, Tone its colour, and Why what a person is told of it.
	State, Tone, Why string
	// Traffic says that its generation is the one that traffic goes to.
	Traffic bool
}

// pictureRoute is an object that directs traffic.
type pictureRoute struct{ Name, Generation, Why string }

// firstGeneration is how a person reads the generation of what no blue-green change has replaced.
const firstGeneration = "0"

func newPicture(p *instancePage, seen plan.Observed, fresh bool) *picture {
	units := slices.Clone(seen.Units)
	slices.SortFunc(units, func(a, b plan.Unit) int {
		return cmp.Or(natural.Compare(a.VDU, b.VDU), natural.Compare(a.Generation, b.Generation), natural.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	pic := &picture{Stale: !fresh, Units: len(units)}
	for _, u := range units {
		if g := cmp.Or(u.Generation, firstGeneration); !slices.Contains(pic.Generations, g) {
			pic.Generations = append(pic.Generations, g)
		}
	}
	slices.SortFunc(pic.Generations, natural.Compare)
	pic.traffic(p)

	shown := 0
	for _, u := range units {
		vdu, vim := pic.vdu(u.VDU), p.vimOf(u)
		vdu.VIM = cmp.Or(vdu.VIM, vim)
		if u.Ready && !u.Deleting {
			vdu.Ready++
		}
		if fails(u) {
			pic.Failing++
		}
		if shown >= mostUnits && !(fails(u) && shown < 2*mostUnits) {
			pic.More++
			continue
		}
		shown++
		vdu.Units = append(vdu.Units, newPictureUnit(u, vim, pic.Traffic))
	}
	for _, o := range seen.Objects {
		kind, rest, _ := strings.Cut(o.Key, "/")
		if kind != "Service" && kind != "Router" || o.Deleting || len(pic.Routes) == mostListed {
			continue
		}
		pic.Routes = append(pic.Routes, pictureRoute{Name: kind + " " + rest, Generation: cmp.Or(o.Generation, pic.Traffic), Why: cmp.Or(o.Failure, o.Reason)})
	}
	return pic
}

// fails reports whether a VNFC fails.
func fails(u plan.Unit) bool { return u.Failure != "" || u.Dead != "" }

// vdu is the VDU in the picture. The VNFCs come sorted by it.
func (pic *picture) vdu(id string) *pictureVDU {
	id = cmp.Or(id, "(no VDU)")
	if n := len(pic.VDUs); n == 0 || pic.VDUs[n-1].ID != id {
		pic.VDUs = append(pic.VDUs, pictureVDU{ID: id})
	}
	return &pic.VDUs[len(pic.VDUs)-1]
}

// vimOf is the VIM that a VNFC runs at, as it says or else the instance.
func (p *instancePage) vimOf(u plan.Unit) string {
	if u.VIM != "" || p.Intent == nil {
		return u.VIM
	}
	return cmp.Or(p.Intent.Placement[u.VDU], p.Intent.VIM, firstKey(p.Intent.VIMConnections))
}

// newPictureUnit is a VNFC as it is drawn. traffic is the generation that traffic goes to.
func newPictureUnit(u plan.Unit, vim, traffic string) pictureUnit {
	x := pictureUnit{ID: u.Resource(), Name: u.Name, Kind: u.Kind, VIM: vim, Node: u.Metadata["node"], Address: cmp.Or(u.Metadata["address"], u.Metadata["ip"]),
		Generation: cmp.Or(u.Generation, firstGeneration), Why: cmp.Or(u.Failure, u.Dead, u.Reason)}
	x.Traffic = x.Generation == traffic
	switch {
	case u.Deleting:
		x.State, x.Tone = "going", "warn"
	case fails(u):
		x.State, x.Tone = "failing", "bad"
	case u.Stopped:
		x.State, x.Tone = "stopped", "plain"
	case u.Ready:
		x.State, x.Tone = "ready", "good"
	default:
		x.State, x.Tone = "not ready", "busy"
	}
	return x
}

// traffic finds the generation that traffic goes to: the one at head, but for a change of package
// that hasn't switched it yet. Such a change has the former generation beside its own.
func (pic *picture) traffic(p *instancePage) {
	if p.Intent == nil || len(pic.Generations) == 0 {
		return
	}
	pic.Traffic = cmp.Or(p.Intent.Generation, firstGeneration)
	if len(pic.Generations) == 1 {
		pic.Traffic = pic.Generations[0]
		return
	}
	if p.Open != nil && !p.Open.Journal.Redirected {
		for _, g := range pic.Generations {
			if g != cmp.Or(p.Intent.Generation, firstGeneration) {
				pic.Traffic = g
			}
		}
	}
}

func firstKey(m map[string]desired.VIMConnection) string {
	first := ""
	for k := range m {
		if first == "" || k < first {
			first = k
		}
	}
	return first
}

// count is "1 VNFC", "2 VNFCs".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
