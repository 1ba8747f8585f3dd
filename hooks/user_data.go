package hooks

import (
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// The parameters that name an LCM user data class, as clients of other VNF managers know
// them.
const (
	userDataParam      = "lcm-operation-user-data"
	userDataClassParam = "lcm-operation-user-data-class"
)

// UserData returns the file of the package with the instance's LCM user data class, and
// the class; both are "" where the instance names none.
func UserData(inst *desired.Instance) (file, class string) {
	file, _ = inst.Params[userDataParam].(string)
	class, _ = inst.Params[userDataClassParam].(string)
	return file, class
}

// CheckUserData refuses an instance that names a file without a class or a class without
// a file, and a file that isn't in the package; the error is an [*InvalidError].
func CheckUserData(pkg *vnfd.Package, inst *desired.Instance) error {
	file, class := UserData(inst)
	switch {
	case (file == "") != (class == ""):
		return &InvalidError{Field: "params", Reason: fmt.Sprintf("%s and %s belong together: give both or neither", userDataParam, userDataClassParam)}
	case file != "" && !hasFile(pkg, file):
		return &InvalidError{Field: "params", Reason: fmt.Sprintf("%s: package %s of VNFD %s has no file %s", userDataParam, pkg.Tree, pkg.VNFD.ID, file)}
	}
	return nil
}
