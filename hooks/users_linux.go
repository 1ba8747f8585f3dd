package hooks

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
)

// fallbackUser is whom hooks run as where the system has none of [DefaultUsers], as in a
// container that was given few users.
const fallbackUser = "nobody"

// identity is whom a hook runs as; nil is Jibe itself.
type identity struct {
	name     string
	uid, gid int
	own      bool // by this run alone
}

func (i *identity) String() string {
	if i == nil {
		return "the user that Jibe runs as"
	}
	return "user " + i.name
}

// userPool hands out the users of which each run has one for itself.
type userPool struct {
	mu    sync.Mutex
	taken map[int]bool
}

// take returns one of the users that no run has.
func (p *userPool) take(first, last int) (*identity, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := first; id <= last; id++ {
		if !p.taken[id] {
			if p.taken == nil {
				p.taken = map[int]bool{}
			}
			p.taken[id] = true
			return &identity{name: strconv.Itoa(id), uid: id, gid: id, own: true}, nil
		}
	}
	return nil, fmt.Errorf("all users from %d to %d run hooks now: give more of them with --hook-user", first, last)
}

// giveBack lets another run have the user.
func (p *userPool) giveBack(who *identity) {
	if who == nil || !who.own {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, who.uid)
}

// identity returns whom the next hook is to run as: somebody else where Jibe is root.
func (r *Runner) identity() (*identity, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	name := cmp.Or(r.User, DefaultUsers)
	first, last, isRange, err := userRange(name)
	if err != nil {
		return nil, err
	}
	if isRange && r.User == "" && !(mapped("/proc/self/uid_map", first, last) && mapped("/proc/self/gid_map", first, last)) {
		name, isRange = fallbackUser, false
	}
	if isRange {
		return r.users.take(first, last)
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil, fmt.Errorf("there is no user %q to run hooks as on this machine: make it, or name another with --hook-user", name)
		}
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, err
	}
	if uid == 0 {
		return nil, errors.New("hooks don't run as root: name another user with --hook-user")
	}
	return &identity{name: name, uid: uid, gid: gid}, nil
}

// userRange reads FIRST-LAST, and says whether the text is one.
func userRange(text string) (first, last int, ok bool, err error) {
	a, b, found := strings.Cut(text, "-")
	first, firstErr := strconv.Atoi(a)
	last, lastErr := strconv.Atoi(b)
	if !found || firstErr != nil || lastErr != nil {
		return 0, 0, false, nil
	}
	if first <= 0 || last < first || last > 1<<31-2 {
		return 0, 0, false, fmt.Errorf("--hook-user %s: want FIRST-LAST, with numbers of users from 1", text)
	}
	return first, last, true, nil
}

// mapped says whether the numbers are those of users, or groups, by a file of user_namespaces(7).
func mapped(file string, first, last int) bool {
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(data) {
		var from, to, count int
		if n, err := fmt.Sscan(string(line), &from, &to, &count); n == 3 && err == nil && first >= from && last-from < count {
			return true
		}
	}
	return false
}

// passwd is /etc/passwd with the user, whom the system doesn't know: some programs ask who they
// are, and ssh doesn't start for nobody.
func (i *identity) passwd(home string) ([]byte, error) {
	known, err := os.ReadFile("/etc/passwd")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(known) > 0 && known[len(known)-1] != '\n' {
		known = append(known, '\n')
	}
	return fmt.Appendf(known, "hook:x:%d:%d:hook of a package:%s:/bin/sh\n", i.uid, i.gid, home), nil
}
