package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	listLimit  = 10 * time.Millisecond
	listsLimit = 50 * time.Millisecond // of listClients
	// listClients ask at once.
	listClients = 16
	// rateLimit is how many entries of a full list there should be each second.
	rateLimit = 20_000
	// metricsLimit bounds the answer of /metrics.
	metricsLimit = 20 * time.Millisecond
	// fullPage is how many entries the server shows at once.
	fullPage = 1000
	// listBudget is how long one figure may take to measure. It has listLeast samples at
	// least, and one of each client.
	listBudget = 5 * time.Second
	listLeast  = 3
	// byName is the question that stands for all at the head of the page.
	byName = "instances by name, one"
	// rarely is one of how many instances doesn't run.
	rarely = 1000
	// commitOf is how many instances are added by one commit, where that isn't measured.
	commitOf = 5000
)

// question is a request that is asked again and again.
type question struct {
	name, target string
	// finds is how many entries there must be at least.
	finds int
	// page is said of a full page, which is bounded by the rate of entries.
	page bool
	// limit replaces the lists' own at one client.
	limit time.Duration
}

// bound is what the median may be.
func (q question) bound(clients int) time.Duration {
	switch {
	case q.limit > 0 && clients == 1:
		return q.limit
	case q.limit > 0:
		return 0
	case q.page:
		if clients > 1 {
			return 0
		}
		return fullPage * time.Second / rateLimit
	case clients > 1:
		return listsLimit
	}
	return listLimit
}

func filtered(collection, expression string) string {
	return collection + "?filter=" + url.QueryEscape(expression)
}

// questions are what is asked of a server with n instances of the fill. since is a moment
// after which few operations began, operation the id of one.
func questions(n int, since time.Time, operation string) []question {
	one := n - 2 // which runs, and isn't among the first, which are changed
	last := instanceID("fill", one)
	in, ops := process.Instances, process.Operations
	return []question{
		{name: "show one instance", target: in + "/" + last},
		{name: "instances by id", finds: 1, target: filtered(in, "(eq,id,"+last+")")},
		{name: byName, finds: 1, target: filtered(in, "(eq,vnfInstanceName,"+nameOf(one)+")")},
		{name: "instances by name, none", target: filtered(in, "(eq,vnfInstanceName,nobody)")},
		{name: "instances by state, one in 1000", finds: 1, target: filtered(in, "(eq,instantiationState,NOT_INSTANTIATED)")},
		{name: "instances by vnfdId, a page", finds: 1, target: filtered(in, "(eq,vnfdId,"+vnfdID+")"), page: true},
		{name: "instances by folder, one", finds: 1, target: filtered(in, "(eq,jibe/directory,"+desired.APIDir(last)+")")},
		{name: "instances, a page of fields=id", finds: 1, target: in + "?fields=id", page: true},
		{name: "operations by id", finds: 1, target: filtered(ops, "(eq,id,"+operation+")")},
		{name: "operations of one instance", finds: 1, target: filtered(ops, "(eq,vnfInstanceId,"+last+")")},
		{name: "operations by state, none", target: filtered(ops, "(eq,operationState,FAILED_TEMP)")},
		{name: "operations by start time, few", finds: 1, target: filtered(ops, "(gte,startTime,"+since.UTC().Format(time.RFC3339Nano)+")")},
		{name: "/metrics", target: "/metrics", limit: metricsLimit},
	}
}

func nameOf(i int) string { return fmt.Sprintf("vnf-%06d", i) }

// named makes the files of instances with a name each; one in so many doesn't run.
func (j *jibe) named(i int, id string) string {
	state := "instantiated"
	if i%rarely == rarely-1 {
		state = "notInstantiated"
	}
	return strings.Replace(j.vnf(id, state, "vim: sim\n"), "name: bench", "name: "+nameOf(i), 1)
}

// running is how many of n instances are to run.
func running(n int) int { return n - n/rarely }

// lists measures lists at many instances and operations.
func (b *bench) lists(ctx context.Context) error {
	j, err := b.start(ctx, "lists", map[string]string{"sim": simVIM})
	if err != nil {
		return err
	}
	defer j.Kill()
	for first := 0; first < b.instances; first += commitOf {
		n := min(b.instances, first+commitOf)
		if err := j.addUnseen(ctx, "fill", first, n, j.named); err != nil {
			return err
		}
		if err := j.completed(ctx, running(n), 10*time.Minute); err != nil {
			return err
		}
	}
	if err := j.quiet(ctx, 5*time.Minute); err != nil {
		return err
	}
	b.note("%d instances, %d operations, pages of %d entries; a page that is full is held against %d entries/s", b.instances, running(b.instances), fullPage, rateLimit)
	since, operation, err := j.few(ctx)
	if err != nil {
		return err
	}
	bare, stop, err := bareLoop()
	if err != nil {
		return err
	}
	defer stop()
	limits := map[int]times{}
	for _, clients := range []int{1, listClients} {
		if limits[clients], _, err = bare.ask(ctx, question{target: process.Instances}, clients, b.samples); err != nil {
			return err
		}
		b.latency(fmt.Sprintf("limit: a request that a bare loop answers, of %d at once", clients), limits[clients], 0, "")
	}
	for _, q := range questions(b.instances, since, operation) {
		for _, clients := range []int{1, listClients} {
			name := fmt.Sprintf("%s, %d clients", q.name, clients)
			if clients == 1 {
				name = q.name
			}
			took, entries, err := j.ask(ctx, q, clients, b.samples)
			if err != nil {
				b.note("FAILED %s: %s", name, err)
				break
			}
			b.latency(name, took, q.bound(clients), entries)
			if q.name == byName {
				b.headline(headline{"lists", name + ", of " + fmt.Sprint(b.instances) + ", p50", short(took.median()), "a bare loop answers: p50 " + short(limits[clients].median()),
					ratio(float64(took.median()), float64(limits[clients].median()))})
			}
		}
	}
	return j.Stop()
}

// few makes a few operations, and returns a moment before them and the id of one.
func (j *jibe) few(ctx context.Context) (since time.Time, operation string, err error) {
	w, err := j.dial()
	if err != nil {
		return since, "", err
	}
	defer w.close()
	since = time.Now()
	for i := range 10 {
		a, err := modify(w, i)
		if err != nil {
			return since, "", err
		}
		o, err := w.completed(ctx, a.location, askPause, endWait)
		if err != nil {
			return since, "", err
		}
		operation = o.ID
	}
	return since, operation, nil
}

// ask asks a question samples times by each client, but not for much longer than the budget,
// and returns how long each took, and how many entries were in the answer.
func (j *jibe) ask(ctx context.Context, q question, clients, samples int) (took times, entries string, err error) {
	one, err := j.dial()
	if err != nil {
		return nil, "", err
	}
	defer one.close()
	a, err := one.do(http.MethodGet, q.target, "", "", true) // the first one counts for none
	if err != nil {
		return nil, "", err
	}
	if a.status != http.StatusOK {
		return nil, "", fmt.Errorf("%d: %s", a.status, strings.TrimSpace(string(a.body)))
	}
	found := objects(a.body)
	if found < q.finds {
		return nil, "", fmt.Errorf("%d entries were found, which is too few: this version may not offer it", found)
	}
	n := clients * samples
	all := make(times, n)
	var asked atomic.Int64
	deadline := time.Now().Add(listBudget)
	err = j.clients(ctx, clients, n, func(w *wire, i int) error {
		if i >= max(clients, listLeast) && time.Now().After(deadline) {
			return nil
		}
		begin := time.Now()
		_, err := w.want(http.StatusOK, http.MethodGet, q.target, "", "")
		all[asked.Add(1)-1] = time.Since(begin)
		return err
	})
	if len(a.body) > 0 && a.body[0] == '[' {
		entries = fmt.Sprintf("%d entries, %d KiB", found, a.size>>10)
	}
	return all[:asked.Load()], entries, err
}

// objects counts the objects of a JSON array, without decoding it.
func objects(text []byte) (n int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			if depth++; depth == 1 {
				n++
			}
		case c == '}':
			depth--
		}
	}
	return n
}
