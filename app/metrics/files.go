package metrics

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/sol/notify"
)

// files shows what files of this machine say: certificates, the store, the last backup; and how
// far all subscribers are behind.
type files struct {
	certificates  []string
	store, backup string
	states        func() []notify.State

	expiry, size, backedUp *prometheus.Desc
	pending, oldest        *prometheus.Desc

	mu   sync.Mutex
	seen map[string]expiryOf
}

// expiryOf is what a file with certificates said when it had this size and time.
type expiryOf struct {
	size     int64
	modified time.Time
	at       time.Time // zero where there is no certificate in it
}

func newFiles(s Sources) *files {
	return &files{
		certificates: s.Certificates, store: s.Store, backup: s.Backup, states: s.Subscriptions.States, seen: map[string]expiryOf{},
		expiry: prometheus.NewDesc("jibe_certificate_expiry_timestamp_seconds",
			"When the first of the certificates in a file that a flag names expires.", []string{"file"}, nil),
		size:     prometheus.NewDesc("jibe_store_size_bytes", "Size of the store's file.", nil, nil),
		backedUp: prometheus.NewDesc("jibe_backup_last_success_timestamp_seconds", "When the last backup ended well, 0 where none did.", nil, nil),
		pending:  prometheus.NewDesc("jibe_notifications_pending", "Notifications that subscribers are still to be sent, together.", nil, nil),
		oldest: prometheus.NewDesc("jibe_notification_oldest_timestamp_seconds",
			"When the oldest of them came to be that is being delivered, 0 where there is none.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (f *files) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.expiry, f.size, f.backedUp, f.pending, f.oldest} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *files) Collect(ch chan<- prometheus.Metric) {
	shown := map[string]bool{}
	for _, file := range f.certificates {
		if at := f.expires(file); !at.IsZero() && !shown[file] {
			shown[file] = true
			gauge(ch, f.expiry, stamp(at), file)
		}
	}
	if st, err := os.Stat(f.store); err == nil {
		gauge(ch, f.size, float64(st.Size()))
	}
	gauge(ch, f.backedUp, stampOr0(lastBackup(f.backup)))
	waiting, lag := 0, 0.0
	for _, s := range f.states() {
		waiting, lag = waiting+s.Delivery.Waiting, max(lag, s.Delivery.Lag)
	}
	gauge(ch, f.pending, float64(waiting))
	oldest := 0.0
	if lag > 0 {
		oldest = stamp(time.Now()) - lag
	}
	gauge(ch, f.oldest, oldest)
}

// stampOr0 is [stamp], and 0 for the zero time.
func stampOr0(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return stamp(t)
}

// lastBackup is when the last backup ended well, the zero time where none is known of.
func lastBackup(file string) time.Time {
	st, err := os.Stat(file)
	if err != nil || st.Size() > 4096 {
		return time.Time{}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if at, err := time.Parse(time.RFC3339Nano, string(bytes.TrimSpace(line))); err == nil {
		return at
	}
	return st.ModTime()
}

// expires is when the first certificate in a PEM file expires, the zero time where there is none.
// A file that hasn't changed isn't read again.
func (f *files) expires(file string) time.Time {
	st, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if was, ok := f.seen[file]; ok && was.size == st.Size() && was.modified.Equal(st.ModTime()) {
		return was.at
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}
	}
	var first time.Time
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && (first.IsZero() || c.NotAfter.Before(first)) {
			first = c.NotAfter
		}
	}
	f.seen[file] = expiryOf{st.Size(), st.ModTime(), first}
	return first
}
