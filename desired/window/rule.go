package window

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // minimal images have no zone files

	"github.com/robfig/cron/v3"
	"github.com/teambition/rrule-go"
)

// Rule is a recurring window as it is written: Cron, or RRule with Start.
type Rule struct {
	// Cron has five fields: minute, hour, day of month, month, day of week.
	Cron string `json:"cron,omitempty"`
	// RRule is a recurrence rule of RFC 5545 section 3.3.10, from FREQ=DAILY to FREQ=YEARLY, whose first
	// beginning is Start, a local time such as 2026-01-06T01:00.
	RRule string `json:"rrule,omitempty"`
	Start string `json:"start,omitempty"`
	// Timezone is a name of the IANA database, such as Asia/Tokyo; "" is UTC.
	Timezone string `json:"timezone,omitempty"`
	// Lasts is the length in real time, [Shortest] to [Longest].
	Lasts time.Duration `json:"lasts"`
}

// The bounds of a window's length.
const (
	Shortest = time.Minute
	Longest  = 31 * 24 * time.Hour
)

// StartFormat is how Rule.Start is written.
const StartFormat = "2006-01-02T15:04"

// A RuleError says what is wrong with a field of a rule.
type RuleError struct {
	// Field is the key as users write it: "cron".
	Field string
	// Reason tells what is wrong, Remedy what to write instead.
	Reason, Remedy string
}

func (e *RuleError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Field, e.Reason, e.Remedy) }

// Window is a rule that was read. The zero value never opens. It is never changed, and any
// number of goroutines may ask it.
type Window struct {
	starts walls
	zone   *time.Location
	lasts  time.Duration
	// until is the last instant at which the rule may open; zero is no end.
	until time.Time
}

// walls is a sequence of beginnings on the wall clock. A time on the wall clock is written as if it
// were one of UTC, where no clock ever changes.
type walls interface {
	// next is the first beginning after a time, both on the wall clock; zero is never.
	next(after time.Time) time.Time
}

// New reads a rule. The error is a [*RuleError].
func New(r Rule) (Window, error) {
	zone, err := zoneOf(r.Timezone)
	if err != nil {
		return Window{}, err
	}
	if r.Lasts < Shortest || r.Lasts > Longest {
		return Window{}, &RuleError{"lasts", fmt.Sprintf("a window can't last %s", r.Lasts), fmt.Sprintf("write a time such as 90m or 4h, from %s to %s", Shortest, Longest)}
	}
	w := Window{zone: zone, lasts: r.Lasts}
	switch {
	case r.Cron != "" && r.RRule != "":
		return Window{}, &RuleError{"rrule", "a window has cron or rrule", "remove one of them"}
	case r.Cron != "" && r.Start != "":
		return Window{}, &RuleError{"start", "only a window with rrule has a start", "remove it"}
	case r.Cron != "":
		w.starts, err = readCron(r.Cron)
	case r.RRule != "":
		w.starts, w.until, err = readRRule(r.RRule, r.Start, zone)
	default:
		return Window{}, &RuleError{"cron", "a window says when it opens", `add cron: "0 1 * * TUE-THU", or rrule: with start:`}
	}
	return w, err
}

// zoneOf finds a zone by its name. That of the machine would mean another thing on the next one.
func zoneOf(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, &RuleError{"timezone", fmt.Sprintf("%q is no time zone", name), "write a name of the IANA database, such as Asia/Tokyo or UTC"}
	}
	return zone, nil
}

// byCron are the beginnings of a cron expression.
type byCron struct{ schedule cron.Schedule }

func (c byCron) next(after time.Time) time.Time { return c.schedule.Next(after) }

// readCron reads five fields and nothing else: the library would also take a zone of its own and
// intervals that begin whenever the process does.
func readCron(s string) (walls, error) {
	remedy := `write minute, hour, day of month, month, day of week, such as "0 1 * * TUE-THU"`
	if strings.Contains(s, "=") {
		return nil, &RuleError{"cron", fmt.Sprintf("%q isn't five fields", s), remedy + "; a zone is given by timezone:"}
	}
	schedule, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(s)
	if err != nil {
		return nil, &RuleError{"cron", fmt.Sprintf("%q isn't five fields: %v", s, err), remedy}
	}
	// Every day that there is occurs within four years of this one.
	if schedule.Next(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, &RuleError{"cron", fmt.Sprintf("%q names days that never occur", s), remedy}
	}
	return byCron{schedule}, nil
}

// byRRule are the beginnings of a rule of RFC 5545.
type byRRule struct{ option rrule.ROption }

// readRRule reads a rule of RFC 5545. What the library takes beyond it, or what would open at the
// second, is refused: windows are of minutes.
func readRRule(s, start string, zone *time.Location) (walls, time.Time, error) {
	none := time.Time{}
	wrong := func(reason string) error {
		return &RuleError{"rrule", fmt.Sprintf("%q %s", s, reason), `write a rule of RFC 5545 such as "FREQ=WEEKLY;BYDAY=TU", with start: as its first beginning`}
	}
	if start == "" {
		return nil, none, &RuleError{"start", "a window with rrule says when it opens for the first time", "add start: 2026-01-06T01:00, in the time of timezone:"}
	}
	first, err := time.Parse(StartFormat, start)
	if err != nil {
		return nil, none, &RuleError{"start", fmt.Sprintf("%q isn't a local time", start), "write one such as 2026-01-06T01:00, in the time of timezone:"}
	}
	if strings.ContainsAny(s, ":\n ") {
		return nil, none, wrong("has more than the rule itself")
	}
	option, err := rrule.StrToROption(s)
	switch {
	case err != nil:
		return nil, none, wrong("can't be read: " + err.Error())
	case option.Freq > rrule.DAILY:
		return nil, none, wrong("opens more often than daily; BYHOUR and BYMINUTE can say so")
	case !option.Dtstart.IsZero() || len(option.Bysecond) > 0 || len(option.Byeaster) > 0:
		return nil, none, wrong("has DTSTART, BYSECOND or BYEASTER")
	case option.Interval > 1000 || option.Count < 0 || option.Count > 10000:
		return nil, none, wrong("has an INTERVAL above 1000, or a COUNT above 10000")
	case option.Count > 0 && !option.Until.IsZero():
		return nil, none, wrong("has both COUNT and UNTIL")
	case !option.Until.IsZero() && !strings.Contains(s+";", "Z;"):
		return nil, none, wrong("ends at a local time; UNTIL is a time of UTC, such as 20261231T150000Z")
	}
	until := option.Until
	if !until.IsZero() {
		// The instant itself decides; on the wall clock it is only near.
		option.Until = wall(until, zone).Add(nearby)
	}
	option.Dtstart = first
	rule, err := rrule.NewRRule(*option)
	if err != nil {
		return nil, none, wrong("can't be read: " + err.Error())
	}
	if rule.After(first, true).IsZero() {
		return nil, none, wrong("never opens")
	}
	return byRRule{*option}, until, nil
}

func (b byRRule) next(after time.Time) time.Time {
	option := b.option
	option.Dtstart = b.near(after)
	rule, err := rrule.NewRRule(option)
	if err != nil {
		return time.Time{} // New has read it
	}
	return rule.After(after, false)
}

// near is a beginning to count from that is close before a time and means the same rule, since the
// library walks through all that came before.
func (b byRRule) near(after time.Time) time.Time {
	first := b.option.Dtstart
	days := 0
	switch b.option.Freq {
	case rrule.DAILY:
		days = max(b.option.Interval, 1)
	case rrule.WEEKLY:
		days = 7 * max(b.option.Interval, 1)
	}
	if days == 0 || b.option.Count > 0 || !after.After(first) {
		return first
	}
	// One turn less: a week begins before its first beginning.
	turns := int(after.Sub(first).Hours()/24)/days - 1
	return first.AddDate(0, 0, max(turns, 0)*days)
}
