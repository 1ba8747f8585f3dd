package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// lifecycleRoot is the API of subscriptions whose records name none: those of former versions.
const lifecycleRoot = "/vnflcm/v2"

// LifecycleAPI is a version of the VNF lifecycle management interface. shape makes the
// notification of SOL003 v3.3.1, whose links are below root, into that of the version; nil
// leaves it as it is.
func LifecycleAPI(root, version string, shape func(Notification) any) API {
	return API{
		Root: root, Version: version,
		Filter: func(stored json.RawMessage) (Matcher, error) {
			f := &Filter{}
			return f, json.Unmarshal(stored, f)
		},
		Notification: func(sub *Subscription, base string, e oplog.Event) (any, error) {
			n := notificationBelow(base+root, sub.ID, cmp.Or(sub.Verbosity, Full), e)
			if shape != nil {
				return shape(n), nil
			}
			return n, nil
		},
	}
}

// Request is LccnSubscriptionRequest (SOL003 clause 5.5.2.15).
type Request struct {
	Filter         *Filter         `json:"filter,omitempty"`
	CallbackURI    string          `json:"callbackUri"`
	Authentication *Authentication `json:"authentication,omitempty"`
	Verbosity      string          `json:"verbosity,omitempty"`
}

// Lifecycle are the subscriptions to lifecycle change notifications.
type Lifecycle struct{ *Subscriptions }

// Lifecycle returns those of the version of the VNF lifecycle management interface with the
// root, as [Service.Subscriptions] does.
func (s *Service) Lifecycle(root string) Lifecycle { return Lifecycle{s.Subscriptions(root)} }

// Create is [Subscriptions.Subscribe] for a request.
func (l Lifecycle) Create(ctx context.Context, who auth.Identity, req Request) (*Subscription, error) {
	w, err := req.wanted()
	if err != nil {
		return nil, err
	}
	w.Owner = who
	return l.Subscribe(ctx, w)
}

// wanted checks what only lifecycle subscriptions have.
func (r *Request) wanted() (Wanted, error) {
	switch r.Verbosity {
	case "", Full, Short:
	default:
		return Wanted{}, fmt.Errorf("%w: verbosity %.64q is neither %s nor %s", ErrInvalid, r.Verbosity, Full, Short)
	}
	w := Wanted{CallbackURI: r.CallbackURI, Authentication: r.Authentication, Verbosity: cmp.Or(r.Verbosity, Full)}
	if r.Filter != nil {
		if err := r.Filter.validate(); err != nil {
			return Wanted{}, err
		}
		w.Filter = r.Filter
	}
	return w, nil
}
