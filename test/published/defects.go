package published

import (
	"net/http"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// repair331 repairs what is known to be wrong in the files of v3.3.1.
func repair331(i Interface, doc *openapi3.T) {
	eachSchema(doc, misplaced)
	eachSchema(doc, checksums)
	if i != Lifecycle {
		return
	}
	// It leaves the "vnf" out of the name of an attribute.
	shown := doc.Paths.Find("/vnf_instances/{vnfInstanceId}").Get.Responses.Status(http.StatusOK).Value.Content.Get("application/json").Schema.Value
	info := shown.Properties["instantiatedVnfInfo"].Value.Properties
	info["vnfVirtualLinkResourceInfo"] = info["virtualLinkResourceInfo"]
}

// repair371 repairs what is known to be wrong in the files of v3.7.1, and what is
// demanded there of a VNF that Jibe can't have.
func repair371(doc *openapi3.T) {
	eachSchema(doc, misplaced)
	eachSchema(doc, single)
	eachSchema(doc, checksums)
	eachSchema(doc, undemanded)
}

// checksums are structures (SOL003 clause 4.4.1.8): the files give them as text, and note in
// v3.7.1 that they have no definition of it. And a package may name several VNFMs (table
// 10.5.2.2-1), of which one file takes but one.
func checksums(s *openapi3.Schema) {
	if info := s.Properties["vnfmInfo"]; info != nil && info.Value.Type.Is(openapi3.TypeString) {
		s.Properties["vnfmInfo"] = openapi3.NewSchemaRef("", openapi3.NewArraySchema().WithItems(openapi3.NewStringSchema()))
	}
	if sum := s.Properties["checksum"]; sum != nil && sum.Value.Type.Is(openapi3.TypeString) {
		text := openapi3.NewSchemaRef("", openapi3.NewStringSchema())
		s.Properties["checksum"] = openapi3.NewSchemaRef("", &openapi3.Schema{
			Type: &openapi3.Types{openapi3.TypeObject}, Properties: openapi3.Schemas{"algorithm": text, "hash": text}, Required: []string{"algorithm", "hash"},
		})
	}
}

// misplaced puts demands, which both editions have, where they belong.
func misplaced(s *openapi3.Schema) {
	// They demand of every operation either changedInfo or
	// modificationsTriggeredByVnfPkgChange; the note beside it only forbids both at once.
	info, pkg := s.Properties["changedInfo"], s.Properties["modificationsTriggeredByVnfPkgChange"]
	if info != nil && pkg != nil && len(s.OneOf)+len(s.AnyOf) > 0 {
		s.OneOf, s.AnyOf = nil, nil
		s.Not = openapi3.NewSchemaRef("", &openapi3.Schema{Required: []string{"changedInfo", "modificationsTriggeredByVnfPkgChange"}})
	}
	// They demand of an interface what each of its addresses has to have.
	if on := s.Properties["ipOverEthernet"]; on != nil && on.Value.Properties["ipAddresses"] != nil && len(on.Value.OneOf) > 0 {
		item := on.Value.Properties["ipAddresses"].Value.Items.Value
		item.OneOf, on.Value.OneOf = on.Value.OneOf, nil
	}
}

// single makes lists of what the file of SOL002 describes as one structure, where its words
// say 0..N and the file of SOL003 has a list.
func single(s *openapi3.Schema) {
	for _, name := range []string{"lcmCoordinations", "rejectedLcmCoordinations"} {
		if p := s.Properties[name]; p != nil && p.Value.Type.Is("object") {
			list := openapi3.NewArraySchema()
			list.Items = openapi3.NewSchemaRef("", p.Value)
			s.Properties[name] = openapi3.NewSchemaRef("", list)
		}
	}
}

// beyond331 are the attributes that a file of v3.7.1 demands and v3.3.1, which Jibe
// implements, doesn't, by attributes that their structure has besides.
var beyond331 = []struct {
	attribute string
	of        []string
	why       string
}{
	{"extCpInfo", []string{"vnfState", "vnfcResourceInfo"}, "a VNF of containers has no external connection point of which its VIM knows, and an empty list isn't allowed"},
	{"vnfLinkPorts", []string{"vnfVirtualLinkDescId", "networkResource"}, "a Service is a link without ports; SOL003 v3.7.1 doesn't demand it either"},
}

// undemanded takes back the demands of beyond331.
func undemanded(s *openapi3.Schema) {
	for _, more := range beyond331 {
		if !slices.ContainsFunc(more.of, func(name string) bool { return s.Properties[name] == nil }) {
			s.Required = slices.DeleteFunc(slices.Clone(s.Required), func(name string) bool { return name == more.attribute })
		}
	}
}

// eachSchema shows f every schema of the description: its components, its requests and
// its good answers, and what these are made of.
func eachSchema(doc *openapi3.T, f func(s *openapi3.Schema)) {
	seen := map[*openapi3.Schema]bool{}
	var down func(ref *openapi3.SchemaRef)
	down = func(ref *openapi3.SchemaRef) {
		if ref == nil || ref.Value == nil || seen[ref.Value] {
			return
		}
		s := ref.Value
		seen[s] = true
		f(s)
		for _, p := range s.Properties {
			down(p)
		}
		for _, list := range []openapi3.SchemaRefs{s.AllOf, s.OneOf, s.AnyOf} {
			for _, part := range list {
				down(part)
			}
		}
		down(s.Items)
		down(s.AdditionalProperties.Schema)
	}
	content := func(c openapi3.Content) {
		for _, media := range c {
			down(media.Schema)
		}
	}
	if doc.Components != nil {
		for _, s := range doc.Components.Schemas {
			down(s)
		}
	}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			if op.RequestBody != nil {
				content(op.RequestBody.Value.Content)
			}
			for _, status := range []int{http.StatusOK, http.StatusCreated} {
				if ref := op.Responses.Status(status); ref != nil {
					content(ref.Value.Content)
				}
			}
		}
	}
}
