package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
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
	ask, err := newPrometheusQuery(PrometheusOptions{URL: srv.URL, Token: "env:PROMETHEUS_TOKEN"})
	if err != nil {
		t.Fatal(err)
	}
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
		if _, err := newPrometheusQuery(o); err == nil || strings.Contains(err.Error(), "t0ken") || strings.Contains(err.Error(), "me:secret") {
			t.Errorf("%+v is taken: %v", o, err)
		}
	}
}

func TestAnAnswerToAComparisonHoldsWhateverItsValue(t *testing.T) {
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
