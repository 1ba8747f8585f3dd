package window_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired/window"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// TestNothingIsOpenThatACalendarOnPaperHasClosed holds random cases of rule, zone and time against an
// oracle that knows nothing of the package's ways: it walks through every minute of some days, looks at the
// clock of the zone, and marks what it finds. JIBE_CASES=1000000 makes it a million.
func TestNothingIsOpenThatACalendarOnPaperHasClosed(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("JIBE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("JIBE_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	rules, times := 200, 200
	if kit.Quick(t) {
		rules = 20
	}
	if n, _ := strconv.Atoi(os.Getenv("JIBE_CASES")); n > 0 {
		rules, times = max(n/1000, 1), 1000
	}
	openCases := 0
	for range rules {
		p := randomPaper(r)
		w, err := window.New(p.rule)
		if err != nil {
			if strings.Contains(err.Error(), "never") {
				continue // no such day, or not before its end
			}
			t.Fatalf("%+v: %v", p.rule, err)
		}
		starts := p.starts()
		for range times {
			at := p.from.Add(p.rule.Lasts).Add(time.Duration(r.Int64N(int64(p.to.Sub(p.from) - p.rule.Lasts))))
			if r.IntN(20) == 0 && len(starts) > 0 { // to the second, where it opens or closes
				at = starts[r.IntN(len(starts))].Add(time.Duration(r.IntN(2)) * p.rule.Lasts)
				if at.Before(p.from.Add(p.rule.Lasts)) || !at.Before(p.to) {
					continue
				}
			}
			got := window.At([]window.Window{w}, at)
			open, until, next := p.at(starts, at)
			if open {
				openCases++
			}
			if got.Open != open {
				t.Fatalf("%+v at %s (%s): open is %v, and on paper %v", p.rule, at.UTC(), at.In(p.zone), got.Open, open)
			}
			if !until.IsZero() && !got.Until.Equal(until) || !next.IsZero() && !got.Next.Equal(next) {
				t.Fatalf("%+v at %s (%s): until %s, next %s; on paper until %s, next %s", p.rule, at.UTC(), at.In(p.zone), got.Until.UTC(), got.Next.UTC(), until.UTC(), next.UTC())
			}
		}
	}
	if openCases < rules*times/50 {
		t.Errorf("only %d cases were open: the rules are too sparse to prove anything", openCases)
	}
}

// paper is a rule with the sets that it was written from, and the days that are looked at.
type paper struct {
	rule     window.Rule
	zone     *time.Location
	minutes  set
	hours    set
	matches  func(day time.Time) bool
	first    time.Time // of an RRULE, on the wall clock
	count    int
	until    time.Time
	from, to time.Time
}

type set map[int]bool

func (s set) has(n int) bool { return len(s) == 0 || s[n] }

// starts are the beginnings of the days that are looked at, by walking through every minute.
func (p *paper) starts() []time.Time {
	var out []time.Time
	found := 0
	begin := func(clock, at time.Time) {
		if clock.Before(p.first) || !p.minutes.has(clock.Minute()) || !p.hours.has(clock.Hour()) || !p.matches(clock) {
			return
		}
		found++
		if p.count > 0 && found > p.count || !p.until.IsZero() && at.After(p.until) {
			return
		}
		out = append(out, at)
	}
	shown := func(at time.Time) time.Time {
		l := at.In(p.zone)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}
	last := shown(p.from.Add(-time.Minute))
	for at := p.from; at.Before(p.to); at = at.Add(time.Minute) {
		clock := shown(at)
		// The minutes that the clock leaves out come as many minutes later as it shows them after its jump.
		ahead := at
		for m := last.Add(time.Minute); m.Before(clock); m = m.Add(time.Minute) {
			begin(m, ahead)
			ahead = ahead.Add(time.Minute)
		}
		if clock.After(last) { // else it shows again what it has shown before
			begin(clock, at)
			last = clock
		}
	}
	return out
}

// at reads the marks at a time. What lies beyond the days that are looked at is zero.
func (p *paper) at(starts []time.Time, at time.Time) (open bool, until, next time.Time) {
	// After a gap of the clock, the beginnings may not be in order.
	for _, s := range starts {
		if !s.After(at) && at.Before(s.Add(p.rule.Lasts)) {
			open = true
		}
	}
	edge := at
	if open {
		for grown := true; grown; {
			grown = false
			for _, s := range starts {
				if e := s.Add(p.rule.Lasts); !s.After(edge) && e.After(edge) {
					edge, grown = e, true
				}
			}
		}
		if !edge.Before(p.to.Add(-25 * time.Hour)) {
			return true, time.Time{}, time.Time{}
		}
		until = edge
	}
	for _, s := range starts {
		if s.After(edge) && (next.IsZero() || s.Before(next)) {
			next = s
		}
	}
	if !next.Before(p.to.Add(-25 * time.Hour)) {
		next = time.Time{}
	}
	return open, until, next
}

// zones have changes of an hour, of half an hour, of a whole day, by night and at midnight, and none.
func zones() []string {
	return []string{
		"Asia/Tokyo", "UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu",
		"America/St_Johns", "Africa/Casablanca", "Asia/Beirut", "Pacific/Apia", "America/Havana", "Pacific/Chatham", "Antarctica/Troll", "Europe/Dublin",
	}
}

func randomPaper(r *rand.Rand) *paper {
	p := &paper{minutes: set{}, hours: set{}}
	name := zones()[r.IntN(len(zones()))]
	p.rule.Timezone = name
	p.zone, _ = time.LoadLocation(name)
	p.rule.Lasts = []time.Duration{time.Minute, 30 * time.Minute, 45 * time.Minute, time.Hour, 4 * time.Hour, 9 * time.Hour, 24 * time.Hour, 30 * time.Hour}[r.IntN(8)]
	p.from = time.Date(2000+r.IntN(37), 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.IntN(365*24)) * time.Hour)
	if _, changes := p.from.In(p.zone).ZoneBounds(); !changes.IsZero() && r.IntN(4) > 0 { // mostly where the clocks change
		p.from = changes.UTC().Truncate(time.Hour).Add(-time.Duration(40+r.IntN(60)) * time.Hour)
	}
	p.to = p.from.Add(6 * 24 * time.Hour)
	for range 1 + r.IntN(2) {
		p.minutes[[]int{0, 15, 30, r.IntN(60)}[r.IntN(4)]] = true
	}
	for range r.IntN(4) {
		p.hours[[]int{0, 1, 2, 3, r.IntN(24)}[r.IntN(5)]] = true
	}
	if r.IntN(4) > 0 {
		p.cron(r)
	} else {
		p.rrule(r)
	}
	return p
}

func (p *paper) cron(r *rand.Rand) {
	days, months, weekdays := set{}, set{}, set{}
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(10) {
			days[1+r.IntN(31)] = true
		}
	}
	if r.IntN(3) == 0 {
		for range 6 + r.IntN(4) {
			months[1+r.IntN(12)] = true
		}
	}
	if r.IntN(2) == 0 {
		for range 1 + r.IntN(4) {
			weekdays[r.IntN(7)] = true
		}
	}
	p.rule.Cron = strings.Join([]string{list(p.minutes), list(p.hours), list(days), list(months), list(weekdays)}, " ")
	p.matches = func(day time.Time) bool {
		d, w := days.has(day.Day()), weekdays.has(int(day.Weekday()))
		if len(days) > 0 && len(weekdays) > 0 { // as cron has it, either suffices
			d = d || w
			w = true
		}
		return months.has(int(day.Month())) && d && w
	}
}

func (p *paper) rrule(r *rand.Rand) {
	if len(p.hours) == 0 {
		p.hours[r.IntN(24)] = true
	}
	// It begins on the wall clock some time before the days that are looked at, or among them.
	ago := r.IntN(900)
	if r.IntN(4) == 0 {
		ago = -1 - r.IntN(3)
	}
	l := p.from.AddDate(0, 0, -ago).In(p.zone)
	p.first = time.Date(l.Year(), l.Month(), l.Day(), r.IntN(24), r.IntN(60), 0, 0, time.UTC)
	p.rule.Start = p.first.Format(window.StartFormat)
	every := 1 + r.IntN(3)
	weekdays := set{}
	for range 1 + r.IntN(4) {
		weekdays[r.IntN(7)] = true
	}
	var days []string
	for d := range weekdays {
		days = append(days, []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}[d])
	}
	midnight := func(t time.Time) time.Time { return t.Truncate(24 * time.Hour) }
	monday := func(t time.Time) time.Time { return midnight(t).AddDate(0, 0, -(int(t.Weekday())+6)%7) }
	by := fmt.Sprintf(";INTERVAL=%d;BYHOUR=%s;BYMINUTE=%s", every, list(p.hours), list(p.minutes))
	switch r.IntN(3) {
	case 0:
		p.rule.RRule = "FREQ=DAILY" + by
		p.matches = func(day time.Time) bool {
			return int(midnight(day).Sub(midnight(p.first)).Hours()/24)%every == 0
		}
		if ago < 0 && r.IntN(2) == 0 { // all that count are among the days that are looked at
			p.count = 1 + r.IntN(5)
			p.rule.RRule += fmt.Sprintf(";COUNT=%d", p.count)
		}
	case 1:
		p.rule.RRule = "FREQ=WEEKLY;BYDAY=" + strings.Join(days, ",") + by
		p.matches = func(day time.Time) bool {
			weeks := int(monday(day).Sub(monday(p.first)).Hours() / 24 / 7)
			return weeks%every == 0 && weekdays[int(day.Weekday())]
		}
	case 2:
		n := 1 + r.IntN(31)
		p.rule.RRule = fmt.Sprintf("FREQ=MONTHLY;BYMONTHDAY=%d", n) + by
		p.matches = func(day time.Time) bool {
			months := (day.Year()-p.first.Year())*12 + int(day.Month()) - int(p.first.Month())
			return months%every == 0 && day.Day() == n
		}
	}
	if p.count == 0 && r.IntN(3) == 0 {
		p.until = p.from.Add(time.Duration(r.IntN(6*24*60)) * time.Minute)
		p.rule.RRule += ";UNTIL=" + p.until.Format("20060102T150405Z")
	}
}

func list(s set) string {
	if len(s) == 0 {
		return "*"
	}
	var out []string
	for n := range s {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}
