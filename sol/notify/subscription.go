// Package notify is the subscriptions to notifications and their delivery (SOL003 v3.3.1
// clauses 5.4.18 to 5.4.20 and 5.5.2.15 to 5.5.2.20 for the life cycle of VNFs; other
// interfaces describe theirs by an [API]).
//
// It reads the outbox that package lcm/oplog writes and keeps, for every
// subscription, a cursor in the store: what was delivered to it. A notification
// is delivered at least once, in order per subscription, across restarts; its id
// is the same in every delivery, so that a subscriber can recognize a repetition. A
// subscriber that doesn't answer holds up nobody but itself, and what it hasn't taken within
// Config.Retention is given up, which the log and the figures say.
//
// It never writes operation records, and never shows a subscriber's credentials
// to anyone but the subscriber.
package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/jibe-vnfm/jibe/auth"
)

// Errors that callers decide on. An unknown subscription is store.ErrNotFound.
var (
	// ErrInvalid is returned for a request that can't be accepted as it is; the API
	// answers 400.
	ErrInvalid = errors.New("subscription request is not acceptable")
	// ErrCallback is returned where the test of the callback failed; the API answers 422.
	ErrCallback = errors.New("callback URI didn't pass its test")
)

// The values of verbosity (LcmOpOccNotificationVerbosityType).
const (
	Full  = "FULL"
	Short = "SHORT"
)

// Subscription is LccnSubscription (SOL003 clause 5.5.2.16), and what other interfaces have
// in its place. It has no credentials.
type Subscription struct {
	ID          string  `json:"id"`
	Filter      Matcher `json:"filter,omitempty"`
	CallbackURI string  `json:"callbackUri"`
	Verbosity   string  `json:"verbosity,omitempty"`
	Links       struct {
		Self Link `json:"self"`
	} `json:"_links"`
}

// Link is Link of SOL013 clause 5.2.4.
type Link struct {
	Href string `json:"href"`
}

// record is the store's record of a subscription.
type record struct {
	ID             string          `json:"id"`
	API            string          `json:"api,omitempty"` // the root; "" is lifecycleRoot
	Filter         json.RawMessage `json:"filter,omitempty"`
	CallbackURI    string          `json:"callbackUri"`
	Authentication *Authentication `json:"authentication,omitempty"`
	Verbosity      string          `json:"verbosity,omitempty"`
	// Owner made it, and could see what they could see then; nil where an earlier version of
	// Jibe wrote the record, which told everybody of everything.
	Owner *auth.Identity `json:"owner,omitempty"`

	matcher Matcher // of Filter
	// unproven is why the record isn't taken: an [*UnprovenError]. It has nothing of the record
	// then but what is shown of it.
	unproven error
}

// validate refuses a request that isn't acceptable. Its errors name the attribute.
func (w *Wanted) validate(certificate Certificate) error {
	if err := checkURI("callbackUri", w.CallbackURI); err != nil {
		return err
	}
	return w.Authentication.validate(w.CallbackURI, certificate)
}

// maxURI is the length in bytes that a URI may have, as the store keeps it.
const maxURI = 2048

// checkURI accepts only URIs that a client may have Jibe call: http or https, with a host,
// and without credentials, which would be stored and shown in clear.
func checkURI(attribute, s string) error {
	if s == "" {
		return fmt.Errorf("%w: %s is missing", ErrInvalid, attribute)
	}
	if len(s) > maxURI {
		return fmt.Errorf("%w: %s is longer than %d bytes", ErrInvalid, attribute, maxURI)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s is no URI", ErrInvalid, attribute)
	case !slices.Contains([]string{"http", "https"}, u.Scheme):
		return fmt.Errorf("%w: %s must begin with http:// or https://", ErrInvalid, attribute)
	case u.Hostname() == "":
		return fmt.Errorf("%w: %s names no host", ErrInvalid, attribute)
	case u.User != nil:
		return fmt.Errorf("%w: %s must not contain credentials; use authentication", ErrInvalid, attribute)
	case u.Fragment != "":
		return fmt.Errorf("%w: %s must not have a fragment", ErrInvalid, attribute)
	}
	return nil
}
