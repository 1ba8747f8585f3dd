package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// subscribers are all: one of them is dead, and one takes slowAnswer for each answer.
	subscribers = 20
	slowAnswer  = time.Second
	// wantedNotifications is how many of them are to take a second, together.
	wantedNotifications = 1000
	// notifyLimit is how old a notification may be when a good subscriber gets it, at that rate.
	notifyLimit = 500 * time.Millisecond
	// pacedFor is how long that rate is kept up.
	pacedFor = 15 * time.Second
	// eventsEach is how many states a MODIFY_INFO is notified of: PROCESSING and COMPLETED.
	eventsEach = 2
)

// taker is a subscriber that counts what it takes, and how old that was.
type taker struct {
	*httptest.Server
	pause time.Duration
	taken atomic.Int64
	mu    sync.Mutex
	ages  times
}

func newTaker(pause time.Duration) *taker {
	s := &taker{pause: pause}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			time.Sleep(s.pause)
			var n struct{ TimeStamp time.Time }
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = json.Unmarshal(body, &n)
			}
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			s.mu.Lock()
			s.ages = append(s.ages, time.Since(n.TimeStamp))
			s.mu.Unlock()
			s.taken.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	return s
}

// notifications measures delivery to many subscribers, one of them dead and one slow.
func (b *bench) notifications(ctx context.Context) (err error) {
	j, err := b.startWithMany(ctx, "notifications")
	if err != nil {
		return err
	}
	defer j.Kill()
	dead, slow := newTaker(0), newTaker(slowAnswer)
	good := make([]*taker, subscribers-2)
	all := []*taker{dead, slow}
	for i := range good {
		good[i] = newTaker(0)
		all = append(all, good[i])
	}
	defer func() {
		for _, s := range all {
			s.CloseClientConnections()
			s.Close()
		}
	}()
	for _, s := range all {
		a, err := j.Do(ctx, http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": s.URL})
		if err != nil || a.Status != http.StatusCreated {
			return errors.Join(err, fmt.Errorf("subscribe: %+v", a))
		}
	}
	dead.Close()
	b.note("%d subscribers in this process, which shares the CPUs with the server: one is dead, one takes %s for each answer", subscribers, short(slowAnswer))

	// At the rate that is wanted.
	perOperation := eventsEach * len(good)
	operations := int(pacedFor.Seconds()) * wantedNotifications / perOperation
	tick := time.NewTicker(pacedFor / time.Duration(operations))
	defer tick.Stop()
	start := time.Now()
	for i := range operations {
		<-tick.C
		if _, err := j.patch(ctx, instanceID("fill", i%b.instances), fmt.Sprint("paced ", i)); err != nil {
			return err
		}
	}
	if err := takenBy(ctx, good, eventsEach*operations); err != nil {
		return err
	}
	rate := float64(operations*perOperation) / time.Since(start).Seconds()
	var ages, worst times
	for _, s := range good {
		s.mu.Lock()
		ages = append(ages, s.ages...)
		if s.ages.at(0.95) > worst.at(0.95) {
			worst = s.ages
		}
		s.ages = nil
		s.mu.Unlock()
	}
	b.value(fmt.Sprintf("%d/s asked for: taken by the %d good ones", wantedNotifications, len(good)), fmt.Sprintf("%.0f/s", rate), rate >= 0.95*wantedNotifications,
		fmt.Sprintf(">= %d/s, less 5%% for the beginning and the end", wantedNotifications), fmt.Sprintf("n=%d", operations*perOperation))
	b.latency("  from the state to the notification's arrival", ages, notifyLimit, "")
	b.latency("  the same, of the one that waits longest", worst, notifyLimit, "")

	// As fast as it goes.
	before := int(good[0].taken.Load())
	start = time.Now()
	n := b.writes
	if err := j.clients(ctx, b.clients, n, func(w *wire, i int) error {
		_, err := modifying().insist(w, i)
		return err
	}); err != nil {
		return err
	}
	if err := takenBy(ctx, good, before+eventsEach*n); err != nil {
		return err
	}
	took := time.Since(start)
	rate = float64(n*perOperation) / took.Seconds()
	b.value("as fast as it goes: taken by the good ones", fmt.Sprintf("%.0f/s", rate), rate >= wantedNotifications, fmt.Sprintf(">= %d/s", wantedNotifications),
		fmt.Sprintf("n=%d in %s, of %.0f states a second", n*perOperation, short(took), float64(eventsEach*n)/took.Seconds()))
	b.value("taken by the slow one meanwhile", fmt.Sprint(slow.taken.Load()), true, "", "")
	return j.Stop()
}

// takenBy waits until each has taken so many.
func takenBy(ctx context.Context, all []*taker, n int) error {
	return kit.Poll(ctx, endWait, func() error {
		for i, s := range all {
			if got := s.taken.Load(); got < int64(n) {
				return fmt.Errorf("subscriber %d has taken %d notifications of %d", i, got, n)
			}
		}
		return nil
	})
}
