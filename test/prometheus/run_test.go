package prometheus

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// fireAndResolve are the alerts that the run makes fire, and resolve.
var fireAndResolve = []string{
	"VnfOperationWaitsForAPerson", "VnfOperationWaitsForInstances", "VnfRequestWaitsForMerge", "VnfGrantsAreNotAnswered", "VnfHookFails", "VnfDriftNotPutRight", "VnfDriftIsFoughtOver", "VnfHeldForLong",
	"RolloutHalted", "RolloutWaitsForMerge",
	"DesiredRepositoryNotFollowed", "DesiredFileNotObeyed", "ForgeNotTold", "GitFails", "PackageRepositoryNotFetched", "VimAway", "VimUnusedAway", "VimKindUnlisted", "VimIsAnotherOne", "VimHasOrphans", "VimRequestsFail", "JibeAway", "CredentialsAreGuessed",
	"SubscriberNotNotified", "SubscriptionNotProven", "NotificationsGivenUp", "CertificateEnds", "CertificateEndsAtOnce", "BackupIsOld", "HooksAreUnconfined",
	"ReplicaHasNoSession", "ReplicaIsMissing", "RedisLostRecords", "RedisMemoryShort",
}

func TestEveryPanelAndRuleAnswersInARunWithFailuresAndAlertsFireAndResolve(t *testing.T) {
	testenv.Program(t, "prometheus", "prometheus") // before minutes are spent on the world
	w := newWorld(t)
	p := startPrometheus(t, hurried(t, hurry), at("jibe", w.main), at("jibe-forge", w.forge), at("jibe-third", w.third),
		at(replicasJob, w.replicas.first, w.replicas.second))
	backup := filepath.Join(w.thirdData, "backup.last")
	write(t, backup, time.Now().Add(-72*time.Hour).Format(time.RFC3339)+"\n")
	w.lives()
	p.until(t, `sum(up) == 5`)
	phase(t, p, "what lives is scraped")
	w.replicas.lose(t, p)
	phase(t, p, "Redis was full, and has lost all")
	w.fails()
	phase(t, p, "all has failed")

	p.rulesAreLoaded(t)
	p.replicasCountOnce(t)
	w.replicas.fail(t, p)
	phase(t, p, "a replica is missing")
	third := w.third.URL
	w.third.KillGroup()
	kit.EventuallyWithin(t, 2*kit.Patience, func() error { return p.alerts.fired(fireAndResolve...) })
	phase(t, p, "alerts fire")
	w.third = process.Start(t, w.thirdData, append(w.thirdFlags(false), "--listen", strings.TrimPrefix(third, "https://"))...)
	w.replicas.redis.Start(t)  // what it says of itself is shown only while it answers
	p.until(t, `sum(up) == 4`) // a replica is away still

	var ids []string
	for _, dir := range []string{patched, held, unread} {
		ids = append(ids, desired.DeriveID(dir))
	}
	n := p.everyPanelAnswers(t, ids)
	p.everyRuleAnswers(t)
	p.scenariosAreOfWhatIsScraped(t)
	phase(t, p, fmt.Sprintf("%d queries of panels are answered", n))
	if after, err := time.ParseDuration(os.Getenv(envLinger)); err == nil {
		kit.Stays(t, time.Until(p.started.Add(after)), func() error { return nil }) // for there to be something to see
	}
	drawAll(t, p, desired.DeriveID(patched))
	phase(t, p, "dashboards are drawn")
	w.scrapeIsClean()

	w.mends()
	write(t, backup, time.Now().Format(time.RFC3339)+"\n")
	kit.EventuallyWithin(t, 2*kit.Patience, func() error { return p.alerts.resolved(fireAndResolve...) })
	phase(t, p, "alerts are resolved")
}

// phase says how far the run is, for who waits for it.
func phase(t *testing.T, p *prometheus, what string) {
	t.Helper()
	t.Logf("%4.0f s: %s", time.Since(p.started).Seconds(), what)
}

// rule is one of those that the chart ships, as Prometheus says that it has it.
type rule struct {
	Name, Query, Health, LastError string
}

// rulesAreLoaded waits until every rule was evaluated without an error.
func (p *prometheus) rulesAreLoaded(t *testing.T) {
	t.Helper()
	kit.Eventually(t, func() error {
		list, err := p.rules(t)
		if err == nil && len(list) < 20 {
			err = fmt.Errorf("there are %d rules", len(list))
		}
		for _, r := range list {
			if r.LastError != "" {
				return kit.Final(fmt.Errorf("%s: %s", r.Name, r.LastError))
			}
			if r.Health != "ok" {
				err = fmt.Errorf("%s is %s", r.Name, r.Health)
			}
		}
		return err
	})
}

// everyRuleAnswers asks what each rule looks at, without the comparison that makes it an alert:
// a rule that looks at nothing never fires.
func (p *prometheus) everyRuleAnswers(t *testing.T) {
	t.Helper()
	for _, r := range hurriedRules(t, hurry) {
		value, _, ok := strings.Cut(r.Expr, "\n")
		if !ok {
			t.Errorf("%s: the comparison isn't on a line of its own: %s", r.Alert, r.Expr)
		}
		if err := p.answered(t, false, value); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
	}
}

// retry has an operation be retried again and again from now on, "" is none.
func (w *world) retry(operation string) {
	w.retrying.Lock()
	defer w.retrying.Unlock()
	w.retried = operation
}

// scrapeIsClean has promtool look at the metrics of each Jibe.
func (w *world) scrapeIsClean() {
	w.t.Helper()
	for _, s := range []*process.Server{w.main, w.forge} {
		text := s.Want(w.t, http.StatusOK, http.MethodGet, "/metrics", nil, nil).Body
		file := filepath.Join(w.t.TempDir(), "metrics")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			w.t.Fatal(err)
		}
		if out, err := promtool(w.t, file, "check", "metrics"); err != nil {
			w.t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
	}
}
