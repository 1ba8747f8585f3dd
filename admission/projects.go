package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// intents are the instances of the proposal, by id, nil for one that goes. A file that can't be
// read is refused by itself.
func (p *Proposal) intents() map[string]*desired.Instance {
	all := map[string]*desired.Instance{}
	for _, c := range p.Instances {
		if c.File == "" && all[c.Instance] == nil {
			all[c.Instance] = nil
			continue
		}
		// A directory that was moved goes under one path and comes under another.
		if in, err := desired.ParseInstance(c.Dir+"/"+desired.InstanceFile, []byte(c.File)); c.File != "" && err == nil {
			all[in.ID] = in
		}
	}
	return all
}

// maxJudged bounds how many instances a change of projects has judged anew, to warn of them.
const maxJudged = 200

// leftOutside warns of instances that would go on running although their project wouldn't allow
// it any more.
func (r *Reviewer) leftOutside(ctx context.Context, view *reconciler.View, now, settings *desired.Settings, p *Proposal) ([]*desired.Problem, error) {
	if reflect.DeepEqual(now.Projects, settings.Projects) {
		return nil, nil
	}
	staying, err := r.staying(ctx, p)
	if err != nil {
		return nil, err
	}
	var warnings []*desired.Problem
	judged := 0
	for _, dir := range slices.Sorted(maps.Keys(staying)) {
		if reflect.DeepEqual(now.ProjectOf(dir), settings.ProjectOf(dir)) {
			continue
		}
		if judged++; judged > maxJudged {
			return append(warnings, &desired.Problem{File: desired.ProjectDir, Message: fmt.Sprintf(
				"more than %d instances are in projects that change: the others weren't looked at", maxJudged),
				Remedy: "`jibe get problems` shows them afterwards"}), nil
		}
		err := view.OutOfProject(ctx, settings, dir, staying[dir])
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) {
			continue // what can't be judged now isn't refused by it either
		}
		warnings = append(warnings, &desired.Problem{File: path.Join(dir, desired.InstanceFile),
			Message: "it runs, and would be refused with these projects: " + refused.Error(),
			Remedy:  "it is looked after as ever"})
	}
	return warnings, nil
}
