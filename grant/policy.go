package grant

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// Denied is returned where the answer to a request is no. It is the end of the operation, and
// nothing was changed.
type Denied struct {
	// Status and Title are those of the NFVO's ProblemDetails; of the policy, 403.
	Status int
	Title  string
	Detail string
}

func (e *Denied) Error() string { return "the grant was refused: " + e.Detail }

// Judge holds the operation against the policy. It is a [*Denied] that names the rule where it
// isn't allowed. instances are how many instances of those that a rule is about are
// instantiated, the operation's own left out.
func (f *Facts) Judge(rules []desired.GrantRule, instances func(of func(*desired.Instance) bool) (int, error)) error {
	for _, r := range rules {
		if !f.concerns(r) {
			continue
		}
		no := func(format string, args ...any) error {
			return &Denied{Status: 403, Title: "Refused by policy", Detail: fmt.Sprintf("rule %q in %s %s", r.Name, desired.GrantingFile, fmt.Sprintf(format, args...))}
		}
		if r.Deny {
			return no("refuses %s", f.Operation.Type)
		}
		if after := f.unitsAfter(); r.MaxVNFCs > 0 && after > r.MaxVNFCs && after > f.unitsNow() {
			return no("allows at most %d VNFCs, and the VNF would have %d", r.MaxVNFCs, after)
		}
		if r.MaxInstances == 0 || f.Operation.Type != "INSTANTIATE" {
			continue
		}
		n, err := instances(func(in *desired.Instance) bool { return f.selects(r, in) })
		if err != nil {
			return err
		}
		if n >= r.MaxInstances {
			return no("allows at most %d instances, and %d are instantiated", r.MaxInstances, n)
		}
	}
	return nil
}

// concerns says whether the rule is about the operation.
func (f *Facts) concerns(r desired.GrantRule) bool {
	return (len(r.Operations) == 0 || slices.Contains(r.Operations, string(f.Operation.Type))) && f.selects(r, f.Instance)
}

// selects says whether the rule's selectors pick the instance.
func (f *Facts) selects(r desired.GrantRule, in *desired.Instance) bool {
	has := func(list []string, values ...string) bool {
		return len(list) == 0 || slices.ContainsFunc(values, func(v string) bool { return slices.Contains(list, v) })
	}
	if !has(r.VNFDs, in.VnfdID) || !has(r.Flavours, cmp.Or(in.Flavour, f.defaultFlavour(in))) {
		return false
	}
	if len(r.VIMs) == 0 {
		return true
	}
	var at []string
	if list, err := f.Settings.Places(in); err == nil {
		for _, p := range list {
			at = append(at, p.Name)
		}
	}
	return has(r.VIMs, at...)
}

// defaultFlavour is that of the VNFD, where it is the one that is at hand.
func (f *Facts) defaultFlavour(in *desired.Instance) string {
	if f.Package == nil || f.Package.VNFD == nil || f.Package.VNFD.ID != in.VnfdID {
		return ""
	}
	return f.Package.VNFD.DefaultFlavour
}

// unitsNow is how many VNFCs the VNF has.
func (f *Facts) unitsNow() int {
	n := 0
	for _, u := range f.Seen.Units {
		if !u.Deleting {
			n++
		}
	}
	return n
}

// unitsAfter is how many VNFCs the VNF has when the operation is done.
func (f *Facts) unitsAfter() int {
	n := f.unitsNow() - len(f.Moves.Leaving)
	for _, g := range f.Moves.Going {
		n -= g.Count
	}
	for _, c := range f.Moves.Coming {
		n += c.Count
	}
	return n
}
