package oplog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// sealPage is how many records are read at a time.
const sealPage = 200

// SealAll seals the operations that an earlier version of Jibe has left without the proof that they need,
// and returns their number. It MUST be called only where that version has served from this store and no
// later one has: any record without a seal is believed. One that refers to a file or a variable where that
// version has encrypted text is left alone.
func SealAll(ctx context.Context, s store.Store, sealer sealed.Sealer) (n int, err error) {
	for after := ""; ; {
		stored, err := s.List(ctx, operationPrefix, after, sealPage)
		if err != nil {
			return n, fmt.Errorf("list operations: %w", err)
		}
		for _, rec := range stored {
			after = rec.Key
			done, err := sealOne(ctx, s, sealer, rec)
			if err != nil {
				return n, fmt.Errorf("seal %s: %w", rec.Key, err)
			}
			if done {
				n++
			}
		}
		if len(stored) < sealPage {
			return n, nil
		}
	}
}

// sealOne seals a record, which another replica may change meanwhile.
func sealOne(ctx context.Context, s store.Store, sealer sealed.Sealer, rec store.Record) (done bool, err error) {
	err = retry(ctx, func() error {
		if !sealable(rec.Value) {
			return nil
		}
		_, err := s.Put(ctx, store.Record{Key: rec.Key, Version: rec.Version, Value: sealer.Seal(rec.Key, rec.Value)})
		if done = err == nil; !errors.Is(err, store.ErrConflict) {
			return err
		}
		again, failed := s.Get(ctx, rec.Key)
		switch {
		case errors.Is(failed, store.ErrNotFound):
			return nil
		case failed != nil:
			return failed
		}
		rec = again
		return err
	})
	return done, err
}

// sealable reports whether the record of an operation needs a proof, has none, and is such as an earlier
// version wrote it.
func sealable(value []byte) bool {
	op := new(lcm.Operation)
	if _, seal := sealed.Split(value); seal != "" || json.Unmarshal(value, op) != nil || !op.NeedsProof() || op.Unproven {
		return false
	}
	encrypted := func(text string) bool { return text == "" || strings.HasPrefix(text, desired.RefAge) }
	good := encrypted(op.HandOver)
	for i := range op.Coordinations {
		good = good && encrypted(op.Coordinations[i].Outputs)
	}
	for _, vim := range op.Modified.VIMs {
		if vim != nil {
			c := vim.Credentials
			good = good && encrypted(c.Token) && encrypted(c.Password) && encrypted(c.ApplicationCredentialSecret) &&
				encrypted(c.ClientCert) && encrypted(c.ClientKey)
		}
	}
	return good && !readsHost(op.Modified)
}

// readsHost reports whether a text of the entries refers to a file or a variable of the host, in place of encrypted text.
func readsHost(m lcm.Entries) bool {
	text, err := json.Marshal(m)
	var all any
	if err != nil || json.Unmarshal(text, &all) != nil {
		return true
	}
	return refersToHost(all)
}

func refersToHost(value any) bool {
	switch v := value.(type) {
	case string:
		return desired.IsRef(v) && !strings.HasPrefix(v, desired.RefAge)
	case []any:
		return slices.ContainsFunc(v, refersToHost)
	case map[string]any:
		for _, inner := range v {
			if refersToHost(inner) {
				return true
			}
		}
	}
	return false
}
