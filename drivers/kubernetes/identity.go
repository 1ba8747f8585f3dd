package kubernetes

import "context"

// Identity is the UID of the namespace kube-system, which every cluster has from its
// beginning to its end. Credentials of one namespace may not see it.
func (d *Driver) Identity(ctx context.Context) (string, error) { return d.watches.Identity(ctx) }
