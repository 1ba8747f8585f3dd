package branch

import (
	"testing"
	"time"
)

func TestWhoPushedIsKnownToAllForADay(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			one, two := NewPushers(s, "main"), NewPushers(s, "main")
			now := time.Now()
			two.now = func() time.Time { return now }
			if got, err := two.Find(t.Context(), "c1"); got != nil || err != nil {
				t.Fatalf("%s, %v", got, err)
			}
			for _, by := range []string{`"ann"`, `"bob"`} { // who pushes it again counts
				if err := one.Keep(t.Context(), "c1", []byte(by)); err != nil {
					t.Fatal(err)
				}
				if got, err := two.Find(t.Context(), "c1"); string(got) != by || err != nil {
					t.Errorf("%s, %v, want %s", got, err, by)
				}
			}
			now = now.Add(pusherKept + time.Minute)
			if err := two.Keep(t.Context(), "c2", []byte(`"eve"`)); err != nil {
				t.Fatal(err)
			}
			if got, err := one.Find(t.Context(), "c1"); got != nil || err != nil {
				t.Errorf("after a day: %s, %v", got, err)
			}
			if got, err := one.Find(t.Context(), "c2"); string(got) != `"eve"` || err != nil {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}
