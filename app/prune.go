package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// prunePause is how long after one pruning the next one begins.
const prunePause = 5 * time.Minute

// pruner removes operations that ended long ago, and gives their room back.
type pruner struct {
	oplog interface {
		Prune(ctx context.Context, keep oplog.Keep) (removed int, err error)
	}
	keep oplog.Keep
	log  *slog.Logger
}

// run prunes at once and then every few minutes, until ctx ends.
func (p *pruner) run(ctx context.Context) error {
	for {
		p.prune(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(prunePause):
		}
	}
}

func (p *pruner) prune(ctx context.Context) {
	removed, err := p.oplog.Prune(ctx, p.keep)
	if removed > 0 {
		p.log.InfoContext(ctx, "operations that ended long ago were removed", "operations", removed, "keep", p.keep.String())
	}
	if err != nil {
		if ctx.Err() == nil {
			p.log.WarnContext(ctx, "operations that ended long ago were not all removed, will be tried again", "error", err)
		}
	}
}
