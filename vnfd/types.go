package vnfd

import (
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/vnfd/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

// The types of SOL001 that mean something to Jibe. Types derived from them
// mean the same.
const (
	typeVNF            = "tosca.nodes.nfv.VNF"
	typeCompute        = "tosca.nodes.nfv.Vdu.Compute"
	typeContainer      = "tosca.nodes.nfv.Vdu.OsContainerDeployableUnit"
	typeScalingAspects = "tosca.policies.nfv.ScalingAspects"
	typeAspectDeltas   = "tosca.policies.nfv.VduScalingAspectDeltas"
	typeInitialDelta   = "tosca.policies.nfv.VduInitialDelta"
	typeLevels         = "tosca.policies.nfv.InstantiationLevels"
	typeVduLevels      = "tosca.policies.nfv.VduInstantiationLevels"
)

// typeDef is one entry of node_types or policy_types.
type typeDef struct {
	file string
	node *yaml.Node // its key
	body *yaml.Node
}

func (t *typeDef) parent() string {
	s, _ := safeyaml.Text(safeyaml.Get(t.body, "derived_from"))
	return s
}

func (l *loader) declare(types map[string]*typeDef, what, file string, section *yaml.Node) {
	for k, v := range safeyaml.Pairs(section) {
		if v.Kind != yaml.MappingNode || k.Value == "" {
			l.fail(file, k, "%s %q must have a name and be a mapping", what, k.Value)
			continue
		}
		if len(types) >= maxTemplates {
			l.fail(file, k, "the package declares more than %d of node types or policy types", maxTemplates)
			return
		}
		if old, ok := types[k.Value]; ok {
			l.fail(file, k, "%s %s is already declared at %s:%d", what, k.Value, old.file, old.node.Line)
			continue
		}
		types[k.Value] = &typeDef{file, k, v}
	}
}

// checkTypes refuses circles and unknown parents. Types whose name starts with
// "tosca." belong to a standard and needn't be declared.
func (l *loader) checkTypes(types map[string]*typeDef, what string) {
	done := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		var chain []string
		for n := name; !done[n]; {
			t, ok := types[n]
			if !ok {
				break
			}
			if i := slices.Index(chain, n); i >= 0 {
				l.fail(t.file, t.node, "%s is derived from itself: %s", what, strings.Join(append(slices.Clone(chain[i:]), n), " -> "))
				// The circle is cut here, so that nobody else goes around in it.
				t.body = &yaml.Node{Kind: yaml.MappingNode}
				break
			}
			chain = append(chain, n)
			parent := t.parent()
			if parent != "" && types[parent] == nil && !strings.HasPrefix(parent, "tosca.") {
				l.fail(t.file, t.node, "%s %s is derived from %s, which no imported file declares", what, n, parent)
			}
			n = parent
		}
		for _, n := range chain {
			done[n] = true
		}
	}
}

// lineage returns the declared types from name upwards, and whether one of the
// standard types is among its ancestors or is name itself.
func lineage(types map[string]*typeDef, name string, std ...string) ([]*typeDef, bool) {
	var chain []*typeDef
	for {
		if slices.Contains(std, name) {
			return chain, true
		}
		t, ok := types[name]
		if !ok {
			return chain, false
		}
		chain = append(chain, t)
		name = t.parent()
	}
}

func (l *loader) isVDU(name string) bool {
	_, ok := lineage(l.types, name, typeCompute, typeContainer)
	return ok
}

func (l *loader) isVNF(name string) bool {
	_, ok := lineage(l.types, name, typeVNF)
	return ok
}
