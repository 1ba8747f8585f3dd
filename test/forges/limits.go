package forges

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rate is so many within a time; the zero value is no limit.
type Rate struct {
	N      int
	Within time.Duration
	// Exhausts says that after N nothing is taken for Within, however far apart they came: so that a slow
	// machine meets the limit, too.
	Exhausts bool
}

// Limits are what the forge takes; zero is no limit. How each kind says that there were too many requests
// is what its documentation says.
type Limits struct {
	// Pushes are those of git to the repository, and Reads its fetches; others are answered with 429 and
	// Retry-After.
	Pushes, Reads Rate
	// Requests are those of the API: GitHub answers others with 403 and X-RateLimit-Reset, GitLab with
	// 429, RateLimit-Reset and Retry-After.
	Requests Rate
	// Secondary is GitHub's second limit, that of how fast they come: 403 with Retry-After.
	Secondary Rate
	// AtOnce is how many requests of the API may be under way, and NewComments how many comments
	// may be made.
	AtOnce      int
	NewComments Rate
	// PullRequests may be open into one branch.
	PullRequests int
	// Tree are what a push may bring; hooks refuse others.
	Tree
}

// Tree is what stands in the repository.
type Tree struct {
	// Branches there are, Entries in the largest folder, and Depth of the deepest.
	Branches, Entries, Depth int
	// File is the largest one, and Repository what all of it takes, in bytes.
	File, Repository int64
}

// Counts are what the forge has counted.
type Counts struct {
	Pushes, Reads, Requests int
	// Early are requests that came while the forge had asked to be left alone.
	Early int
	// AtOnce is the most that were under way.
	AtOnce int
	// Refused are those that a limit refused, by the limit's name.
	Refused map[string]int
	// Of are the requests by method and the last words of the path.
	Of map[string]int
}

// meter counts, and says what is too much.
type meter struct {
	mu    sync.Mutex
	is    Counts
	under int
	came  map[string][]time.Time // by limit
	shut  map[string]time.Time   // until when nothing is taken, by limit
	told  time.Time              // until when the API asked to be left alone
}

// allow says whether one more is within the rate, and else after how long the next one is. m.mu is held.
func (m *meter) allow(name string, r Rate) (ok bool, after time.Duration) {
	if r.N == 0 {
		return true, 0
	}
	if m.came == nil {
		m.came, m.shut = map[string][]time.Time{}, map[string]time.Time{}
	}
	now := time.Now()
	all := m.came[name]
	if r.Exhausts {
		if until, ok := m.shut[name]; ok && !now.Before(until) {
			all = nil
			delete(m.shut, name)
		}
		if len(all) < r.N {
			m.came[name] = append(all, now)
			return true, 0
		}
		if m.shut[name].IsZero() {
			m.shut[name] = now.Add(r.Within)
		}
		m.count(name)
		return false, m.shut[name].Sub(now)
	}
	for len(all) > 0 && now.Sub(all[0]) >= r.Within {
		all = all[1:]
	}
	if m.came[name] = all; len(all) >= r.N {
		m.count(name)
		return false, r.Within - now.Sub(all[0])
	}
	m.came[name] = append(all, now)
	return true, 0
}

func (m *meter) count(name string) {
	if m.is.Refused == nil {
		m.is.Refused = map[string]int{}
	}
	m.is.Refused[name]++
}

func (m *meter) refuse(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(name)
}

// seconds is a time for people of HTTP: whole, and not too short.
func seconds(d time.Duration) int { return int(d/time.Second) + 1 }

// request takes a request of the API, or answers it. One that it takes has to be answered.
func (m *meter) request(f *Forge, w http.ResponseWriter, r *http.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.is.Requests++
	if m.is.Of == nil {
		m.is.Of = map[string]int{}
	}
	parts := strings.Split(r.URL.Path, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if _, err := strconv.Atoi(parts[i]); err != nil && len(parts[i]) < 40 {
			m.is.Of[r.Method+" "+parts[i]]++
			break
		}
	}
	if time.Now().Before(m.told) {
		m.is.Early++
	}
	refuse := func(status int, after time.Duration, headers ...string) bool {
		m.told = time.Now().Add(after)
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		answer(w, status, map[string]any{"message": "API rate limit exceeded"})
		return false
	}
	if f.limits.AtOnce > 0 && m.under >= f.limits.AtOnce {
		m.count("at once")
		return refuse(http.StatusForbidden, time.Second, "Retry-After", "1")
	}
	if ok, after := m.allow("secondary", f.limits.Secondary); !ok {
		return refuse(http.StatusForbidden, after, "Retry-After", strconv.Itoa(seconds(after)))
	}
	if r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/notes") || strings.HasSuffix(r.URL.Path, "/comments")) {
		if ok, after := m.allow("new comments", f.limits.NewComments); !ok {
			return refuse(http.StatusTooManyRequests, after, "Retry-After", strconv.Itoa(seconds(after)))
		}
	}
	if ok, after := m.allow("requests", f.limits.Requests); !ok {
		wait := strconv.Itoa(seconds(after))
		reset := strconv.FormatInt(time.Now().Add(after+time.Second).Unix(), 10)
		if f.kind == GitHub {
			return refuse(http.StatusForbidden, after, "X-RateLimit-Limit", strconv.Itoa(f.limits.Requests.N), "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset)
		}
		return refuse(http.StatusTooManyRequests, after, "RateLimit-Limit", strconv.Itoa(f.limits.Requests.N), "RateLimit-Remaining", "0", "RateLimit-Reset", reset, "Retry-After", wait)
	}
	m.under++
	m.is.AtOnce = max(m.is.AtOnce, m.under)
	return true
}

func (m *meter) answered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.under--
}

// Counts returns what was counted so far.
func (f *Forge) Counts() Counts {
	f.meter.mu.Lock()
	defer f.meter.mu.Unlock()
	is := f.meter.is
	is.Refused, is.Of = maps.Clone(is.Refused), maps.Clone(is.Of)
	return is
}

// Limit gives the forge other limits of requests from now on.
func (f *Forge) Limit(requests, pushes Rate) {
	f.meter.mu.Lock()
	defer f.meter.mu.Unlock()
	f.limits.Requests, f.limits.Pushes = requests, pushes
}
