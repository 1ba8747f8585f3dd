package vnfpkgm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
)

// Events is the [oplog.Event].API of what happens to packages.
const Events = "vnfpkgm"

// toldPrefix begins the keys of what subscribers were last told of each package.
const toldPrefix = "vnfpkgm/told/"

// The types of events and of notifications.
const (
	onboarding = "VnfPackageOnboardingNotification"
	change     = "VnfPackageChangeNotification"

	stateChange = "OP_STATE_CHANGE"
	deletion    = "PKG_DELETE"
)

// Outbox takes events together with the records that they tell of; [oplog.Log] is one.
type Outbox interface {
	Tell(ctx context.Context, events []oplog.Event, recs ...store.Record) error
}

// told is what subscribers know of a package, and what an event says of it.
type told struct {
	ID               string   `json:"id"`
	VnfdID           string   `json:"vnfdId"`
	Provider         string   `json:"provider,omitempty"`
	ProductName      string   `json:"productName,omitempty"`
	SoftwareVersion  string   `json:"softwareVersion,omitempty"`
	VnfdVersion      string   `json:"vnfdVersion,omitempty"`
	VnfmInfo         []string `json:"vnfmInfo,omitempty"`
	OperationalState string   `json:"operationalState"`
	UsageState       string   `json:"usageState,omitempty"`
	ChangeType       string   `json:"changeType,omitempty"` // of an event
}

// known is what was told, with the version of its record.
type known struct {
	told
	version uint64
}

// Announce puts into the outbox what has become of packages since it was last called, by
// whichever way: upload, push, a change of repositories.yaml. What is told is stored with the
// events, so that a process that is killed tells everything, and nothing twice.
func (s *Service) Announce(ctx context.Context) error {
	if s.Outbox == nil {
		return nil
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	if s.Announces != nil && !s.Announces() {
		s.told = nil // another replica goes on with it
		return nil
	}
	if s.told == nil {
		if err := s.remember(ctx); err != nil {
			return err
		}
	}
	var events []oplog.Event
	var recs []store.Record
	made := false
	next := maps.Clone(s.told)
	add := func(kind string, t told) error {
		gone := t.ChangeType == deletion
		content, err := json.Marshal(t)
		if err != nil {
			return err
		}
		events = append(events, oplog.Event{API: Events, Type: oplog.EventType(kind), Content: content})
		t.ChangeType = ""
		value, err := json.Marshal(t)
		if err != nil {
			return err
		}
		version := s.told[t.ID].version
		made = made || version == 0
		recs = append(recs, store.Record{Key: toldPrefix + t.ID, Version: version, Value: value, Delete: gone})
		if gone {
			delete(next, t.ID)
		} else {
			next[t.ID] = known{t, version + 1}
		}
		return nil
	}
	present := map[string]told{}
	used := s.Used()
	for _, o := range s.Catalogue.Onboarded() {
		if s.state(&o) != onboarded {
			continue
		}
		about := o.Entry.About
		t := told{ID: o.ID, VnfdID: o.Entry.VnfdID, Provider: about.Provider, ProductName: about.ProductName, SoftwareVersion: about.SoftwareVersion,
			VnfdVersion: o.Entry.Version, VnfmInfo: about.VnfmInfo, OperationalState: enabled, UsageState: notInUse}
		if o.Disabled {
			t.OperationalState = disabled
		}
		if used(t.VnfdID) {
			t.UsageState = inUse
		}
		present[t.ID] = t
	}
	for _, id := range slices.Sorted(maps.Keys(present)) {
		t, was := present[id], s.told[id]
		var err error
		switch {
		case was.VnfdID == "":
			err = add(onboarding, t)
		case was.OperationalState != t.OperationalState:
			t.ChangeType = stateChange
			err = add(change, t)
		}
		if err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.told)) {
		if _, there := present[id]; there || s.working(id) != "" {
			continue
		}
		t := s.told[id].told
		t.ChangeType = deletion
		if err := add(change, t); err != nil {
			return err
		}
	}
	if len(events) == 0 {
		return nil
	}
	err := s.Outbox.Tell(ctx, events, recs...)
	if err != nil {
		s.told = nil // whether it was stored isn't known: the next call reads it
		return fmt.Errorf("notifications of packages: %w", err)
	}
	if s.told = next; made {
		s.told = nil // the versions of new records are the store's to say
	}
	return nil
}

// remember reads what was told.
func (s *Service) remember(ctx context.Context) error {
	recs, err := s.Store.List(ctx, toldPrefix, "", 0)
	if err != nil {
		return fmt.Errorf("what was told of packages: %w", err)
	}
	s.told = map[string]known{}
	for _, r := range recs {
		k := known{version: r.Version}
		if err := json.Unmarshal(r.Value, &k.told); err != nil {
			return fmt.Errorf("%s: the record in the store can't be read: %w", r.Key, err)
		}
		s.told[strings.TrimPrefix(r.Key, toldPrefix)] = k
	}
	return nil
}

// announce is Announce where nobody waits for its error: what couldn't be told is told with
// the next change.
func (s *Service) announce(ctx context.Context) {
	if err := s.Announce(context.WithoutCancel(ctx)); err != nil {
		s.Log.ErrorContext(ctx, "subscribers aren't told of packages yet", "error", err)
	}
}

// Filter is PkgmNotificationsFilter (SOL003 clause 10.5.3.4).
type Filter struct {
	NotificationTypes []string   `json:"notificationTypes,omitempty"`
	Products          []provider `json:"vnfProductsFromProviders,omitempty"`
	VnfdID            []string   `json:"vnfdId,omitempty"`
	VnfPkgID          []string   `json:"vnfPkgId,omitempty"`
	OperationalState  oneOrMore  `json:"operationalState,omitempty"`
	UsageState        oneOrMore  `json:"usageState,omitempty"`
	VnfmInfo          oneOrMore  `json:"vnfmInfo,omitempty"`
}

type provider struct {
	Provider string    `json:"vnfProvider"`
	Products []product `json:"vnfProducts,omitempty"`
}

type product struct {
	Name     string    `json:"vnfProductName"`
	Versions []version `json:"versions,omitempty"`
}

type version struct {
	Software     string   `json:"vnfSoftwareVersion"`
	VnfdVersions []string `json:"vnfdVersions,omitempty"`
}

// oneOrMore is a list that some editions of SOL003 have as a single text.
type oneOrMore []string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *oneOrMore) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*l = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(l))
}

// validate refuses a filter that can match nothing, or isn't one.
func (f *Filter) validate() error {
	for name, list := range map[string]struct{ given, of []string }{
		"notificationTypes": {f.NotificationTypes, []string{onboarding, change}},
		"operationalState":  {f.OperationalState, []string{enabled, disabled}},
		"usageState":        {f.UsageState, []string{inUse, notInUse}},
	} {
		for _, v := range list.given {
			if !slices.Contains(list.of, v) {
				return fmt.Errorf("%w: filter.%s %.64q is none of %s", notify.ErrInvalid, name, v, strings.Join(list.of, ", "))
			}
		}
	}
	return nil
}

// Match implements [notify.Matcher].
func (f *Filter) Match(e oplog.Event) bool {
	var t told
	if json.Unmarshal(e.Content, &t) != nil {
		return false
	}
	in := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	return in(f.NotificationTypes, string(e.Type)) && in(f.VnfdID, t.VnfdID) && in(f.VnfPkgID, t.ID) &&
		in(f.OperationalState, t.OperationalState) && in(f.UsageState, t.UsageState) &&
		(len(f.VnfmInfo) == 0 || slices.ContainsFunc(t.VnfmInfo, func(v string) bool { return slices.Contains(f.VnfmInfo, v) })) &&
		(len(f.Products) == 0 || slices.ContainsFunc(f.Products, t.from))
}

// from says whether the package is of the provider, and of its products where some are named.
func (t told) from(p provider) bool {
	return p.Provider == t.Provider && (len(p.Products) == 0 || slices.ContainsFunc(p.Products, func(p product) bool {
		return p.Name == t.ProductName && (len(p.Versions) == 0 || slices.ContainsFunc(p.Versions, func(v version) bool {
			return v.Software == t.SoftwareVersion && (len(v.VnfdVersions) == 0 || slices.Contains(v.VnfdVersions, t.VnfdVersion))
		}))
	}))
}

// notification is VnfPackageOnboardingNotification and VnfPackageChangeNotification (clauses
// 10.5.2.5 and 10.5.2.6).
type notification struct {
	ID               string          `json:"id"`
	Type             string          `json:"notificationType"`
	SubscriptionID   string          `json:"subscriptionId"`
	TimeStamp        string          `json:"timeStamp"`
	VnfPkgID         string          `json:"vnfPkgId"`
	VnfdID           string          `json:"vnfdId"`
	ChangeType       string          `json:"changeType,omitempty"`
	OperationalState string          `json:"operationalState,omitempty"`
	VnfmInfo         []string        `json:"vnfmInfo,omitzero"`
	Links            map[string]link `json:"_links"`
}

// NotificationAPIs are the versions of the interface for [notify.Config].
func NotificationAPIs() []notify.API {
	return []notify.API{notificationAPI("/vnfpkgm/v2", "2.1.0"), notificationAPI("/vnfpkgm/v1", "1.3.0")}
}

func notificationAPI(root, version string) notify.API {
	return notify.API{
		Root: root, Version: version, Events: Events,
		Filter: func(stored json.RawMessage) (notify.Matcher, error) {
			f := &Filter{}
			return f, json.Unmarshal(stored, f)
		},
		Notification: func(sub *notify.Subscription, base string, e oplog.Event) (any, error) {
			var t told
			if err := json.Unmarshal(e.Content, &t); err != nil {
				return nil, err
			}
			n := notification{ID: notify.NotificationID(sub.ID, e), Type: string(e.Type), SubscriptionID: sub.ID, TimeStamp: rest.Stamp(e.Time),
				VnfPkgID: t.ID, VnfdID: t.VnfdID, ChangeType: t.ChangeType,
				Links: map[string]link{"vnfPackage": {base + root + "/vnf_packages/" + t.ID}, "subscription": {base + root + "/subscriptions/" + sub.ID}}}
			if n.Type == onboarding && root == "/vnfpkgm/v2" {
				n.VnfmInfo = append([]string{}, t.VnfmInfo...)
			}
			if n.ChangeType == stateChange {
				n.OperationalState = t.OperationalState
			}
			return n, nil
		},
	}
}
