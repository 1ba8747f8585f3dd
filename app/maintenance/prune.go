package maintenance

import (
	"context"
	"log/slog"
	"time"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// prunePause is how long after one pruning the next one begins.
const prunePause = 5 * time.Minute

// Pruner removes operations that ended long ago, and gives their room back.
type Pruner struct {
	Oplog interface {
		Prune(ctx context.Context, keep oplog.Keep) (removed int, err error)
	}
	Keep oplog.Keep
	Log  *slog.Logger
}

// Run prunes at once and then every few minutes, until ctx ends.
func (p *Pruner) Run(ctx context.Context) error {
	for {
		p.prune(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(prunePause):
		}
	}
}

func (p *Pruner) prune(ctx context.Context) {
	removed, err := p.Oplog.Prune(ctx, p.Keep)
	if removed > 0 {
		p.Log.InfoContext(ctx, "operations that ended long ago were removed", "operations", removed, "keep", p.Keep.String())
	}
	if err != nil && ctx.Err() == nil {
		p.Log.WarnContext(ctx, "operations that ended long ago were not all removed, will be tried again", "error", err)
	}
}
