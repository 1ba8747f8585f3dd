package desired

import (
	"regexp"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
)

// maxDrain bounds the time that a drain may ask for.
const maxDrain = time.Hour

// generationName is what may stand at the end of a Kubernetes name and in a label.
var generationName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,14}[a-z0-9])?$`)

func (d *document) update(n *yaml.Node, to *UpdatePolicy) {
	d.mapping(n, "update",
		field{"strategy", func(_, v *yaml.Node) {
			to.Strategy = d.oneOf(v, "update.strategy", Rolling, BlueGreen, Container)
		}},
		field{"coordinate", func(_, v *yaml.Node) { d.coordination(v, &to.Coordinate) }},
		field{"drain", func(_, v *yaml.Node) {
			to.Drain = d.text(v, "update.drain", 0)
			if t, err := time.ParseDuration(to.Drain); to.Drain != "" && (err != nil || t < 0 || t > maxDrain) {
				d.fail(v, "write a time as \"30s\" or \"2m\", at most "+maxDrain.String(), "%q isn't a time to drain: %q", "update.drain", clip(to.Drain))
			}
		}},
		field{"barePods", func(_, v *yaml.Node) { to.BarePods = d.boolean(v, "update.barePods") }},
		field{"allAtOnce", func(_, v *yaml.Node) { to.AllAtOnce = d.boolean(v, "update.allAtOnce") }},
		field{"vdus", func(_, v *yaml.Node) {
			d.items(v, "update.vdus", func(v *yaml.Node) {
				id := d.text(v, "update.vdus", maxName)
				if id == "" || slices.Contains(to.VDUs, id) {
					d.fail(v, "name each VDU to change once, or leave \"update.vdus\" out to change all", "\"update.vdus\" has %q, which is empty or stands there already", clip(id))
				}
				to.VDUs = append(to.VDUs, id)
			})
		}},
	)
	if len(to.VDUs) > 0 && to.Strategy == Container {
		d.fail(n, "leave it out: a container update changes the pods that use what it brings", "\"update.vdus\" can't limit a container update")
	}
}

// vduPins reads the VDUs that a change of package has left as they were.
func (d *document) vduPins(n *yaml.Node) map[string]VDUPin {
	const remedy = "entries of \"vdus\" are written by Jibe; remove one to have its VDU as \"package\" has it"
	out := map[string]VDUPin{}
	d.entries(n, "vdus", func(k, v *yaml.Node) {
		where := dotted("vdus", k.Value)
		var pin VDUPin
		d.mapping(v, where,
			field{"package", func(_, v *yaml.Node) { pin.Package = d.tree(v, dotted(where, "package")) }},
			field{"files", func(_, v *yaml.Node) {
				d.items(v, dotted(where, "files"), func(v *yaml.Node) { pin.Files = append(pin.Files, d.text(v, dotted(where, "files"), maxName)) })
			}},
		)
		if pin.Package == "" && len(d.problems) == 0 {
			d.fail(v, remedy, "%q has no \"package\"", where)
		}
		out[k.Value] = pin
	})
	return out
}

func (d *document) coordination(n *yaml.Node, to *Coordination) {
	const where = "update.coordinate"
	str := func(key string, to *string) field {
		return field{key, func(_, v *yaml.Node) { *to = d.text(v, dotted(where, key), maxName) }}
	}
	d.mapping(n, where, str("new", &to.New), str("old", &to.Old), str("newClass", &to.NewClass), str("oldClass", &to.OldClass),
		field{"params", func(_, v *yaml.Node) {
			to.Params = d.object(v, where+".params")
			d.secretsAsReferences(v, where+".params")
		}})
}

// secretsAsReferences refuses secrets in clear at any depth.
func (d *document) secretsAsReferences(n *yaml.Node, where string) {
	d.references(n, where)
	for i, v := range n.Content {
		if n.Kind == yaml.SequenceNode || i%2 == 1 {
			d.secretsAsReferences(v, where)
		}
	}
}

// DrainTime is how long connections get; 0 where none is asked for.
func (p UpdatePolicy) DrainTime() time.Duration {
	t, err := time.ParseDuration(p.Drain)
	if err != nil {
		return 0
	}
	return t
}

func (d *document) overlays(n *yaml.Node) []Overlay {
	var out []Overlay
	d.items(n, "overlays", func(v *yaml.Node) {
		var o Overlay
		d.mapping(v, "overlays",
			field{"package", func(_, v *yaml.Node) { o.Package = d.tree(v, "overlays.package") }},
			field{"paths", func(_, v *yaml.Node) {
				d.items(v, "overlays.paths", func(v *yaml.Node) { o.Paths = append(o.Paths, d.text(v, "overlays.paths", maxName)) })
			}},
		)
		if o.Package == "" && len(d.problems) == 0 {
			d.fail(v, "overlays are written by Jibe; leave them as they are", "an overlay has no \"package\"")
		}
		out = append(out, o)
	})
	return out
}

// items reads a list.
func (d *document) items(n *yaml.Node, where string, read func(v *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		if !isNull(n) {
			d.wrongType(n, where, "a list")
		}
		return
	}
	for _, v := range n.Content {
		read(v)
	}
}

func (d *document) generation(n *yaml.Node) string {
	s := d.text(n, "generation", 0)
	if s != "" && !generationName.MatchString(s) {
		d.fail(n, "use lower-case letters, digits and \"-\", at most 16, or leave it to Jibe", "%q can't end the names of objects: %q", "generation", clip(s))
	}
	return s
}

func (d *document) follow(n *yaml.Node) (f Follow) {
	if n.Kind == yaml.ScalarNode {
		f.Versions = d.text(n, "follow", maxName)
		d.constraint(n, "follow", f.Versions)
		return f
	}
	d.mapping(n, "follow",
		field{"versions", func(_, v *yaml.Node) {
			f.Versions = d.text(v, "follow.versions", maxName)
			d.constraint(v, "follow.versions", f.Versions)
		}},
		field{"branch", func(_, v *yaml.Node) {
			if f.Branch = d.text(v, "follow.branch", maxName); f.Branch != "" && !validBranch(f.Branch) {
				d.fail(v, "write the branch's short name, such as upgrades", "%q can't be a branch", clip(f.Branch))
			}
		}},
	)
	return f
}

func (d *document) constraint(n *yaml.Node, where, s string) {
	if s == "" {
		return
	}
	if _, err := semver.NewConstraint(s); err != nil {
		d.fail(n, "write a range of versions, such as \"~1.4\" or \">=2.1, <3\"", "%q isn't a constraint of versions: %v", where, err)
	}
}

// stacked refuses container updates that don't fit together.
func (d *document) stacked(n *yaml.Node, in *Instance) {
	if len(d.problems) > 0 {
		return
	}
	const remedy = "\"base\" and \"overlays\" are written by Jibe and go together; remove both to have the package's manifests apply in full"
	switch last := len(in.Overlays) - 1; {
	case last < 0 && in.Base == "":
	case last < 0:
		d.fail(n, remedy, "\"base\" stands without \"overlays\"")
	case in.Base == "":
		d.fail(n, remedy, "\"overlays\" stand without \"base\"")
	}
}
