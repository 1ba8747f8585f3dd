package vnfd

import (
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

// The types of SOL001 that Jibe knows. It treats types derived from them the same.
const (
	typeVNF            = "tosca.nodes.nfv.VNF"
	typeCompute        = "tosca.nodes.nfv.Vdu.Compute"
	typeContainer      = "tosca.nodes.nfv.Vdu.OsContainerDeployableUnit"
	typeVduCp          = "tosca.nodes.nfv.VduCp"
	typeVirtualLink    = "tosca.nodes.nfv.VnfVirtualLink"
	typeBlockStorage   = "tosca.nodes.nfv.Vdu.VirtualBlockStorage"
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
	// parent is derived_from, or "". checkTypes clears it in a circle, and in a line of
	// descent that is too long.
	parent string
}

// maxDerivation is how many ancestors a type may have.
const maxDerivation = 32

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
		types[k.Value] = &typeDef{file, k, v, l.text(file, v, "derived_from")}
	}
}

// checkTypes refuses circles, unknown parents and lines of descent that are too long. Types
// whose name starts with "tosca." belong to a standard and needn't be declared.
func (l *loader) checkTypes(types map[string]*typeDef, what string) {
	depth := map[string]int{} // of the types that are checked
	for _, name := range slices.Sorted(maps.Keys(types)) {
		var chain []string
		on := map[string]bool{}
		for n := name; types[n] != nil && depth[n] == 0; {
			t := types[n]
			chain = append(chain, n)
			on[n] = true
			if on[t.parent] {
				circle := append(slices.Clone(chain[slices.Index(chain, t.parent):]), t.parent)
				l.fail(t.file, t.node, "%s is derived from itself: %s", what, strings.Join(circle, " -> "))
				t.parent = ""
			}
			if t.parent != "" && types[t.parent] == nil && !isStandard(t.parent) {
				l.fail(t.file, t.node, "%s %s is derived from %s, which no imported file declares", what, n, t.parent)
			}
			n = t.parent
		}
		for _, n := range slices.Backward(chain) {
			t := types[n]
			if depth[n] = depth[t.parent] + 1; depth[n] > maxDerivation {
				l.fail(t.file, t.node, "%s %s is derived over more than %d types", what, n, maxDerivation)
				t.parent, depth[n] = "", 1
			}
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
		name = t.parent
	}
}

func (l *loader) isVDU(name string) bool {
	_, ok := lineage(l.types, name, typeCompute, typeContainer)
	return ok
}

func (l *loader) is(name, std string) bool {
	_, ok := lineage(l.types, name, std)
	return ok
}

func (l *loader) isVNF(name string) bool {
	_, ok := lineage(l.types, name, typeVNF)
	return ok
}
