package entrance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"
)

// clock is a time that the test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// try is one request with a token, and a name where it isn't "", that the throttle lets in or not.
func try(th *throttle, source, name, token string, outcome int32) (wait time.Duration) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if name != "" {
		r.SetBasicAuth(name, token)
	} else {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, wait := th.begin(r, netip.MustParseAddr(source))
	if wait == 0 {
		a.outcome.Store(outcome)
		th.end(a)
	}
	return wait
}

func newTestThrottle() (*throttle, *clock) {
	c := &clock{time.Unix(1_000_000, 0)}
	th := newThrottle(throttleMemory)
	th.now = c.now
	return th, c
}

func TestAnAddressThatGuessesHasToWaitAndThenMayGuessOnceInAWhile(t *testing.T) {
	t.Parallel()

	th, c := newTestThrottle()
	guesses := 0
	for i := range 1000 {
		if try(th, "192.0.2.1", "", fmt.Sprint("guess", i), wrong) == 0 {
			guesses++
		}
	}
	if guesses != 20 {
		t.Errorf("%d guesses at once", guesses)
	}
	for range 600 { // ten minutes
		c.at = c.at.Add(time.Second)
		if try(th, "192.0.2.1", "", fmt.Sprint("guess", guesses), wrong) == 0 {
			guesses++
		}
	}
	if guesses > 20+301 || guesses < 20+298 {
		t.Errorf("%d guesses in ten minutes", guesses)
	}
	if try(th, "192.0.2.2", "", "x", wrong) != 0 {
		t.Error("another address has to wait, too")
	}
	if wait := try(th, "192.0.2.1", "", "guess", wrong); wait <= 0 || wait > 2*time.Second {
		t.Errorf("told to wait %v", wait)
	}
}

func TestAddressesOfOneNetworkOfIPv6GuessTogether(t *testing.T) {
	t.Parallel()

	th, _ := newTestThrottle()
	guesses := 0
	for i := range 100 {
		if try(th, fmt.Sprintf("2001:db8::%x", i+1), "", fmt.Sprint("guess", i), wrong) == 0 {
			guesses++
		}
	}
	if guesses != 20 {
		t.Errorf("%d guesses", guesses)
	}
	if try(th, "2001:db8:0:1::1", "", "x", wrong) != 0 {
		t.Error("another network has to wait, too")
	}
}

func TestOneNameIsGuessedAtNoFasterFromManyAddresses(t *testing.T) {
	t.Parallel()

	th, _ := newTestThrottle()
	guesses := 0
	for i := range 1000 {
		if try(th, fmt.Sprintf("192.0.%d.%d", i/200, i%200), "admin", fmt.Sprint("guess", i), wrong) == 0 {
			guesses++
		}
	}
	if guesses != 50 {
		t.Errorf("%d guesses", guesses)
	}
	if try(th, "198.51.100.1", "anna", "x", wrong) != 0 {
		t.Error("another name has to wait, too")
	}
}

func TestWhoWasRightIsLetThroughWhateverOthersGuessFromHisAddressAndForHisName(t *testing.T) {
	t.Parallel()

	th, c := newTestThrottle()
	if try(th, "192.0.2.1", "anna", "right", right) != 0 {
		t.Fatal("nobody is let in")
	}
	for i := range 1000 {
		try(th, "192.0.2.1", "anna", fmt.Sprint("guess", i), wrong)
	}
	for range 100 {
		if try(th, "192.0.2.1", "anna", "right", right) != 0 {
			t.Fatal("who was right has to wait")
		}
	}
	// Once it is wrong, as it was revoked, it is a guess like any other.
	try(th, "192.0.2.1", "anna", "right", wrong)
	if try(th, "192.0.2.1", "anna", "right", wrong) == 0 {
		t.Error("who isn't right any more is let through")
	}
	// Who is right for the first time waits for his turn, and then isn't slowed down.
	c.at = c.at.Add(2 * time.Minute)
	if try(th, "192.0.2.1", "otto", "also right", right) != 0 {
		t.Error("who is right never has a turn")
	}
}

func TestManyRequestsOfOneClientBeforeItIsKnownAreNoGuesses(t *testing.T) {
	t.Parallel()

	th, _ := newTestThrottle()
	var all []*attempt
	for i := range 500 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Auth-Token", "right")
		a, wait := th.begin(r, netip.MustParseAddr("192.0.2.1"))
		if wait > 0 {
			t.Fatalf("request %d has to wait", i)
		}
		all = append(all, a)
	}
	for _, a := range all {
		a.outcome.Store(unjudged) // who asks was gone before it was known
		th.end(a)
	}
	if len(th.trying) != 0 {
		t.Errorf("%v is kept of requests that ended", th.trying)
	}
	if try(th, "192.0.2.1", "", "x", wrong) != 0 {
		t.Error("requests that nobody judged count as guesses")
	}
	// The same in parallel, and wrong: the address owes them.
	for range 30 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Auth-Token", "wrong")
		a, _ := th.begin(r, netip.MustParseAddr("192.0.2.9"))
		a.outcome.Store(wrong)
		defer th.end(a)
	}
}

func TestAGuesserOfManyAddressesAndNamesTakesNoMoreMemoryThanThereIs(t *testing.T) {
	t.Parallel()

	th := newThrottle(64 << 10) // of some 300 buckets
	for range 20 {
		try(th, "192.0.2.1", "", "x", wrong)
	}
	for i := range 2000 {
		try(th, fmt.Sprintf("198.51.%d.%d", i/200, i%200), fmt.Sprint("name", i), "x", wrong)
	}
	if n := len(th.trying); n != 0 {
		t.Errorf("%d attempts are kept", n)
	}
	if try(th, "192.0.2.1", "", "x", wrong) != 0 {
		t.Error("all who ever guessed are remembered")
	}
	if try(th, "192.0.2.1", "anna", "right", right) != 0 {
		t.Error("nobody is let in any more")
	}
}
