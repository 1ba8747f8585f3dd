package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
)

// NotifyOptions are what a person may set of the notifications of subscribers.
type NotifyOptions struct {
	// Retention is how long a notification is kept that its subscriber doesn't take; 0 is
	// [notify.DefaultRetention].
	Retention time.Duration
	// Cert and Key are PEM files of the certificate that is shown to subscribers and their
	// token endpoints; "" is none. They are read again for each connection.
	Cert, Key string
	// CA is a PEM file with the authorities that their certificates may come from; "" is the
	// system's.
	CA string
}

// newNotify makes the service of subscriptions; told says which subscription gets what.
func (s *state) newNotify(told *api.Told) (*notify.Service, error) {
	c := notify.Config{Store: s.replica.Records, Oplog: s.oplog, Secrets: s.keeper.For(secret.ForSubscriptions()), Sealer: s.replica.Sealer(), Egress: s.egress, Base: s.BaseURL, Log: s.Log, Retention: s.Notify.Retention, Sees: told.Sees, Trace: s.tracing.Tracer, Observe: s.meters.Notification,
		APIs: append(vnfpkgm.NotificationAPIs(), sol.NotificationsV1())}
	s.replica.Serves(&c)
	switch {
	case s.Notify.Retention < 0:
		return nil, fmt.Errorf("--notify-retention %v: want a duration above zero, as 24h", s.Notify.Retention)
	case (s.Notify.Cert == "") != (s.Notify.Key == ""):
		return nil, errors.New("--notify-client-cert and --notify-client-key belong together: give both or neither")
	case s.Notify.Cert != "":
		cert, key := s.Notify.Cert, s.Notify.Key
		c.Certificate = func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("client certificate towards subscribers (--notify-client-cert, --notify-client-key): %w", err)
			}
			return &pair, nil
		}
		if _, err := c.Certificate(); err != nil {
			return nil, err
		}
	}
	if s.Notify.CA != "" {
		text, err := os.ReadFile(s.Notify.CA)
		if err != nil {
			return nil, fmt.Errorf("authorities of subscribers' certificates (--notify-ca): %w", err)
		}
		c.CAs = x509.NewCertPool()
		if !c.CAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("authorities of subscribers' certificates (--notify-ca): %s holds no PEM certificate", s.Notify.CA)
		}
	}
	return notify.New(c)
}
