package desired_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestMaintenanceIsReadAndBindsAllButHealUnlessItSaysOtherwise(t *testing.T) {
	m, err := desired.ParseMaintenance("instances/maintenance.yaml", []byte(`
windows:
- {cron: "0 1 * * TUE-THU", timezone: Asia/Tokyo, lasts: 4h}
- {rrule: "FREQ=MONTHLY;BYDAY=1SU", start: 2026-01-04T02:00, timezone: Europe/Berlin, lasts: 2h}
freezes:
- {from: 2026-12-20T00:00:00+09:00, until: 2027-01-04T06:00:00+09:00, reason: new year}
`))
	if err != nil {
		t.Fatal(err)
	}
	if !m.Bound("SCALE") || !m.Bound("TERMINATE") || !m.Bound("MODIFY_INFO") || m.Bound("HEAL") {
		t.Error("by default it must bind all but HEAL")
	}
	at := time.Date(2026, 12, 22, 2, 0, 0, 0, time.FixedZone("", 9*3600)) // a Tuesday, in the freeze
	w := desired.Ask([]*desired.Maintenance{m}, "SCALE", at, 0)
	if want := time.Date(2027, 1, 5, 1, 0, 0, 0, time.FixedZone("", 9*3600)); w.Open || !w.Until.Equal(want) || w.Freeze == nil || w.File != m.File {
		t.Errorf("it waits by %+v, want until %s", w, want)
	}
	if w := desired.Ask([]*desired.Maintenance{m}, "HEAL", at, 0); !w.Open {
		t.Errorf("a heal waits: %+v", w)
	}
	if m, err = desired.ParseMaintenance("maintenance.yaml", []byte("binds: [HEAL, SCALE]\n")); err != nil || !m.Bound("HEAL") || m.Bound("TERMINATE") {
		t.Errorf("binds isn't obeyed: %+v, %v", m, err)
	}
}

func TestAMaintenanceFileThatIsWrongIsRefusedWithItsLine(t *testing.T) {
	for text, says := range map[string]string{
		"windows: []":                       `f.yaml:1: "windows" has none`,
		"binds: []":                         `f.yaml:1: "binds" names nothing`,
		"binds: [FLY]":                      "f.yaml:1:",
		"window: []":                        "f.yaml:1:",
		"windows:\n- {cron: \"0 1 * * *\"}": `f.yaml:2: "windows[0].lasts" is missing`,
		"windows:\n- lasts: 4h\n  cron: \"0 1 * *\"":                              `f.yaml:3: "windows[0].cron"`,
		"windows:\n- lasts: 4h\n  cron: \"0 1 * * *\"\n  timezone: Mars/Base":     `f.yaml:4: "windows[0].timezone"`,
		"windows:\n- lasts: 900h\n  cron: \"0 1 * * *\"":                          `f.yaml:2: "windows[0].lasts"`,
		"windows:\n- {rrule: FREQ=DAILY, lasts: 1h}":                              `"windows[0].start"`,
		"freezes:\n- {reason: x}":                                                 `f.yaml:2: "freezes[0].until" is missing`,
		"freezes:\n- {until: tomorrow}":                                           `f.yaml:2: "freezes[0].until"`,
		"freezes:\n- {from: 2027-01-01T00:00:00Z, until: 2026-01-01T00:00:00Z}":   "ends before it begins",
		"freezes:\n" + strings.Repeat("- {until: 2026-01-01T00:00:00Z}\n", 201):   "more than 200",
		"windows:\n" + strings.Repeat("- {cron: \"0 1 * * *\", lasts: 1h}\n", 51): "more than 50",
	} {
		if _, err := desired.ParseMaintenance("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}

func TestAnInstanceIsRuledByTheFoldersAboveIt(t *testing.T) {
	want := []string{"maintenance.yaml", "instances/maintenance.yaml", "instances/tokyo/maintenance.yaml"}
	if got := desired.MaintenanceFiles("instances/tokyo/amf"); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func FuzzMaintenance(f *testing.F) {
	f.Add([]byte("windows:\n- {cron: \"0 1 * * TUE-THU\", timezone: Asia/Tokyo, lasts: 4h}\nfreezes:\n- {until: 2026-01-01T00:00:00Z}\nbinds: [SCALE]\n"))
	f.Add([]byte("windows:\n- {rrule: \"FREQ=DAILY;COUNT=3\", start: 2026-01-01T00:00, lasts: 4h}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := desired.ParseMaintenance("maintenance.yaml", data)
		if err != nil {
			return
		}
		at := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
		if w := desired.Ask([]*desired.Maintenance{m}, "SCALE", at, time.Hour); !w.Open && !w.Until.IsZero() && !w.Until.After(at) {
			t.Errorf("it waits until %s, which is over", w.Until)
		}
	})
}
