package app

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/grant"
	"github.com/jibe-vnfm/jibe/internal/peer"
)

// nfvoAge is how long resolved credentials of an NFVO are used before their references (files,
// environment) are read again.
const nfvoAge = time.Minute

// nfvo implements [reconciler.NFVO]: it keeps a client for the NFVO that the desired repository
// names, until that, or what its references stand for, changes.
type nfvo struct {
	resolve func(*desired.Peer) (peer.Settings, error)

	mu     sync.Mutex
	client *grant.Client
	of     string // the settings that the client is for, as text
	until  time.Time
}

// Ask implements [reconciler.NFVO].
func (n *nfvo) Ask(ctx context.Context, settings *desired.Settings, r *grant.Request) (grant.Answer, error) {
	c, err := n.connect(settings)
	if err != nil {
		return grant.Answer{}, err
	}
	return c.Ask(ctx, r)
}

// Poll implements [reconciler.NFVO].
func (n *nfvo) Poll(ctx context.Context, settings *desired.Settings, location string) (grant.Answer, error) {
	c, err := n.connect(settings)
	if err != nil {
		return grant.Answer{}, err
	}
	return c.Poll(ctx, location)
}

// connect returns the client. Its errors are [grant.ErrAway]: a person may still put right what
// the settings name, or what a reference stands for.
func (n *nfvo) connect(settings *desired.Settings) (*grant.Client, error) {
	to, err := settings.NFVO()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", grant.ErrAway, err)
	}
	timeout := settings.Granting.NFVO.Timeout
	text, err := json.Marshal([]any{to, timeout})
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client != nil && n.of == string(text) && time.Now().Before(n.until) {
		return n.client, nil
	}
	how, err := n.resolve(to)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", grant.ErrAway, desired.PeersFile, err)
	}
	how.Timeout = timeout
	client, err := grant.NewClient(to.Endpoint, how)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: peer %s: %w", grant.ErrAway, desired.PeersFile, to.Name, err)
	}
	if n.client != nil {
		n.client.Close()
	}
	n.client, n.of, n.until = client, string(text), time.Now().Add(nfvoAge)
	return client, nil
}
