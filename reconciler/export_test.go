package reconciler

import "context"

// Pass makes one pass of an instance, as a worker does.
func (r *Reconciler) Pass(ctx context.Context, instance string) error {
	_, err := r.guarded(ctx, instance)

	return err
}
