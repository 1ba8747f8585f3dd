package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/reference"
)

// PrometheusOptions say which Prometheus the gates of rollouts ask. The zero value is none.
type PrometheusOptions struct {
	// URL is that of its API, without "/api/v1".
	URL string
	// Token is a reference (file:PATH or env:NAME) to the bearer token that it wants; "" is none.
	Token string
}

// prometheusQueries ask Prometheus the queries of rollouts: the server's, or a VIM's.
type prometheusQueries struct {
	own      *prometheusQuery // nil for none
	settings func() (*desired.Settings, error)
	secrets  func(ref string) (string, error)
	guard    *egress.Guard

	mu sync.Mutex
	at map[desired.Prometheus]prometheusQuery // those of VIMs
}

// newPrometheusQueries makes them. The server's is asked wherever it is, as its operator has said so. Those of
// VIMs are named by files, and are called as the VIMs are: secrets resolves what they refer to.
func newPrometheusQueries(o PrometheusOptions, settings func() (*desired.Settings, error), secrets func(ref string) (string, error), guard *egress.Guard) (*prometheusQueries, error) {
	p := &prometheusQueries{settings: settings, secrets: secrets, guard: guard, at: map[desired.Prometheus]prometheusQuery{}}
	if o.URL == "" {
		if o.Token != "" {
			return nil, errors.New("--prometheus-token needs --prometheus")
		}
		return p, nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, errors.New("--prometheus: want http://HOST:PORT or https://HOST, without a password (see --prometheus-token)")
	}
	token, err := reference.Read("--prometheus-token", o.Token)
	if err != nil {
		return nil, err
	}
	own, err := newPrometheusQuery(o.URL, bearer{func() (string, error) { return token, nil }, api.DefaultRoundTripper})
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	p.own = &own
	return p, nil
}

// Unasked implements [automation.RolloutQueries].
func (p *prometheusQueries) Unasked(q desired.RolloutQuery) string {
	if _, err := p.asked(q); err != nil {
		return err.Error()
	}
	return ""
}

// asked is the Prometheus of the VIM that the query names, zero for the server's. The error is why there is
// nobody to ask.
func (p *prometheusQueries) asked(q desired.RolloutQuery) (at desired.Prometheus, err error) {
	if q.VIM == "" {
		if p.own == nil {
			err = errors.New("the server has no Prometheus: start jibe serve with --prometheus URL, name a VIM that has one (vim: NAME), or remove it")
		}
		return at, err
	}
	settings, err := p.settings()
	if err != nil {
		return at, err
	}
	if why, remedy := q.Unasked(settings); why != "" {
		return at, fmt.Errorf("%s: %s", why, remedy)
	}
	return settings.VIMs[q.VIM].Prometheus, nil
}

// Ask implements [automation.RolloutQueries].
func (p *prometheusQueries) Ask(ctx context.Context, q desired.RolloutQuery, now time.Time) (why string, err error) {
	at, err := p.asked(q)
	if err != nil {
		return "", err
	}
	if q.VIM == "" {
		return p.own.ask(ctx, q, now)
	}
	of, err := p.of(at)
	if err == nil {
		why, err = of.ask(ctx, q, now)
	}
	if err != nil {
		return "", fmt.Errorf("%s: prometheus: %w", desired.VIMFile(q.VIM), err)
	}
	return why, nil
}

// mostPrometheus bounds the clients that are kept, for their connections.
const mostPrometheus = 100

// of is the client of a VIM's.
func (p *prometheusQueries) of(at desired.Prometheus) (prometheusQuery, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q, is := p.at[at]; is {
		return q, nil
	}
	u, err := url.Parse(at.URL)
	if err != nil {
		return prometheusQuery{}, err
	}
	token := func() (string, error) { return "", nil }
	if at.Token != "" {
		if err := p.guard.MayCarryCredentials(u); err != nil {
			return prometheusQuery{}, err
		}
		token = func() (string, error) { return p.secrets(at.Token) } // anew each time: it may be replaced
	}
	pem := at.CACert
	if desired.IsRef(pem) {
		if pem, err = p.secrets(pem); err != nil {
			return prometheusQuery{}, fmt.Errorf("caCert: %w", err)
		}
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if pem != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM([]byte(pem)) {
			return prometheusQuery{}, errors.New("caCert holds no PEM certificate")
		}
	}
	q, err := newPrometheusQuery(at.URL, bearer{token, &http.Transport{Proxy: p.guard.ProxyFor, DialContext: p.guard.DialContext(prometheusDial), TLSClientConfig: trust,
		MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 1}})
	if err != nil {
		return prometheusQuery{}, err
	}
	if len(p.at) >= mostPrometheus {
		clear(p.at)
	}
	p.at[at] = q
	return q, nil
}

// prometheusDial bounds the connection.
const prometheusDial = 3 * time.Second

// prometheusQuery asks one Prometheus.
type prometheusQuery struct{ api promapi.API }

func newPrometheusQuery(address string, transport http.RoundTripper) (prometheusQuery, error) {
	client, err := api.NewClient(api.Config{Address: address, Client: &http.Client{Transport: transport, CheckRedirect: egress.SameServer}})
	if err != nil {
		return prometheusQuery{}, err
	}
	return prometheusQuery{promapi.NewAPI(client)}, nil
}

// bearer sends a token with each request.
type bearer struct {
	token func() (string, error) // "" for none
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := b.token()
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	if token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return b.next.RoundTrip(r)
}

// queryPoints is at how many times at most a query is looked at, and queryStep how far they are apart at
// least: Prometheus scrapes some such time apart.
const (
	queryPoints = 120
	queryStep   = 15 * time.Second
)

// comparison is what a filter of PromQL has outside of selectors and texts, and quoted what those are.
var (
	quoted     = regexp.MustCompile("\\{[^}]*\\}|\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`")
	comparison = regexp.MustCompile(`[<>]|==|!=`)
	asNumber   = regexp.MustCompile(`\bbool\b`)
)

// filters says whether an answer of the query means that it holds, whatever its value, as in an alerting rule:
// a comparison has the values that meet it for an answer, which may be 0. With "bool", or without a
// comparison, 0 is a no.
func filters(query string) bool {
	query = quoted.ReplaceAllString(query, " ")
	return comparison.MatchString(query) && !asNumber.MatchString(query)
}

// ask says why the query isn't met, "" where it is: it had an answer all the time that is no "no".
func (p prometheusQuery) ask(ctx context.Context, q desired.RolloutQuery, now time.Time) (why string, err error) {
	step := max(queryStep, (q.For / queryPoints).Round(time.Second))
	begin := now.Add(-q.For)
	v, _, _, err := p.api.QueryRange(ctx, q.Query, promapi.Range{Start: begin, End: now, Step: step})
	if err != nil {
		return "", err
	}
	matrix, ok := v.(model.Matrix)
	if !ok {
		return "", fmt.Errorf("the answer is a %s", v.Type())
	}
	zeroHolds := filters(q.Query)
	answered := map[model.Time]bool{}
	for _, series := range matrix {
		for _, s := range series.Values {
			if value := float64(s.Value); value == 0 && !zeroHolds || math.IsNaN(value) {
				return fmt.Sprintf("%s is %v at %s", series.Metric, value, s.Timestamp.Time().UTC().Format(time.RFC3339)), nil
			}
			answered[s.Timestamp] = true
		}
	}
	for at := begin; !at.After(now); at = at.Add(step) {
		if !answered[model.TimeFromUnixNano(at.UnixNano())] {
			return "it has no answer at " + at.UTC().Format(time.RFC3339), nil
		}
	}
	return "", nil
}
