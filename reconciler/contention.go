package reconciler

import (
	"context"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

const (
	// contendedRepairs is after how many repairs, each undone, an object is contended and not
	// changed by accident.
	contendedRepairs = 5
	// contendedGap bounds the time between two of them. It is more than the longest pause of
	// another program of the same kind: five minutes is what cron jobs and controllers have.
	contendedGap = 6 * time.Minute
	// pastRepairs bounds how many records are read for that.
	pastRepairs = 32
)

// contention is what the history of repairs says of objects that are due once more.
type contention struct {
	contended bool
	// period is the longest time between two repairs of the contended object.
	period time.Duration
}

// contentionOf judges the objects by the former repairs, the latest first. A repair that
// was contended and stood for a whole pause ended the contention; one that gave way to a request
// before didn't.
func contentionOf(past []*lcm.Operation, objects []string, now time.Time) (all contention) {
	for _, key := range objects {
		if one := contentionOn(past, key, now); one.contended {
			all = contention{true, max(all.period, one.period)}
		}
	}
	return all
}

func contentionOn(past []*lcm.Operation, key string, next time.Time) contention {
	repairs, period := 0, time.Duration(0)
	for _, op := range past {
		if !slices.Contains(op.Repairs, key) {
			continue
		}

		at := op.Started
		if op.Contended {
			at = op.StateEntered
		}
		gap := next.Sub(at)
		// A clock may have been set back, or be another replica's.
		if gap.Abs() > contendedGap || op.Contended && op.State == lcm.Completed {
			break
		}
		if op.Contended {
			return contention{true, max(period, op.Period)}
		}

		repairs, period, next = repairs+1, max(period, gap), at
		if repairs == contendedRepairs {
			return contention{true, period}
		}
	}
	return contention{}
}

// pastRepairsOf are the automatic repairs of the instance that a present one may
// follow on, the latest first.
func pastRepairsOf(ctx context.Context, log *oplog.Log, instance string, now time.Time) ([]*lcm.Operation, error) {
	var entries []oplog.OperationEntry
	for e := range log.OperationEntries(oplog.OperationQuery{Instance: instance, Types: []lcm.Type{lcm.Heal}}) {
		if e.Automatic && now.Sub(e.StateEntered) <= (contendedRepairs+1)*contendedGap {
			entries = append(entries, e)
		}
	}

	var past []*lcm.Operation
	for _, e := range slices.Backward(entries[max(len(entries)-pastRepairs, 0):]) {
		op, err := log.Operation(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		past = append(past, op)
	}
	return past, nil
}
