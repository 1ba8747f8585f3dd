package reconciler

import (
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// The parameters that name an LCM user data class, as clients of other VNF managers know
// them.
const (
	userDataParam      = "lcm-operation-user-data"
	userDataClassParam = "lcm-operation-user-data-class"
)

// userData is the program of the package with a user data class, and the class; "" where
// the instance names none.
func userData(inst *desired.Instance) (program, class string) {
	program, _ = inst.Params[userDataParam].(string)
	class, _ = inst.Params[userDataClassParam].(string)
	return program, class
}

// userData refuses half of what names a class, and a script that isn't there.
func (c *Checker) userData(pkg *vnfd.Package, inst *desired.Instance) error {
	program, class := userData(inst)
	switch {
	case (program == "") != (class == ""):
		return &drivers.RefusedError{Field: "params", Reason: fmt.Sprintf("%s and %s belong together: give both or neither", userDataParam, userDataClassParam)}
	case program != "" && !hasFile(pkg, program):
		return &drivers.RefusedError{Field: "params", Reason: fmt.Sprintf("%s: package %s of VNFD %s has no file %s", userDataParam, pkg.Tree, pkg.VNFD.ID, program)}
	}
	return nil
}

// computed renders again with what hooks of the operation have computed of the instance's
// params: that counts from then on.
func (p *pass) computed(a *attempt) error {
	if a.journal.Rollback || a.want.Source.Package == nil || len(a.op.Modified.Params) == 0 {
		return nil
	}
	inst, src := *a.want.Source.Instance, a.want.Source
	inst.Params = a.op.Modified.Patch(inst.Params)
	src.Instance = &inst
	src.Clear, src.Secrets, src.Sealed = reveal(p.Reveal).params(&inst)
	var err error
	a.want, err = a.drv.Render(src)
	return err
}
