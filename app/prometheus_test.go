package app

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

func TestAQueryIsMetWhereItHasAnAnswerAllTheTimeThatIsNoNo(t *testing.T) {
	var answer func(at int64) string // the samples of one time, in JSON
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" || r.FormValue("query") != "up" {
			t.Errorf("asked for %q with %q", r.FormValue("query"), r.Header.Get("Authorization"))
		}
		var values []string
		begin, _ := strconv.ParseFloat(r.FormValue("start"), 64)
		end, _ := strconv.ParseFloat(r.FormValue("end"), 64)
		step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
		for at := begin; at <= end; at += step {
			if v := answer(int64(at)); v != "" {
				values = append(values, fmt.Sprintf(`[%.3f,%q]`, at, v))
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if status != http.StatusOK {
			fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"no such function"}`)
			return
		}
		series := ""
		if len(values) > 0 {
			series = `{"metric":{"job":"amf"},"values":[` + strings.Join(values, ",") + `]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, series)
	}))
	defer srv.Close()
	t.Setenv("PROMETHEUS_TOKEN", "t0ken")
	queries, err := newPrometheusQueries(PrometheusOptions{URL: srv.URL, Token: "env:PROMETHEUS_TOKEN"}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := queries.Ask
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	always := func(v string) func(int64) string { return func(int64) string { return v } }
	for name, c := range map[string]struct {
		answer func(int64) string
		over   time.Duration
		why    string
	}{
		"now":               {always("1"), 0, ""},
		"for ten minutes":   {always("0.5"), 10 * time.Minute, ""},
		"for a day":         {always("2"), 24 * time.Hour, ""},
		"no answer":         {always(""), 0, "it has no answer at 2026-03-01T12:00:00Z"},
		"a 0":               {always("0"), time.Minute, `{job="amf"} is 0 at 2026-03-01T11:59:00Z`},
		"not a number":      {always("NaN"), 0, "is NaN"},
		"a hole in between": {func(at int64) string { return map[bool]string{true: "1"}[at != now.Unix()-120] }, 10 * time.Minute, "it has no answer at 2026-03-01T11:58:00Z"},
	} {
		answer = c.answer
		why, err := ask(t.Context(), desired.RolloutQuery{Query: "up", For: c.over}, now)
		if err != nil || c.why == "" && why != "" || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, %v; want %q", name, why, err, c.why)
		}
	}
	status = http.StatusBadRequest
	if why, err := ask(t.Context(), desired.RolloutQuery{Query: "up"}, now); err == nil || !strings.Contains(err.Error(), "no such function") {
		t.Errorf("an error of Prometheus is %q, %v", why, err)
	}
	for _, o := range []PrometheusOptions{{Token: "env:PROMETHEUS_TOKEN"}, {URL: "prometheus:9090"}, {URL: "http://me:secret@prometheus"}, {URL: srv.URL, Token: "t0ken"}} {
		if _, err := newPrometheusQueries(o, nil, nil, nil); err == nil || strings.Contains(err.Error(), "t0ken") || strings.Contains(err.Error(), "me:secret") {
			t.Errorf("%+v is taken: %v", o, err)
		}
	}
}

func TestTheQueryOfAVIMIsAskedOfItsOwnPrometheusAsTheVIMIsCalled(t *testing.T) {
	t.Parallel()

	var sent string
	answer := func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		begin, _ := strconv.ParseFloat(r.FormValue("start"), 64)
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[%.3f,"1"]]}]}}`, begin)
	}
	srv := httptest.NewTLSServer(http.HandlerFunc(answer))
	defer srv.Close()
	plain := httptest.NewServer(http.HandlerFunc(answer))
	defer plain.Close()
	elsewhere := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	token := "one"
	secrets := func(ref string) (string, error) {
		return map[string]string{"file:/ca": ca, "file:/token": token}[ref], nil
	}
	settings := &desired.Settings{VIMs: map[string]*desired.VIM{
		"edge":     {Prometheus: desired.Prometheus{URL: srv.URL, CACert: "file:/ca", Token: "file:/token"}},
		"pasted":   {Prometheus: desired.Prometheus{URL: srv.URL, CACert: ca}},
		"unknown":  {Prometheus: desired.Prometheus{URL: srv.URL}},
		"moved":    {Prometheus: desired.Prometheus{URL: elsewhere.URL, CACert: ca, Token: "file:/token"}},
		"in clear": {Prometheus: desired.Prometheus{URL: "http://prometheus.example:9090", Token: "file:/token"}},
		"none":     {},
	}}
	queries := func(guard *egress.Guard) *prometheusQueries {
		q, err := newPrometheusQueries(PrometheusOptions{}, func() (*desired.Settings, error) { return settings, nil }, secrets, guard)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	here := queries(egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ask := func(q *prometheusQueries, vim string) (string, error) {
		sent = ""
		return q.Ask(t.Context(), desired.RolloutQuery{VIM: vim, Query: "up"}, now)
	}
	if why, err := ask(here, "edge"); err != nil || why != "" || sent != "Bearer one" {
		t.Errorf("%q, %v, sent %q", why, err, sent)
	}
	token = "two" // it was replaced
	if why, err := ask(here, "edge"); err != nil || why != "" || sent != "Bearer two" {
		t.Errorf("%q, %v, sent %q", why, err, sent)
	}
	if why, err := ask(here, "pasted"); err != nil || why != "" || sent != "" {
		t.Errorf("%q, %v, sent %q", why, err, sent)
	}
	for vim, want := range map[string]string{
		"unknown":  "certificate",
		"moved":    "redirect",
		"in clear": "in clear",
		"none":     "vims/none.yaml has no Prometheus",
		"other":    `there is no VIM "other"`,
		"":         "the server has no Prometheus",
	} {
		if why, err := ask(here, vim); err == nil || !strings.Contains(err.Error(), want) || sent != "" {
			t.Errorf("%s: %q, %v, sent %q; want %q", vim, why, err, sent, want)
		}
	}
	refused := new(egress.RefusedError)
	if why, err := ask(queries(egress.New(egress.Options{})), "pasted"); !errors.As(err, &refused) {
		t.Errorf("this machine is called: %q, %v", why, err)
	}
}

func TestAnAnswerToAComparisonHoldsWhateverItsValue(t *testing.T) {
	t.Parallel()

	for query, want := range map[string]bool{
		"sum(rate(amf_rejects[5m])) < 0.1":       true, // of a VNF that refuses nothing this is 0
		`errors{job!="a>b"} == 0`:                true,
		"up != 0":                                true,
		"up":                                     false,
		`sum(up{job!="x",site=~"a<b"})`:          false,
		`label_replace(up, "a", "x>y", "b", "")`: false,
		"errors < bool 1":                        false,
		"errors < 1 and on() (up > bool 0)":      false,
	} {
		if got := filters(query); got != want {
			t.Errorf("%s: an answer of 0 holds: %t, want %t", query, got, want)
		}
	}
}
