package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/jibe-vnfm/jibe/desired"
)

// PrometheusOptions say which Prometheus the gates of rollouts ask. The zero value is none.
type PrometheusOptions struct {
	// URL is that of its API, without "/api/v1".
	URL string
	// Token is a reference (file:PATH or env:NAME) to the bearer token that it wants; "" is none.
	Token string
}

// prometheusQuery asks Prometheus the queries of rollouts.
type prometheusQuery struct{ api promapi.API }

// newPrometheusQuery is nil without a URL.
func newPrometheusQuery(o PrometheusOptions) (func(ctx context.Context, q desired.RolloutQuery, now time.Time) (string, error), error) {
	if o.URL == "" {
		if o.Token != "" {
			return nil, errors.New("--prometheus-token needs --prometheus")
		}
		return nil, nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, errors.New("--prometheus: want http://HOST:PORT or https://HOST, without a password (see --prometheus-token)")
	}
	token, err := resolve("--prometheus-token", o.Token)
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.Config{Address: o.URL, RoundTripper: bearer{token, api.DefaultRoundTripper}})
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	return prometheusQuery{promapi.NewAPI(client)}.ask, nil
}

// bearer sends a token with each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
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
