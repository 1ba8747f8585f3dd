package window_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired/window"
)

func must(t *testing.T, r window.Rule) window.Window {
	t.Helper()
	w, err := window.New(r)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func moment(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestAWindowLastsRealTimeAndBeginsAsRFC5545ReadsLocalTimes(t *testing.T) {
	berlin := func(cron string, lasts time.Duration) window.Rule {
		return window.Rule{Cron: cron, Timezone: "Europe/Berlin", Lasts: lasts}
	}
	for _, c := range []struct {
		name  string
		rule  window.Rule
		at    string
		open  bool
		until string
		next  string
	}{
		{"a plain night", berlin("0 1 * * *", 4*time.Hour), "2026-02-10T02:00:00+01:00", true, "2026-02-10T05:00:00+01:00", "2026-02-11T01:00:00+01:00"},
		{"its end is closed", berlin("0 1 * * *", 4*time.Hour), "2026-02-10T05:00:00+01:00", false, "", "2026-02-11T01:00:00+01:00"},
		{"clocks go ahead inside: it ends an hour later on the clock", berlin("0 1 * * *", 4*time.Hour), "2026-03-29T05:30:00+02:00", true, "2026-03-29T06:00:00+02:00", "2026-03-30T01:00:00+02:00"},
		{"clocks go back inside: it ends an hour earlier on the clock", berlin("0 1 * * *", 4*time.Hour), "2026-10-25T04:00:00+01:00", false, "", "2026-10-26T01:00:00+01:00"},
		{"a beginning in the gap is read by the offset before it", berlin("30 2 * * *", time.Hour), "2026-03-29T03:15:00+02:00", false, "", "2026-03-29T03:30:00+02:00"},
		{"a beginning that occurs twice is the first", berlin("30 2 * * *", time.Hour), "2026-10-25T02:45:00+02:00", true, "2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"},
		{"the second opens nothing", berlin("30 2 * * *", 30*time.Minute), "2026-10-25T02:45:00+01:00", false, "", "2026-10-26T02:30:00+01:00"},
		{"windows that touch are one", berlin("0 1,3 * * *", 2*time.Hour), "2026-02-10T02:00:00+01:00", true, "2026-02-10T05:00:00+01:00", "2026-02-11T01:00:00+01:00"},
		{"the rule of RFC 5545 is read alike", window.Rule{RRule: "FREQ=DAILY", Start: "2026-01-01T02:30", Timezone: "Europe/Berlin", Lasts: time.Hour}, "2026-03-29T03:15:00+02:00", false, "", "2026-03-29T03:30:00+02:00"},
		{"a rule that has ended never opens again", window.Rule{RRule: "FREQ=DAILY;COUNT=2", Start: "2026-01-01T02:30", Lasts: time.Hour}, "2026-01-02T03:00:00Z", true, "2026-01-02T03:30:00Z", ""},
		{"the last beginning is the one at UNTIL", window.Rule{RRule: "FREQ=DAILY;UNTIL=20260102T013000Z", Start: "2026-01-01T02:30", Timezone: "Europe/Berlin", Lasts: time.Hour}, "2026-01-01T12:00:00Z", false, "", "2026-01-02T01:30:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := window.At([]window.Window{must(t, c.rule)}, moment(t, c.at))
			same := func(got time.Time, want string) bool {
				return want == "" && got.IsZero() || want != "" && got.Equal(moment(t, want))
			}
			if got.Open != c.open || !same(got.Until, c.until) || !same(got.Next, c.next) {
				t.Errorf("open %v until %s, next %s; want %v, %s, %s", got.Open, got.Until, got.Next, c.open, c.until, c.next)
			}
		})
	}
}

func TestWhatIsAlwaysOpenHasNoEnd(t *testing.T) {
	w := must(t, window.Rule{Cron: "* * * * *", Lasts: time.Minute})
	if got := window.At([]window.Window{w}, moment(t, "2026-02-10T02:00:00Z")); !got.Open || !got.Until.IsZero() {
		t.Errorf("got %+v", got)
	}
	if got := window.At(nil, moment(t, "2026-02-10T02:00:00Z")); !got.Open || !got.Until.IsZero() {
		t.Errorf("no windows: got %+v", got)
	}
}

func TestWorkWaitsForAllCalendarsAndForATimeThatIsLongEnough(t *testing.T) {
	nightly := window.Calendar{Windows: []window.Window{must(t, window.Rule{Cron: "0 1 * * *", Lasts: 4 * time.Hour})}}
	tuesdays := window.Calendar{Windows: []window.Window{must(t, window.Rule{Cron: "0 0 * * TUE", Lasts: 2 * time.Hour})}}
	frozen := window.Calendar{Freezes: []window.Freeze{{From: moment(t, "2026-02-10T00:00:00Z"), Until: moment(t, "2026-02-12T00:00:00Z"), Reason: "new year"}}}
	for _, c := range []struct {
		name  string
		in    []window.Calendar
		at    string // a Monday is 2026-02-09
		takes time.Duration
		open  bool
		until string
		short bool
		held  bool
	}{
		{"open", []window.Calendar{nightly}, "2026-02-09T02:00:00Z", time.Hour, true, "2026-02-09T02:00:00Z", false, false},
		{"just long enough", []window.Calendar{nightly}, "2026-02-09T02:00:00Z", 3 * time.Hour, true, "2026-02-09T02:00:00Z", false, false},
		{"too long for the rest", []window.Calendar{nightly}, "2026-02-09T02:00:01Z", 3 * time.Hour, false, "2026-02-10T01:00:00Z", true, false},
		{"too long for any", []window.Calendar{nightly}, "2026-02-09T02:00:00Z", 5 * time.Hour, false, "", true, false},
		{"all must be open", []window.Calendar{nightly, tuesdays}, "2026-02-09T02:00:00Z", 0, false, "2026-02-10T01:00:00Z", false, false},
		{"all must be open long enough", []window.Calendar{nightly, tuesdays}, "2026-02-09T02:00:00Z", 2 * time.Hour, false, "", false, false},
		{"a freeze holds", []window.Calendar{nightly, frozen}, "2026-02-10T02:00:00Z", 0, false, "2026-02-12T01:00:00Z", false, true},
		{"work doesn't reach into a freeze", []window.Calendar{frozen}, "2026-02-09T23:30:00Z", time.Hour, false, "2026-02-12T00:00:00Z", true, false},
		{"nothing is asked", nil, "2026-02-09T23:30:00Z", time.Hour, true, "2026-02-09T23:30:00Z", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := window.Ask(c.in, moment(t, c.at), c.takes)
			var want time.Time
			if c.until != "" {
				want = moment(t, c.until)
			}
			if got.Open != c.open || !got.Until.Equal(want) || got.Short != c.short || (got.Freeze != nil) != c.held {
				t.Errorf("got %+v; want open %v until %q short %v held %v", got, c.open, c.until, c.short, c.held)
			}
		})
	}
}

func TestARuleThatIsWrongIsRefusedByItsField(t *testing.T) {
	h := time.Hour
	for _, c := range []struct {
		rule          window.Rule
		field, reason string
	}{
		{window.Rule{Lasts: h}, "cron", "when it opens"},
		{window.Rule{Cron: "0 1 * *", Lasts: h}, "cron", "five fields"},
		{window.Rule{Cron: "0 25 * * *", Lasts: h}, "cron", "25"},
		{window.Rule{Cron: "@daily", Lasts: h}, "cron", "five fields"},
		{window.Rule{Cron: "TZ=UTC 0 1 * * *", Lasts: h}, "cron", "five fields"},
		{window.Rule{Cron: "0 0 30 2 *", Lasts: h}, "cron", "never occur"},
		{window.Rule{Cron: "0 1 * * *"}, "lasts", "0s"},
		{window.Rule{Cron: "0 1 * * *", Lasts: 800 * h}, "lasts", "800h"},
		{window.Rule{Cron: "0 1 * * *", Lasts: h, Timezone: "Mars/Olympus"}, "timezone", "Mars"},
		{window.Rule{Cron: "0 1 * * *", Lasts: h, Timezone: "Local"}, "timezone", "Local"},
		{window.Rule{Cron: "0 1 * * *", Lasts: h, Start: "2026-01-01T00:00"}, "start", "rrule"},
		{window.Rule{Cron: "0 1 * * *", RRule: "FREQ=DAILY", Lasts: h}, "rrule", "cron or rrule"},
		{window.Rule{RRule: "FREQ=DAILY", Lasts: h}, "start", "first time"},
		{window.Rule{RRule: "FREQ=DAILY", Start: "2026-01-01", Lasts: h}, "start", "local time"},
		{window.Rule{RRule: "FREQ=HOURLY", Start: "2026-01-01T00:00", Lasts: h}, "rrule", "more often"},
		{window.Rule{RRule: "FREQ=DAILY;UNTIL=20270101T000000", Start: "2026-01-01T00:00", Lasts: h}, "rrule", "UTC"},
		{window.Rule{RRule: "FREQ=DAILY;INTERVAL=100000000", Start: "2026-01-01T00:00", Lasts: h}, "rrule", "INTERVAL"},
		{window.Rule{RRule: "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", Start: "2026-01-01T00:00", Lasts: h}, "rrule", "never"},
		{window.Rule{RRule: "FREQ=DAILY\nEXDATE:20260101T000000Z", Start: "2026-01-01T00:00", Lasts: h}, "rrule", "more than"},
		{window.Rule{RRule: "FREQ=SOMETIMES", Start: "2026-01-01T00:00", Lasts: h}, "rrule", "SOMETIMES"},
	} {
		_, err := window.New(c.rule)
		var wrong *window.RuleError
		if !errors.As(err, &wrong) || wrong.Field != c.field || !strings.Contains(wrong.Reason, c.reason) {
			t.Errorf("%+v: %v; want %s of %s", c.rule, err, c.reason, c.field)
		}
	}
}

func FuzzARuleIsReadOrRefused(f *testing.F) {
	f.Add("0 1 * * TUE-THU", "", "", "Asia/Tokyo", int64(4*time.Hour))
	f.Add("", "FREQ=WEEKLY;BYDAY=TU", "2026-01-06T01:00", "Europe/Berlin", int64(time.Hour))
	f.Add("", "FREQ=YEARLY;BYWEEKNO=53;BYDAY=-1SU;BYSETPOS=-1", "2026-01-06T01:00", "", int64(time.Hour))
	f.Fuzz(func(t *testing.T, cron, rule, start, zone string, lasts int64) {
		w, err := window.New(window.Rule{Cron: cron, RRule: rule, Start: start, Timezone: zone, Lasts: time.Duration(lasts)})
		if err != nil {
			return
		}
		at := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
		if s := window.At([]window.Window{w}, at); !s.Next.IsZero() && !s.Next.After(at) {
			t.Errorf("at %s it opens next at %s", at, s.Next)
		}
	})
}
