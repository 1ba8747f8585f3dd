package hot

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// nfvParam is the parameter through which a template gets values of the VNFD and of networks.
const nfvParam = "nfv"

var parameterTypes = []string{"string", "number", "json", "comma_delimited_list", "boolean"}

func checkParameters(t *template) error {
	params := section(t.tree, "parameters")
	for _, name := range sorted(params) {
		p, ok := params[name].(map[string]any)
		kind, _ := p["type"].(string)
		if !ok || !slices.Contains(parameterTypes, kind) {
			return t.fail([]string{"parameters", name}, "parameter %.80s needs a type: %s", name, strings.Join(parameterTypes, ", "))
		}
	}
	return nil
}

// cast converts a value to the type in the parameter's schema, as Heat does.
func cast(kind string, v any) (any, error) {
	convert := map[string]func(any) (any, bool){
		"string": castString, "number": castNumber, "boolean": castBoolean, "comma_delimited_list": castList, "json": castJSON,
	}[kind]
	if convert != nil {
		if out, ok := convert(v); ok {
			return out, nil
		}
	}
	return nil, fmt.Errorf("is no %s", kind)
}

func castString(v any) (any, bool) {
	switch x := v.(type) {
	case string:
		return x, true
	case bool:
		return strconv.FormatBool(x), true
	case int, int64, float64, json.Number:
		return fmt.Sprint(x), true
	}
	return nil, false
}

func castNumber(v any) (any, bool) {
	switch x := v.(type) {
	case int:
		return int64(x), true
	case int64:
		return x, true
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x), true
		}
		return x, true
	case json.Number:
		return castNumber(x.String())
	case string:
		if n, err := strconv.ParseInt(x, 10, 64); err == nil {
			return n, true
		}
		n, err := strconv.ParseFloat(x, 64)
		return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
	}
	return nil, false
}

func castBoolean(v any) (any, bool) {
	if b, ok := v.(bool); ok {
		return b, true
	}
	switch strings.ToLower(fmt.Sprint(v)) {
	case "t", "true", "on", "y", "yes", "1":
		return true, true
	case "f", "false", "off", "n", "no", "0":
		return false, true
	}
	return nil, false
}

func castList(v any) (any, bool) {
	switch x := v.(type) {
	case []any:
		return x, true
	case string:
		list := []any{}
		if x == "" {
			return list, true
		}
		for part := range strings.SplitSeq(x, ",") {
			list = append(list, strings.TrimSpace(part))
		}
		return list, true
	}
	return nil, false
}

func castJSON(v any) (any, bool) {
	switch x := v.(type) {
	case map[string]any, []any:
		return x, true
	case string:
		var out any
		err := json.Unmarshal([]byte(x), &out)
		return out, err == nil
	}
	return nil, false
}

// parameters are the values of a template's parameters.
type parameters struct {
	values map[string]any
	// hidden are parameters whose values nobody should read in a template.
	hidden map[string]bool
	// counted are the VDUs of groups whose number of members is a plain parameter, by parameter.
	counted map[string]string
}

// parametersOf gives each parameter of the top template its value: what the instance
// says, else the default. nfv is made by [Input.nfv].
func (f *Folder) parametersOf(in *Input, nfv map[string]any, places []place) (*parameters, error) {
	declared := section(f.top.tree, "parameters")
	p := &parameters{values: map[string]any{}, hidden: map[string]bool{}, counted: f.counted(places)}
	for _, name := range sorted(declared) {
		schema := section(declared, name)
		kind := schema["type"].(string)
		if hidden, err := cast("boolean", schema["hidden"]); err == nil && hidden == true {
			p.hidden[name] = true
		}
		given, has := p.given(in, nfv, name, kind, schema)
		switch {
		case !has && in.Computed:
			continue
		case !has:
			return nil, &InputError{"params." + name, fmt.Sprintf("the parameter is missing, which %s asks for: give it", f.top.file)}
		}
		v, err := cast(kind, given)
		if err != nil {
			return nil, &InputError{"params." + name, fmt.Sprintf("%s%v, as %s declares the parameter", p.shown(in, name, given), err, f.top.file)}
		}
		p.values[name] = v
	}
	return p, f.refuseUnknown(in, declared)
}

// given is the value of a parameter before it is cast; it has none where the template has no default either.
func (p *parameters) given(in *Input, nfv map[string]any, name, kind string, schema map[string]any) (value any, has bool) {
	value, has = in.Params[name]
	switch {
	case p.counted[name] != "":
		return 0, true // the number comes from the VNFD's levels, whatever the request has
	case name == nfvParam:
		value, has = nfv, true
	}
	if has && value != nil {
		return value, true
	}
	fallback, written := schema["default"]
	if written && fallback == nil {
		return "", kind == "string"
	}
	return fallback, written
}

// shown is the value for an error, or what stands for one that is secret.
func (p *parameters) shown(in *Input, name string, value any) string {
	text := fmt.Sprint(value)
	if p.hidden[name] || desired.IsSecretKey(name) || desired.IsSecretValue(text) || slices.Contains(in.Secrets, text) {
		return "its value "
	}
	return fmt.Sprintf("%.80v ", value)
}

// refuseUnknown refuses parameters that the template doesn't have.
func (f *Folder) refuseUnknown(in *Input, declared map[string]any) error {
	if in.Strict {
		for _, name := range sorted(in.Params) {
			if _, ok := declared[name]; !ok && name != nfvParam && !foreign(name) {
				return &InputError{"params." + name, fmt.Sprintf("%s has no such parameter: it has %s", f.top.file, list(sorted(declared)))}
			}
		}
	}
	if _, given := in.Params[nfvParam]; given && declared[nfvParam] == nil {
		return &InputError{"params.nfv", fmt.Sprintf("%s has no parameter nfv: it has %s", f.top.file, list(sorted(declared)))}
	}
	return nil
}

// counted are the plain parameters that the groups' desired_capacity reads.
func (f *Folder) counted(places []place) map[string]string {
	out := map[string]string{}
	for _, p := range places {
		if p.shape != Grouped {
			continue
		}
		function, arg, _ := call(section(resourceOf(f.top.resources(), p.resource), "properties")[keyCapacity])
		if name, path := first(arg); function == "get_param" && name != nfvParam && len(path) == 0 {
			out[name] = p.vdu
		}
	}
	return out
}

// foreign says whether a parameter is known to be for others than the templates.
func foreign(name string) bool {
	return strings.HasPrefix(name, "lcm-") || strings.HasPrefix(name, "helm_") || name == "namespace" || name == "all" ||
		name == "upgrade_type" || name == "vdu_params" || name == "external_lb_param"
}

// lookup is what get_param gives: nil where there is nothing at the path.
func lookup(v any, path []any) any {
	for _, step := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[fmt.Sprint(step)]
		case []any:
			i, err := strconv.Atoi(fmt.Sprint(step))
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// none is in place of the index of a member of an expanded VDU, and stands for all members.
const none = -1

// resolve fills the parameters in. Hidden parameters stay parameters, under the names that as
// gives them, and so does the number of VNFCs. A member with an index gets nfv's entries
// "<name>-<index>" where there are such, else those of the name alone.
func (p *parameters) resolve(v any, index int, as func(hidden string) string) any {
	return rewrite(v, func(function string, arg any) (any, bool) {
		if function != "get_param" {
			return nil, false
		}
		name, path := first(arg)
		value, known := p.values[name]
		switch {
		case !known || slices.ContainsFunc(path, func(x any) bool { _, _, ok := call(x); return ok }):
			return nil, false // OS::stack_name and the like, or a path that only Heat can resolve
		case p.hidden[name]:
			renamed := append([]any{as(name)}, path...)
			if len(path) == 0 {
				return map[string]any{"get_param": renamed[0]}, true
			}
			return map[string]any{"get_param": renamed}, true
		case name == nfvParam && len(path) == 3 && path[2] == keyCapacity:
			return nil, false
		}
		if name == nfvParam && index != none && len(path) > 2 {
			own := slices.Clone(path)
			own[1] = fmt.Sprintf("%v-%d", path[1], index)
			found := lookup(value, own)
			switch {
			case found != nil:
				return clone(found), true
			case path[0] == "CP" && path[2] != keyNetwork && lookup(value, own[:2]) != nil:
				return "", true // another one's address isn't its own
			}
		}
		if found := lookup(value, path); found != nil {
			return clone(found), true
		}
		return "", true // as Heat has it
	})
}

// inClear fills the parameters in, hidden ones too.
func (p *parameters) inClear(v any) any {
	open := &parameters{values: p.values, counted: p.counted}
	return open.resolve(v, none, nil)
}

// merge is base with the values of over; what over doesn't have stays.
func merge(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	for k, v := range over {
		below, isMap := v.(map[string]any)
		if under, ok := out[k].(map[string]any); ok && isMap {
			out[k] = merge(under, below)
		} else {
			out[k] = v
		}
	}
	return out
}

// sorted are the keys of a map, in order.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// list joins the names, at most 20 of them.
func list(names []string) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > 20:
		return strings.Join(names[:20], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
