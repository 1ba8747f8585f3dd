package openstacktest

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// refusal is what Heat says of a request at once.
type refusal struct {
	status        int
	kind, message string
}

func (r *refusal) Error() string { return r.message }

func refuse(kind, format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, kind, fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *refusal {
	return refuse("StackValidationFailed", format, args...)
}

// template is a HOT document.
type template struct {
	raw       object
	resources map[string]*definition
	order     []string // as they depend on each other
}

// definition is one resource of a template.
type definition struct {
	name, kind string
	properties any
	after      []string // the resources that it depends on
	retain     bool     // deletion_policy: Retain
	raw        object
}

func parseTemplate(document any) (*template, error) {
	var raw object
	switch d := document.(type) {
	case object:
		raw = d
	case string:
		if err := yaml.Unmarshal([]byte(d), &raw); err != nil {
			return nil, refuse("HTTPBadRequest", "Template not in valid format: Error parsing template [root stack] %s", err)
		}
	}
	if raw == nil {
		return nil, refuse("HTTPBadRequest", "No template specified")
	}
	version, _ := raw["heat_template_version"].(string)
	if version == "" {
		return nil, refuse("InvalidTemplateVersion", `The template version is invalid: "%v". "heat_template_version" should be one of: 2013-05-23, …, wallaby`, raw["heat_template_version"])
	}
	for key := range raw {
		if !slices.Contains([]string{"heat_template_version", "description", "parameter_groups", "parameters", "resources", "outputs", "conditions"}, key) {
			return nil, invalid("The template section is invalid: %s", key)
		}
	}
	t := &template{raw: raw, resources: map[string]*definition{}}
	sections, isMap := raw["resources"].(object)
	if raw["resources"] != nil && !isMap {
		return nil, invalid(`"resources" must contain a map of resource maps. Found a [%T] instead`, raw["resources"])
	}
	for name, section := range sections {
		d, isMap := section.(object)
		if !isMap {
			return nil, invalid(`"resources" must contain a map of resource maps. Found a [%T] instead`, section)
		}
		kind, _ := d["type"].(string)
		if kind == "" {
			return nil, invalid("Resource %s type is not a string", name)
		}
		policy, _ := d["deletion_policy"].(string)
		t.resources[name] = &definition{name: name, kind: kind, properties: d["properties"], retain: strings.EqualFold(policy, "retain"), raw: d}
	}
	for _, d := range t.resources {
		if err := t.link(d); err != nil {
			return nil, err
		}
	}
	return t, t.sort()
}

// link notes what the resource depends on.
func (t *template) link(d *definition) error {
	need := map[string]bool{}
	switch on := d.raw["depends_on"].(type) {
	case string:
		need[on] = true
	case []any:
		for _, x := range on {
			need[fmt.Sprint(x)] = true
		}
	}
	for name := range need {
		if t.resources[name] == nil {
			return refuse("InvalidTemplateReference", `The specified reference "%s" (in %s) is incorrect.`, name, d.name)
		}
	}
	var bad error
	walk(d.properties, d.name+".Properties", func(at, function string, args any) {
		var to string
		switch function {
		case "get_resource":
			to, _ = args.(string)
		case "get_attr":
			if list, ok := args.([]any); ok && len(list) > 0 {
				to, _ = list[0].(string)
			}
		}
		switch {
		case to == "":
		case t.resources[to] == nil:
			if bad == nil {
				bad = refuse("InvalidTemplateReference", `The specified reference "%s" (in %s) is incorrect.`, to, at)
			}
		default:
			need[to] = true
		}
	})
	if d.kind == "OS::Neutron::Port" || d.kind == "OS::Nova::Server" { // as Heat has it
		for name, other := range t.resources {
			if other.kind == "OS::Neutron::Subnet" {
				need[name] = true
			}
		}
	}
	d.after = slices.Sorted(maps.Keys(need))
	return bad
}

// walk calls f with each function in the value, and where it stands.
func walk(value any, at string, f func(at, function string, args any)) {
	switch v := value.(type) {
	case object:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if len(v) == 1 {
				f(at, k, v[k])
			}
			walk(v[k], at+"."+k, f)
		}
	case []any:
		for i, x := range v {
			walk(x, at+"["+strconv.Itoa(i)+"]", f)
		}
	}
}

// sort puts the resources into an order in which each comes after what it needs.
func (t *template) sort() error {
	state := map[string]int{}
	var visit func(string) error
	visit = func(name string) error {
		switch state[name] {
		case 1:
			return refuse("CircularDependencyException", "Circular Dependency Found: %s", name)
		case 2:
			return nil
		}
		state[name] = 1
		for _, on := range t.resources[name].after {
			if err := visit(on); err != nil {
				return err
			}
		}
		state[name] = 2
		t.order = append(t.order, name)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.resources)) {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

// requiredBy are the resources that depend on the one named.
func (t *template) requiredBy(name string) []any {
	list := []any{}
	for _, other := range t.order {
		if slices.Contains(t.resources[other].after, name) {
			list = append(list, other)
		}
	}
	return list
}

// parameters are the values of the template's parameters: what is given, else the
// defaults, each of its type.
func (t *template) parameters(given object) (object, error) {
	declared, _ := t.raw["parameters"].(object)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := declared[name]; !ok {
			return nil, refuse("UnknownUserParameter", "The Parameter (%s) was not defined in template.", name)
		}
	}
	values := object{}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		schema, _ := declared[name].(object)
		value, ok := given[name]
		if !ok {
			if value, ok = schema["default"]; !ok {
				return nil, refuse("UserParameterMissing", "The Parameter (%s) was not provided.", name)
			}
		}
		typed, err := ofType(fmt.Sprint(schema["type"]), value)
		if err != nil {
			return nil, invalid("Parameter '%s' is invalid: %s", name, err)
		}
		values[name] = typed
	}
	return values, nil
}

func ofType(kind string, value any) (any, error) {
	text, isText := value.(string)
	switch kind {
	case "string":
		if value == nil {
			return "", nil
		}
		if isText {
			return text, nil
		}
		return asText(value), nil
	case "number":
		if !isText {
			return value, nil
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("could not convert string to float: '%s'", text)
		}
		return n, nil
	case "boolean":
		if b, ok := value.(bool); ok {
			return b, nil
		}
		switch strings.ToLower(asText(value)) {
		case "true", "t", "yes", "y", "on", "1":
			return true, nil
		case "false", "f", "no", "n", "off", "0", "":
			return false, nil
		}
		return nil, says("", "Unrecognized value '%v', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'", value)
	case "json":
		if !isText {
			return value, nil
		}
		var parsed any
		if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
			return nil, says("", "Value must be valid JSON: %v", err)
		}
		return parsed, nil
	case "comma_delimited_list":
		if list, ok := value.([]any); ok {
			return list, nil
		}
		list := []any{}
		for _, x := range strings.Split(asText(value), ",") {
			if x = strings.TrimSpace(x); x != "" {
				list = append(list, x)
			}
		}
		return list, nil
	}
	return nil, says("", "Invalid type (%s)", kind)
}

// nestedFile is the file that stands for a resource of this type; "" where it is one of
// Heat's own types.
func nestedFile(kind string, registry object, files map[string]string) string {
	if mapped, ok := registry[kind].(string); ok {
		kind = mapped
	}
	if _, ok := files[kind]; ok && slices.Contains([]string{".yaml", ".yml", ".template"}, path.Ext(kind)) {
		return kind
	}
	return ""
}
