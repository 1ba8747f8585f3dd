package kubernetes

import "github.com/jibe-vnfm/jibe/plan"

// outgrown says why this incarnation can't be brought to its render; "" where it
// can, or stands there already.
func (f *fact) outgrown(r *render, want plan.Object) string {
	rendered := r.objects[f.key]
	if rendered == nil || f.digest == "" || f.digest == want.Digest || !f.topLevel() {
		return ""
	}
	mould := rendered.GetAnnotations()[AnnotationMould]
	// One from before there were moulds can only be told by its digest.
	if mould == "" || f.mould == mould {
		return ""
	}
	switch f.gk {
	case kindPod:
		return "what changes can't reach a Pod that runs: it is made anew"
	case kindJob:
		return "what changes can't be changed in a Job: it is made and run anew"
	}
	return ""
}
