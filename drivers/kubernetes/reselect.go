package kubernetes

import (
	"context"
	"encoding/json"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// reselected stands for the digest of a Service whose selector isn't that of any render: the
// next step that applies it brings it to its render again.
const reselected = "reselected"

// reselect has a Service select the same pods by other labels, in one write that is refused
// where the Service isn't the one for which the labels were chosen any more: the next look
// then chooses again. It alters nothing else of what stands there, as that is neither of the
// render that should stand nor, after a change that failed, of one that is known.
func (d *Driver) reselect(ctx context.Context, rendering drivers.Rendering, s plan.Step) error {
	instance, r := rendering.Source.Instance.ID, formOf(rendering)
	to, due := d.watches.Reselection(instance, s.Object, rendering.Desired, r)
	if !due {
		return nil
	}
	obj, gk, err := sized(r, s)
	if err != nil {
		return err
	}
	api, obj, err := d.resource(ctx, rendering.Source.Bounds, obj, gk, s.Object)
	if err != nil {
		return d.unknownKind(gk, s.Object, err)
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": strconv.FormatUint(to.Version, 10),
			"annotations":     map[string]any{manifest.AnnotationDigest: reselected},
		},
		"spec": map[string]any{"selector": to.Labels},
	})
	if err != nil {
		return err
	}
	release, err := d.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	written, err := api.Patch(ctx, obj.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: d.installation.Manager()})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the watch brings what it is now, and the next look what is due then
	}
	if err != nil {
		return drivers.About("reselect "+s.Object, classifyAs(rendering.Source.Bounds, s.Object, err))
	}
	d.watches.Written(gk, written)
	return nil
}
