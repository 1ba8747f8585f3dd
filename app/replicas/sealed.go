package replicas

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/notify"
)

// Sealer proves that records are this installation's own. Those in the data directory need no proof: the
// key lies next to them.
func (s *Replica) Sealer() sealed.Sealer { return sealerOf(s.Keeper, s.Store.URL != "") }

func sealerOf(keeper *secret.Keeper, inRedis bool) sealed.Sealer {
	return sealed.Sealer{Key: keeper.Derive("seal records"), Trusting: !inRedis}
}

// sealRecords seals what an earlier version of Jibe has left in Redis without a seal. before says that
// records of this data directory were in this Redis, or in the directory, when the process started: then
// they are those that the earlier version has served, and they are believed once. A record without a seal
// that comes later isn't.
func (s *Replica) sealRecords(ctx context.Context, before bool) error {
	done := filepath.Join(s.Data.Path, datadir.SealedRecords)
	if datadir.Exists(done) {
		return nil
	}
	if before {
		subscriptions, err := notify.SealAll(ctx, s.Records, s.Sealer())
		if err != nil {
			return fmt.Errorf("seal the records in Redis: %w", err)
		}
		operations, err := oplog.SealAll(ctx, s.Records, s.Sealer())
		if err != nil {
			return fmt.Errorf("seal the records in Redis: %w", err)
		}
		s.Log.InfoContext(ctx, "records of an earlier version are sealed: see with jibe get subscriptions whether you know each callback", "subscriptions", subscriptions, "operations", operations)
	}
	return datadir.WriteDurably(done, s.Store.URL+"\n")
}
