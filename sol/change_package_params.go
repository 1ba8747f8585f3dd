package sol

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// The parameters of a change of package that mean something to Jibe, beside defFiles.
const (
	upgradeType     = "upgrade_type"
	newScript       = "lcm-operation-coordinate-new-vnf"
	oldScript       = "lcm-operation-coordinate-old-vnf"
	newScriptClass  = newScript + "-class"
	oldScriptClass  = oldScript + "-class"
	vduParams       = "vdu_params"
	externalLBParam = "external_lb_param"
	drainParam      = "drain"
)

// upgradeTypes returns the strategies by the names that clients have for them.
func upgradeTypes() map[string]string {
	return map[string]string{"RollingUpdate": desired.Rolling, "Rolling update": desired.Rolling, "Blue-Green": desired.BlueGreen, "BlueGreen": desired.BlueGreen}
}

// allowedTypes lists them for an error.
const allowedTypes = `it must be "RollingUpdate" or "Blue-Green"`

// upgrade holds the additionalParams of a change of package.
type upgrade struct {
	// strategy is "" where the request names none.
	strategy   string
	coordinate desired.Coordination
	drain      string
	// files are the manifests listed, nil where none are.
	files []string
	// vdus are those that parameters are given for, in the order of the list.
	vdus []string
	// rest holds the parameters that mean nothing to Jibe itself.
	rest map[string]any
}

// policy returns how to change to the new package: as the request says, and otherwise as
// vnf.yaml does. Coordination and the VDUs to change come from the request alone: scripts and
// limits of a former change have no business in this one.
func (u upgrade) policy(now desired.UpdatePolicy) (desired.UpdatePolicy, error) {
	p := now
	p.Strategy = cmp.Or(u.strategy, now.Strategy)
	if p.Strategy != desired.Rolling && p.Strategy != desired.BlueGreen {
		return p, rest.Problem(http.StatusBadRequest, "additionalParams.%s is missing, and update.strategy of vnf.yaml is %s: %s", upgradeType, p.Strategy, allowedTypes)
	}
	p.Drain = cmp.Or(u.drain, now.Drain)
	p.Coordinate, p.VDUs = u.coordinate, nil // the limit is set when the manifests are known
	return p, nil
}

// upgradeOf reads additionalParams, without knowing the instance. Its errors name the
// parameter and never quote what may be a secret.
func upgradeOf(params map[string]any) (upgrade, error) {
	var u upgrade
	for _, key := range slices.Sorted(maps.Keys(params)) {
		if err := u.take(key, params[key]); err != nil {
			return u, err
		}
	}
	for _, pair := range [][3]string{{newScriptClass, u.coordinate.NewClass, newScript}, {oldScriptClass, u.coordinate.OldClass, oldScript}} {
		if _, script := params[pair[2]]; pair[1] != "" && !script {
			return u, rest.Problem(http.StatusBadRequest, "additionalParams.%s names a class, but additionalParams.%s is missing: give the script that has it", pair[0], pair[2])
		}
	}
	return u, nil
}

func (u *upgrade) take(key string, v any) (err error) {
	where := "additionalParams." + key
	switch key {
	case upgradeType:
		name, ok := v.(string)
		if u.strategy = upgradeTypes()[name]; !ok || u.strategy == "" {
			return rest.Problem(http.StatusBadRequest, "%s isn't known: %s", where, allowedTypes)
		}
	case defFiles:
		if err := checkDefFiles(v); err != nil {
			return err
		}
		for _, f := range v.([]any) {
			u.files = append(u.files, f.(string))
		}
	case newScript:
		u.coordinate.New, err = scriptPath(where, v)
	case oldScript:
		u.coordinate.Old, err = scriptPath(where, v)
	case newScriptClass:
		u.coordinate.NewClass, err = filled(where, v)
	case oldScriptClass:
		u.coordinate.OldClass, err = filled(where, v)
	case vduParams:
		var list []any
		if list, u.vdus, err = vduList(where, v); err == nil {
			u.hand(key, list)
		}
	case externalLBParam:
		var m map[string]any
		if m, err = reached(where, v); err == nil {
			u.hand(key, m)
		}
	case drainParam:
		u.drain, err = drainTime(where, v)
	default:
		if u.rest == nil {
			u.rest = map[string]any{}
		}
		u.rest[key] = v
	}
	return err
}

// hand gives the coordination scripts a parameter.
func (u *upgrade) hand(key string, v any) {
	if u.coordinate.Params == nil {
		u.coordinate.Params = map[string]any{}
	}
	u.coordinate.Params[key] = v
}

func filled(where string, v any) (string, error) {
	if s, ok := v.(string); ok && s != "" {
		return s, nil
	}
	return "", rest.Problem(http.StatusBadRequest, "%s must be a string that isn't empty", where)
}

// scriptPath returns the path of a script in its package; clients may write "./x" too.
func scriptPath(where string, v any) (string, error) {
	s, err := filled(where, v)
	if err != nil {
		return "", err
	}
	if p := path.Clean(s); fs.ValidPath(p) && p != "." {
		return p, nil
	}
	return "", rest.Problem(http.StatusBadRequest, "%s must be the path of a file in the package", where)
}

func drainTime(where string, v any) (string, error) {
	s, ok := v.(string)
	if d, err := time.ParseDuration(s); !ok || err != nil || d < 0 {
		return "", rest.Problem(http.StatusBadRequest, "%s must be a time such as \"30s\" or \"2m\"", where)
	}
	return s, nil
}

// vduList reads vdu_params, a list or its only entry, into the list that scripts
// get, and the VDUs that it names.
func vduList(where string, v any) (list []any, vdus []string, err error) {
	entries, ok := v.([]any)
	if _, single := v.(map[string]any); single {
		entries, ok = []any{v}, true
	}
	if !ok {
		return nil, nil, rest.Problem(http.StatusBadRequest, "%s must be a list of objects, or one object", where)
	}
	for i, e := range entries {
		at := fmt.Sprintf("%s[%d]", where, i)
		m, ok := e.(map[string]any)
		if !ok {
			return nil, nil, rest.Problem(http.StatusBadRequest, "%s must be an object", at)
		}
		id, err := filled(at+".vdu_id", m["vdu_id"])
		if err != nil {
			return nil, nil, err
		}
		m = maps.Clone(m)
		for _, part := range []string{"old_vnfc_param", "new_vnfc_param"} {
			v, given := m[part]
			if !given {
				continue
			}
			if m[part], err = reached(at+"."+part, v); err != nil {
				return nil, nil, err
			}
		}
		list, vdus = append(list, m), append(vdus, id)
	}
	return list, vdus, nil
}

// reached reads the access to a VNFC or a load balancer. Clients write the name of the
// connection point in two ways; scripts find it under cp_name.
func reached(where string, v any) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, rest.Problem(http.StatusBadRequest, "%s must be an object", where)
	}
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		name := k
		if k == "cp-name" {
			name = "cp_name"
		}
		switch name {
		case "cp_name", "ip_address", "username", "password":
			if _, ok := m[k].(string); !ok {
				return nil, rest.Problem(http.StatusBadRequest, "%s.%s must be a string", where, k)
			}
			if was, twice := out[name]; twice && was != m[k] {
				return nil, rest.Problem(http.StatusBadRequest, "%s.cp-name and %[1]s.cp_name are the same parameter, and say different things", where)
			}
		}
		out[name] = m[k]
	}
	return out, nil
}
