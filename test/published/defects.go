package published

import (
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
)

// mend331 puts right what is known to be wrong in the file of v3.3.1.
func mend331(doc *openapi3.T) {
	// It demands one of changedInfo and modificationsTriggeredByVnfPkgChange of every
	// operation; the standard forbids both at once.
	for _, path := range []string{"/vnf_lcm_op_occs", "/vnf_lcm_op_occs/{vnfLcmOpOccId}", "/vnf_lcm_op_occs/{vnfLcmOpOccId}/fail"} {
		for _, op := range doc.Paths.Find(path).Operations() {
			if ref := op.Responses.Status(http.StatusOK); ref != nil {
				s := ref.Value.Content.Get("application/json").Schema.Value
				s.OneOf, s.AnyOf = nil, nil
			}
		}
	}
	// It leaves the "vnf" out of the name of an attribute.
	shown := doc.Paths.Find("/vnf_instances/{vnfInstanceId}").Get.Responses.Status(http.StatusOK).Value.Content.Get("application/json").Schema.Value
	info := shown.Properties["instantiatedVnfInfo"].Value.Properties
	info["vnfVirtualLinkResourceInfo"] = info["virtualLinkResourceInfo"]
	visit(doc, ipOverEthernet)
}

// mend371 puts right what is known to be wrong in the files of v3.7.1.
func mend371(*openapi3.T) {}

// visit shows f every schema of the description's requests and of its good answers.
func visit(doc *openapi3.T, f func(name string, s *openapi3.Schema)) {
	seen := map[*openapi3.Schema]bool{}
	var down func(name string, s *openapi3.SchemaRef)
	down = func(name string, s *openapi3.SchemaRef) {
		if s == nil || s.Value == nil || seen[s.Value] {
			return
		}
		seen[s.Value] = true
		f(name, s.Value)
		for name, p := range s.Value.Properties {
			down(name, p)
		}
		for _, list := range []openapi3.SchemaRefs{s.Value.AllOf, s.Value.OneOf, s.Value.AnyOf} {
			for _, part := range list {
				down(name, part)
			}
		}
		down("", s.Value.Items)
		down("", s.Value.AdditionalProperties.Schema)
	}
	content := func(c openapi3.Content) {
		for _, media := range c {
			down("", media.Schema)
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

// ipOverEthernet takes out that an interface needs what an address has to have.
func ipOverEthernet(name string, s *openapi3.Schema) {
	if name == "ipOverEthernet" {
		s.OneOf = nil
	}
}
