package load

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// Forget has the servers lose what only their store has, by lose: subscriptions, and
// the events that weren't delivered. All subscribers subscribe again. Of what was under way until then, or
// wasn't told yet, they may have been told in part, and what git doesn't say the end of may end once
// more; of a push's operation that git doesn't know at all nothing may be left; all else must be as ever.
func (w *World) Forget(ctx context.Context, lose func() error) error {
	inGit, err := w.attested(ctx) // a note that comes after the loss may come too late for a server that puts records back
	if err != nil {
		return err
	}
	if err := lose(); err != nil {
		return err
	}
	for _, s := range w.Events {
		err := kit.Poll(ctx, cmp.Or(w.Patience, settleWait), func() error { return w.subscribe(ctx, s) })
		if err != nil {
			return err
		}
	}
	// What was acknowledged is back, and what is asked for from now on is told.
	if err := kit.Poll(ctx, cmp.Or(w.Patience, settleWait), func() error { return w.Kept(ctx) }); err != nil {
		return err
	}
	var operations []Occurrence
	err = kit.Poll(ctx, cmp.Or(w.Patience, settleWait), func() (err error) {
		operations, err = w.Occurrences(ctx, w.Servers.Present())
		return err
	})
	created, deleted := w.identifiers()
	for _, s := range w.Events {
		s.forgotten(operations, inGit, created, deleted)
	}
	return err
}

// attested are the operations of which the notes in git tell, and whether they tell the end.
func (w *World) attested(ctx context.Context) (map[string]bool, error) {
	text, err := process.Git(ctx, w.Repository, "grep", "-h", "-o", "-E",
		"(STARTING|PROCESSING|ROLLING_BACK|FAILED_TEMP|COMPLETED|FAILED|ROLLED_BACK) "+uuidPattern, "refs/notes/jibe")
	if err != nil {
		return nil, err
	}
	ended := map[string]bool{}
	for line := range strings.Lines(text) {
		state, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		ended[id] = ended[id] || lcm.State(state).Ended()
	}
	return ended, nil
}

// pushed is the version of the ids of operations that pushes begin: they are made of the commit's.
const pushed uuid.Version = 5

// uuidPattern is that of an operation's id.
const uuidPattern = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

// subscribe has the servers know of the subscriber.
func (w *World) subscribe(ctx context.Context, s *Subscriber) error {
	a, err := w.Servers.Present().Do(ctx, http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": s.server.URL + "/notify"})
	if err == nil && a.Status != http.StatusCreated {
		err = fmt.Errorf("subscribe: %d: %s", a.Status, a.Body)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscriptions[a.ID()] = true
	return nil
}

// forgotten notes of what the subscriber wasn't told to the end, and of which operation git knew nothing yet.
// ended are the operations of which git tells.
func (s *Subscriber) forgotten(operations []Occurrence, ended map[string]bool, created, deleted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses++
	told := s.story()
	for _, op := range operations {
		if want := wanted(op.Operation); len(told.states[op.ID]) < len(want) || !lcm.State(op.State).Ended() || !ended[op.ID] {
			s.partly[op.ID] = true
		}
	}
	for id := range ended { // a replica that has to put back much may not show it yet
		if states := told.states[id]; len(states) == 0 || !states[len(states)-1].Ended() {
			s.partly[id] = true
		}
	}
	for id := range told.states {
		// Of what a request begins, its commit tells; a push's operation is in a note that comes a moment later.
		if _, known := ended[id]; !known && uuid.MustParse(id).Version() == pushed {
			s.gone[id] = true
		}
	}
	for of, ids := range map[string][]string{creation: created, deletion: deleted} {
		for _, id := range ids {
			if told.identifiers[of+id] == 0 {
				s.partly[id] = true
			}
		}
	}
}

// sameOrder says where subscribers were told of the same events in different orders. What one of
// them wasn't told of because it was forgotten isn't compared.
func sameOrder(all []*Subscriber) error {
	lists := make([][]told, len(all))
	skip, losses := map[string]bool{}, 0
	for i, s := range all {
		s.mu.Lock()
		lists[i] = s.told()
		maps.Copy(skip, s.partly)
		losses = max(losses, s.losses)
		s.mu.Unlock()
	}
	if losses > 0 {
		for id := range unequal(lists) {
			skip[id] = true
		}
	}
	var first []told
	for i, list := range lists {
		list = slices.DeleteFunc(list, func(t told) bool { return skip[t.about] })
		if i == 0 {
			first = list
		}
		for at := range max(len(first), len(list)) {
			if at >= len(first) || at >= len(list) || first[at] != list[at] {
				return fmt.Errorf("subscriber %d was told of %d events and subscriber 0 of %d; the first that differ are %q and %q, number %d",
					i, len(list), len(first), entry(list, at), entry(first, at), at)
			}
		}
	}
	return nil
}

// told is one event: which operation or instance it is about, and what happened to it.
type told struct{ about, what string }

func (s *Subscriber) told() (list []told) {
	for _, n := range s.own() {
		if n.OperationPart != nil {
			list = append(list, told{n.OperationID, fmt.Sprintf("%s is %s", n.Operation, n.State)})
		} else {
			list = append(list, told{n.InstanceID, n.Type})
		}
	}
	return list
}

// unequal are the instances and repairs of which some were told more often than others. Operations
// that exist are held against what each was told already.
func unequal(lists [][]told) map[string]bool {
	counts := make([]map[string]int, len(lists))
	ids := map[string]bool{}
	for i, list := range lists {
		counts[i] = map[string]int{}
		for _, t := range list {
			counts[i][t.about]++
			ids[t.about] = true
		}
	}
	for id := range ids {
		if !slices.ContainsFunc(counts, func(c map[string]int) bool { return c[id] != counts[0][id] }) {
			delete(ids, id)
		}
	}
	return ids
}

func entry(list []told, i int) string {
	if i < len(list) {
		return list[i].about + ": " + list[i].what
	}
	return "none"
}
