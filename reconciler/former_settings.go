package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

// placesIn are the VIMs at which the instance runs, and the settings that define them:
// head's. An instance that head wants no more may run at a VIM whose file went with it. It is
// taken down by the definition that the VIM had last.
func placesIn(ctx context.Context, repo desired.Repo, inst *desired.Instance) (*desired.Settings, []desired.Place, error) {
	settings, err := repo.Settings()
	if err != nil {
		return nil, nil, fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	list, err := places(settings, inst)
	var unknown *drivers.RefusedError
	if !errors.As(err, &unknown) {
		return settings, list, err
	}
	wanted, readErr := wantedAtHead(ctx, repo, inst.ID)
	if readErr != nil || wanted {
		return nil, nil, err
	}
	former, formerErr := repo.FormerSettings(ctx, "", func(s *desired.Settings) bool {
		at, err := places(s, inst)
		if err == nil {
			list = at
		}
		return err == nil
	})
	switch {
	case errors.Is(formerErr, desired.ErrNotFound):
		return nil, nil, err
	case formerErr != nil:
		return nil, nil, fmt.Errorf("VIM of what ends: %w", formerErr)
	}
	return former, list, nil
}

// wantedAtHead says whether git wants the instance instantiated.
func wantedAtHead(ctx context.Context, repo desired.Repo, id string) (bool, error) {
	head, exists := repo.Lookup(id)
	if !exists {
		return false, nil
	}
	now, err := repo.Read(ctx, head)
	if err != nil {
		return false, err
	}
	return desired.IsInstantiated(now.State), nil
}

// Leaving are the instances that head wants no more and that an operation under way still
// works on, by their directories, as they run.
func (v *View) Leaving(ctx context.Context) (map[string]*desired.Instance, error) {
	out := map[string]*desired.Instance{}
	for _, e := range v.r.Oplog.OpenOperations() {
		if wanted, err := wantedAtHead(ctx, v.r.Repo, e.Instance); err != nil || wanted {
			continue // a file that can't be read stands as it last could
		}
		op, err := v.r.Oplog.Operation(ctx, e.ID)
		if err != nil {
			return nil, fmt.Errorf("operation %s: %w", e.ID, err)
		}
		for _, rev := range []desired.Revision{op.Before, op.After} {
			if in, err := v.r.read(ctx, rev); err == nil && desired.MayHaveObjects(in) {
				out[rev.Dir] = in
			}
		}
	}
	return out, nil
}
