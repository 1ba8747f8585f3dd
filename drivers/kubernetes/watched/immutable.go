package watched

import (
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// Outgrown says why this incarnation can't be brought to its render; "" where it
// can, or stands there already.
func (f *Fact) Outgrown(r *manifest.Form, want plan.Object) string {
	rendered := r.Objects[f.Key]
	if rendered == nil || f.Digest == "" || f.Digest == want.Digest || !f.TopLevel() {
		return ""
	}
	immutable := rendered.GetAnnotations()[manifest.AnnotationImmutable]
	// An object from before there was the annotation has none: then it differs, as its
	// digest says.
	if immutable == "" || f.immutable == immutable {
		return ""
	}
	switch f.GroupKind {
	case manifest.KindPod:
		return "what changes can't reach a Pod that runs: it is made anew"
	case manifest.KindJob:
		return "what changes can't be changed in a Job: it is made and run anew"
	}
	return ""
}
