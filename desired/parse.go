package desired

import (
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"
)

// namespace is the UUIDv5 namespace of ids that are derived from a directory. It
// is UUIDv5(DNS, "jibe-vnfm.github.io") and never changes: ids depend on it.
const namespace = "3d692d9c-4689-5b78-a2b2-55dce91db509"

const (
	maxName        = 255  // CreateVnfRequest.vnfInstanceName, as clients know it
	maxDescription = 1024 // CreateVnfRequest.vnfInstanceDescription
)

var treeHash = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// DeriveID is the id of the instance in dir ("instances/site-a/amf") when its
// file gives none. It is the same on every machine and at every time.
func DeriveID(dir string) string {
	return uuid.NewSHA1(uuid.MustParse(namespace), []byte(path.Clean(strings.Trim(dir, "/")))).String()
}

// APIDir is the directory in which the API makes a new instance:
// "instances/<2 hex digits>/<1 hex digit>/<id>". The digits are those with which the id, a random
// UUID, begins, so that a person finds it; with a million instances no folder has more than a few
// hundred entries, and a commit writes little of them. An instance stays wherever it is: who wants
// to know where looks it up.
func APIDir(id string) string { return APIDirBelow("", id) }

// APIDirBelow is [APIDir] in a folder below instances/: "instances/<folder>/<2 hex digits>/…".
func APIDirBelow(folder, id string) string {
	one, two := min(2, len(id)), min(3, len(id))
	return path.Join("instances", folder, id[:one], id[one:two], id)
}

// ParseInstance reads a vnf.yaml strictly; file is its path in the repository,
// of which the id is derived where the file gives none. Defaults are filled in.
// Values of free fields (params, metadata, …) are what JSON has: map[string]any,
// []any, string, bool, nil, int64 for an integer, float64 for any other number.
// The error is an [*InvalidError] with everything that is wrong.
func ParseInstance(file string, data []byte) (*Instance, error) {
	d := &document{file: file}
	n := d.root(data)
	if err := d.err(); err != nil {
		return nil, err
	}
	if n == nil {
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1}
	}
	in := d.instance(n)
	if err := d.err(); err != nil {
		return nil, err
	}
	in.identify(file)
	return in, nil
}

// identify fills in what follows from the path of the file.
func (in *Instance) identify(file string) {
	in.Dir = path.Dir(file)
	if in.ID == "" {
		in.ID, in.Derived = DeriveID(in.Dir), true
	}
}

// instance reads the fields of vnf.yaml.
func (d *document) instance(n *yaml.Node) *Instance {
	in := &Instance{
		State:  Instantiated,
		Update: UpdatePolicy{Strategy: Rolling},
		Drift:  DriftCorrect,
	}
	str := func(key string, to *string, most int) field {
		return field{key, func(_, v *yaml.Node) { *to = d.text(v, key, most) }}
	}
	object := func(key string, to *map[string]any) field {
		return field{key, func(_, v *yaml.Node) { *to = d.object(v, key) }}
	}
	named := false
	d.mapping(n, "",
		field{"id", func(_, v *yaml.Node) { in.ID = d.uuid(v, "id") }},
		str("name", &in.Name, maxName),
		str("description", &in.Description, maxDescription),
		field{"vnfdId", func(_, v *yaml.Node) {
			named = true
			if in.VnfdID = d.text(v, "vnfdId", maxName); v.ShortTag() == "!!str" && in.VnfdID == "" {
				d.fail(v, "name the descriptor_id of a package in repositories.yaml", "\"vnfdId\" is empty")
			}
		}},
		field{"package", func(_, v *yaml.Node) { in.Package = d.tree(v, "package") }},
		field{"base", func(_, v *yaml.Node) { in.Base = d.tree(v, "base") }},
		field{"overlays", func(_, v *yaml.Node) { in.Overlays = d.overlays(v) }},
		field{"vdus", func(_, v *yaml.Node) { in.VDUs = d.vduPins(v) }},
		field{"generation", func(_, v *yaml.Node) { in.Generation = d.generation(v) }},
		field{"follow", func(_, v *yaml.Node) { in.Follow = d.follow(v) }},
		field{"state", func(_, v *yaml.Node) { in.State = d.oneOf(v, "state", Instantiated, Stopped, NotInstantiated) }},
		str("flavour", &in.Flavour, maxName),
		str("instantiationLevel", &in.InstantiationLevel, maxName),
		field{"levels", func(_, v *yaml.Node) { in.Levels = d.levels(v) }},
		field{"update", func(_, v *yaml.Node) { d.update(v, &in.Update) }},
		field{"vim", func(_, v *yaml.Node) {
			if in.VIM = d.text(v, "vim", 0); in.VIM != "" && !settingName.MatchString(in.VIM) {
				d.fail(v, "use the name of a file under vims/, without .yaml", "%q can't name a VIM", in.VIM)
			}
		}},
		field{"vimConnectionInfo", func(_, v *yaml.Node) { in.VIMConnections = d.connections(v) }},
		field{"placement", func(_, v *yaml.Node) { in.Placement = d.placement(v) }},
		field{needsKey, func(_, v *yaml.Node) { in.Needs = d.needs(v) }},
		field{linksKey, func(_, v *yaml.Node) { in.ExtVirtualLinks = d.links(v) }},
		field{"extManagedVirtualLinks", func(_, v *yaml.Node) { in.ExtManagedVirtualLinks = d.managed(v) }},
		object("params", &in.Params),
		field{"condemned", func(_, v *yaml.Node) { in.Condemned = d.texts(v, "condemned") }},
		object("metadata", &in.Metadata),
		object("extensions", &in.Extensions),
		object("vnfConfigurableProperties", &in.ConfigurableProperties),
		field{"drift", func(_, v *yaml.Node) { in.Drift = d.oneOf(v, "drift", DriftCorrect, DriftReport) }},
		field{"hooks", func(_, v *yaml.Node) { in.Hooks = d.oneOf(v, "hooks", HooksSkip) }},
		field{"em", func(_, v *yaml.Node) {
			if in.EM = d.text(v, "em", 0); in.EM != "" && !settingName.MatchString(in.EM) {
				d.fail(v, "use the name of an entry in "+PeersFile, "%q can't name an element manager", clip(in.EM))
			}
		}},
		field{"suspend", func(_, v *yaml.Node) { in.Suspend = d.boolean(v, "suspend") }},
		field{"supersede", func(_, v *yaml.Node) { in.Supersede = d.oneOf(v, "supersede", SupersedeNever) }},
		str("held", &in.Held, maxName),
	)
	if !named && len(d.problems) == 0 {
		d.fail(n, "name the descriptor_id of a package in repositories.yaml: vnfdId: …", "\"vnfdId\" is missing")
	}
	d.stacked(n, in)
	return in
}

func (d *document) uuid(n *yaml.Node, where string) string {
	s := d.text(n, where, 0)
	if u, err := uuid.Parse(s); err == nil && len(s) == 36 {
		return u.String()
	}
	if n.ShortTag() == "!!str" {
		d.fail(n, "write a UUID, or leave it out: it is then derived from the directory", "%q isn't a UUID: %q", where, clip(s))
	}
	return ""
}

func (d *document) tree(n *yaml.Node, where string) string {
	s := d.text(n, where, 0)
	if n.ShortTag() == "!!str" && !treeHash.MatchString(s) {
		d.fail(n, "leave it out: it is filled in with the git tree hash of the package", "%q isn't a git tree hash: %q", where, clip(s))
	}
	return s
}

func (d *document) levels(n *yaml.Node) map[string]int {
	out := map[string]int{}
	d.entries(n, "levels", func(k, v *yaml.Node) {
		where := dotted("levels", k.Value)
		var level int32
		if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!int" || v.Decode(&level) != nil {
			d.fail(v, "write a whole number, without quotes", "%q is a scale level and can't be %s", where, described(v))
			return
		}
		if level < 0 {
			d.fail(v, "write 0 or more", "%q is a scale level and can't be %d", where, level)
			return
		}
		out[k.Value] = int(level)
	})
	return out
}

// described is the value itself, where it is short.
func described(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		return kindOf(n)
	}
	if n.ShortTag() == "!!str" {
		return strconv.Quote(clip(n.Value))
	}
	return clip(n.Value)
}

func (d *document) connections(n *yaml.Node) map[string]VIMConnection {
	out := map[string]VIMConnection{}
	d.entries(n, "vimConnectionInfo", func(k, v *yaml.Node) {
		where := dotted("vimConnectionInfo", k.Value)
		var c VIMConnection
		d.mapping(v, where,
			field{"vimId", func(_, v *yaml.Node) { c.VimID = d.text(v, where+".vimId", maxName) }},
			field{"vimType", func(_, v *yaml.Node) { c.VimType = d.text(v, where+".vimType", maxName) }},
			field{"interfaceInfo", func(_, v *yaml.Node) { c.InterfaceInfo = d.texts(v, where+".interfaceInfo") }},
			field{"accessInfo", func(_, v *yaml.Node) {
				c.AccessInfo = d.texts(v, where+".accessInfo")
				d.references(v, where+".accessInfo")
			}},
			field{"extra", func(_, v *yaml.Node) { c.Extra = d.object(v, where+".extra") }},
		)
		if gap, remedy := c.Gap(); gap != "" {
			d.fail(v, remedy, "%q: %s", where, gap)
		}
		out[k.Value] = c
	})
	return out
}

// references refuses values of secret keys that are in clear. The message must
// not repeat them.
func (d *document) references(n *yaml.Node, where string) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if IsSecretKey(k.Value) && v.Kind == yaml.ScalarNode && v.ShortTag() == "!!str" {
			d.reference(v, dotted(where, k.Value))
		}
	}
}

// reference reads a secret, which must be a reference.
func (d *document) reference(n *yaml.Node, where string) string {
	s := d.text(n, where, 0)
	if s != "" && !IsRef(s) || s == "" && n.ShortTag() == "!!str" {
		d.fail(n, "write \"env:NAME\", \"file:/path\" or \"age:…\" (jibe secret encrypt); a secret that was committed must be replaced, as git keeps it",
			"%q must be a reference to the secret, never the secret itself", where)
		return ""
	}
	return s
}

// clip keeps a value short.
func clip(s string) string { return clipTo(s, 60) }

func clipTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	r := []rune(s)
	return string(r[:min(most, len(r))]) + "…"
}
