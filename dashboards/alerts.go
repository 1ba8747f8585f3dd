package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Severities: who is to be told. Critical wakes somebody up, as nothing can be done for
// VNFs until it ends; warning is for the working day; info is for who asks.
const (
	critical = "critical"
	warning  = "warning"
	info     = "info"
)

// alert is one rule. What it looks at and when that is too much are written on two lines,
// so that a test can ask for the value alone.
type alert struct {
	Name, Severity string
	// Value is what the alert looks at, and Bad what makes it one: "> 0".
	Value, Bad  string
	For         time.Duration
	Summary     string // a template: what happens, to whom
	Description string // plain: what it means, and the first thing to do
}

// unanswered selects the errors of VIMs that are no answers, which the histogram of requests
// doesn't count.
const unanswered = `cause=~"unreachable|timeout|certificate"`

// group is alerts that are evaluated one after the other.
type group struct {
	Name   string
	Alerts []alert
}

// pace divides the times of alerts.
type pace int

// of is a time as PromQL has it, at least a second.
func (p pace) of(d time.Duration) string {
	return fmt.Sprintf("%ds", max(1, int(d.Seconds())/int(p)))
}

// over is the range of a rate or increase, which needs several scrapes.
func (p pace) over(d time.Duration) string {
	return fmt.Sprintf("%ds", max(10, int(d.Seconds())/int(p)))
}

// many is how many in the range of over(d) are as many as n in d.
func (p pace) many(n int, d time.Duration) string {
	return fmt.Sprintf("%d", max(1, n*max(10, int(d.Seconds())/int(p))/int(d.Seconds())))
}

// than is a time in seconds to compare with.
func (p pace) than(d time.Duration) string {
	return fmt.Sprintf("%d", max(1, int(d.Seconds())/int(p)))
}

// alerts are all of them. Values keep the label job, so that several installations are
// told apart. An installation may have several replicas: what each of them shows alike is
// taken once (max, min), what each has of its own keeps its label instance or is added up.
func alerts(p pace) []group {
	return []group{operationAlerts(p), gitAlerts(p), vimAlerts(p), processAlerts(p), replicaAlerts(p)}
}

func operationAlerts(p pace) group {
	return group{"jibe-operations", []alert{
		{
			Name: "VnfOperationWaitsForAPerson", Severity: warning, For: time.Minute,
			Value: `max by (job, type) (jibe_lcm_operations_open{state="FAILED_TEMP", automatic="false"})`, Bad: "> 0",
			Summary:     "{{ $value }} of {{ $labels.type }} failed and wait for a person",
			Description: "Nothing more is done to these VNF instances until somebody decides: jibe get operations, then retry, rollback or fail.",
		},
		{
			Name: "VnfOperationsFailOften", Severity: warning, For: 5 * time.Minute,
			Value: `sum by (job) (increase(jibe_lcm_operation_transitions_total{state="FAILED_TEMP"}[` + p.over(time.Hour) + `])) / (sum by (job) (increase(jibe_lcm_operation_transitions_total{state="STARTING"}[` + p.over(time.Hour) + `])) >= 5)`, Bad: "> 0.2",
			Summary:     "{{ $value | humanizePercentage }} of the operations of the last hour failed",
			Description: "So many failures at once mostly have one cause: a VIM, a quota, a package. The dashboard Operations shows them by cause.",
		},
		{
			Name: "VnfOperationWaitsForInstances", Severity: warning,
			Value: `time() - min by (job, type) (jibe_lcm_operations_waiting_for_instances_since_timestamp_seconds)`, Bad: "> " + p.than(time.Hour),
			Summary:     "{{ $labels.type }} has waited for other instances for {{ $value | humanizeDuration }}",
			Description: "What its instance needs isn't ready, or what it is needed by hasn't gone, and nothing of it begins before: jibe get operations says which.",
		},
		{
			Name: "VnfRequestWaitsForMerge", Severity: warning,
			Value: `time() - min by (job, type) (jibe_lcm_operations_waiting_for_merge_since_timestamp_seconds)`, Bad: "> " + p.than(24*time.Hour),
			Summary:     "{{ $labels.type }} has waited for the merge of its pull request for {{ $value | humanizeDuration }}",
			Description: "Somebody asked for an operation, and nobody has merged or closed its pull request, or the forge is away: jibe get operations says which.",
		},
		{
			Name: "VnfGrantsAreNotAnswered", Severity: warning, For: 5 * time.Minute,
			Value: `sum by (job, result) (` + grown(`jibe_grant_duration_seconds_count{result=~"timeout|wrong|unavailable"}`, p.over(15*time.Minute)) + `)`, Bad: "> 0",
			Summary:     "Grants aren't answered as they should be: {{ $labels.result }}",
			Description: "The NFVO is away or answers what can't be followed, so that no operation begins: jibe get operations says what it said.",
		},
		{
			Name: "VnfHookFails", Severity: warning,
			Value: `sum by (job, stage, outcome) (` + grown(`jibe_hook_duration_seconds_count{outcome="error"}`, p.over(time.Hour)) + `)`, Bad: "> 0",
			Summary:     "Hooks of packages fail ({{ $labels.stage }}: {{ $labels.outcome }})",
			Description: "A program of a package, or an element manager that was asked, failed in the last hour: jibe get operation ID shows what it said.",
		},
		{
			Name: "VnfDriftNotPutRight", Severity: warning,
			Value: `time() - min by (job, instance, state) (jibe_drift_since_timestamp_seconds{state!~"suspended|reported|held"})`, Bad: "> " + p.than(5*time.Minute),
			Summary:     "{{ $labels.instance }} has differed from git for {{ $value | humanizeDuration }} ({{ $labels.state }})",
			Description: "Jibe puts drift right in seconds where it can. It couldn't: jibe get drift says what differs and why it stays.",
		},
		{
			Name: "VnfDriftIsFoughtOver", Severity: warning, For: time.Minute,
			Value: `max by (job) (jibe_fights)`, Bad: "> 0",
			Summary:     "{{ $value }} repairs are undone again and again by somebody",
			Description: "Another manager writes what Jibe writes: jibe get drift names it. One of them must let go.",
		},
		{
			Name: "VnfHeldForLong", Severity: info,
			Value: `time() - max by (job, instance) (jibe_instance_held_since_timestamp_seconds)`, Bad: "> " + p.than(24*time.Hour),
			Summary:     "{{ $labels.instance }} has been held for {{ $value | humanizeDuration }} since an operation was failed",
			Description: "Nothing is done for it, not even a repair, until the next commit or request.",
		},
		{
			Name: "RolloutHalted", Severity: warning,
			Value: `max by (job, rollout, phase) (jibe_rollout_phase{phase=~"halted|rolling back|problem"})`, Bad: "> 0",
			Summary:     "Rollout {{ $labels.rollout }} begins nothing more ({{ $labels.phase }})",
			Description: "Its failures have spent the budget (what it did may be taken back just now), nobody knows what came of an instance, or its file can't be obeyed: jibe get rollouts -o wide says which.",
		},
		{
			Name: "RolloutWaitsForMerge", Severity: warning,
			Value: `time() - min by (job, rollout) (jibe_rollout_waiting_for_merge_since_timestamp_seconds)`, Bad: "> " + p.than(24*time.Hour),
			Summary:     "Rollout {{ $labels.rollout }} has waited for the merge of its pull request for {{ $value | humanizeDuration }}",
			Description: "Nobody has merged or closed what it proposes, or the forge is away, and the rest of the fleet stays as it is: jibe get rollouts says which pull request.",
		},
	}}
}

func gitAlerts(p pace) group {
	return group{"jibe-git", []alert{
		{
			Name: "DesiredRepositoryNotFollowed", Severity: critical, For: 2 * time.Minute,
			Value: `min by (job) (jibe_desired_repository_healthy)`, Bad: "== 0",
			Summary:     "What is pushed to the desired repository is not followed",
			Description: "The forge is away, or its branch can't be followed: /readyz and the log say why. What runs is looked after as git last said.",
		},
		{
			Name: "DesiredFileNotObeyed", Severity: warning,
			Value: `time() - min by (job, file, instance) (jibe_desired_problem_since_timestamp_seconds)`, Bad: "> " + p.than(2*time.Minute),
			Summary:     "{{ $labels.file }} isn't obeyed{{ with $labels.instance }} (instance {{ . }}){{ end }}",
			Description: "What the file said before stays in force: jibe get problems says what is wrong with it, and what to do.",
		},
		{
			// Of one replica: a forge that was away once fails once at each of them.
			Name: "GitFails", Severity: warning, For: 5 * time.Minute,
			Value: `max by (job, command) (` + grown(`jibe_git_duration_seconds_count{outcome="error"}`, p.over(15*time.Minute)) + `)`, Bad: "> 1",
			Summary:     "git {{ $labels.command }} fails again and again",
			Description: "Changes don't reach Jibe (fetch) or the forge (push), or requests are refused (commit): the log says why.",
		},
		{
			Name: "PackageRepositoryNotFetched", Severity: warning, For: 10 * time.Minute,
			Value: `min by (job, repository) (jibe_package_repository_up)`, Bad: "== 0",
			Summary:     "The package repository {{ $labels.repository }} can't be fetched or read",
			Description: "What it had is still offered, and new packages don't arrive: jibe get problems says why.",
		},
		{
			Name: "ForgeNotTold", Severity: warning, For: time.Minute,
			Value: `time() - min by (job) (jibe_forge_report_outstanding_since_timestamp_seconds)`, Bad: "> " + p.than(10*time.Minute),
			Summary:     "The forge hasn't been told for {{ $value | humanizeDuration }} what became of a commit or pull request",
			Description: "Commits and pull requests show an old state there. What runs isn't concerned: jibe doctor says whether the token holds, the log what the forge answers.",
		},
		{
			Name: "GitIsSlow", Severity: info, For: 10 * time.Minute,
			Value: `histogram_quantile(0.9, sum by (job, command, le) (rate(jibe_git_duration_seconds_bucket{command!="fetch"}[` + p.over(10*time.Minute) + `])))`, Bad: "> 5",
			Summary:     "git {{ $labels.command }} takes {{ $value | humanizeDuration }}",
			Description: "Each request of the API waits for a commit, and where there is a forge, for its push.",
		},
	}}
}

func vimAlerts(p pace) group {
	return group{"jibe-vims", []alert{
		{
			Name: "VimAway", Severity: critical, For: 5 * time.Minute,
			// A VIM without that series is an instance's own connection, or one of very many.
			Value: `(min by (job, vim) (jibe_vim_up) unless on (job, vim) sum by (job, vim) (jibe_vim_instances) == 0)`, Bad: "== 0",
			Summary:     "The VIM {{ $labels.vim }} doesn't answer",
			Description: "Operations there wait and nothing is repaired; what runs is left alone. jibe doctor says what it says.",
		},
		{
			Name: "VimUnusedAway", Severity: warning, For: 15 * time.Minute,
			Value: `(min by (job, vim) (jibe_vim_up) and on (job, vim) sum by (job, vim) (jibe_vim_instances) == 0)`, Bad: "== 0",
			Summary:     "The VIM {{ $labels.vim }}, which no VNF uses, doesn't answer",
			Description: "No VNF can be instantiated there, and what was left there isn't seen. Remove its file under vims/ if it isn't needed; jibe doctor says what it says.",
		},
		{
			Name: "VimIsAnotherOne", Severity: critical, For: 2 * time.Minute,
			Value: `sum by (job, vim) (jibe_vim_former_instances)`, Bad: "> 0",
			Summary:     "Another VIM answers as {{ $labels.vim }} than the one at which {{ $value | humanize }} VNFs run",
			Description: "Nothing of them is repaired, and operations on them are refused. Have its file under vims/ lead back, or, where that one is gone for good, forget it: jibe vim forget.",
		},
		{
			Name: "VimHasOrphans", Severity: warning, For: 10 * time.Minute,
			Value: `max by (job, vim) (jibe_orphaned_objects)`, Bad: "> 0",
			Summary:     "{{ $value }} objects at the VIM {{ $labels.vim }} belong to no VNF",
			Description: "This installation made them, and nothing in git wants them, as after a restore of the VIM: jibe get orphans shows them and why.",
		},
		{
			Name: "VimRequestsFail", Severity: warning, For: 10 * time.Minute,
			Value: "sum by (job, vim) (rate(jibe_vim_errors_total[" + p.over(10*time.Minute) + "])) / ((sum by (job, vim) (rate(jibe_vim_request_duration_seconds_count[" + p.over(10*time.Minute) + "])) or 0 * sum by (job, vim) (jibe_vim_up))" +
				" + sum by (job, vim) (rate(jibe_vim_errors_total{" + unanswered + "}[" + p.over(10*time.Minute) + "])))", Bad: "> 0.1",
			Summary:     "{{ $value | humanizePercentage }} of the requests to the VIM {{ $labels.vim }} fail",
			Description: "The dashboard VIMs shows them by cause: rights, limits, timeouts.",
		},
		{
			Name: "VimIsSlow", Severity: info, For: 10 * time.Minute,
			Value: `histogram_quantile(0.9, sum by (job, vim, le) (rate(jibe_vim_request_duration_seconds_bucket[` + p.over(10*time.Minute) + `])))`, Bad: "> 5",
			Summary:     "The VIM {{ $labels.vim }} takes {{ $value | humanizeDuration }} for a request",
			Description: "Operations there take longer by as much for each of their steps.",
		},
		{
			// Each replica counts the instances that it owns.
			Name: "VimKindUnlisted", Severity: warning, For: 2 * time.Minute,
			Value: `sum by (job, vim, kind) (jibe_vim_unlisted_instances)`, Bad: "> 0",
			Summary:     "The VIM {{ $labels.vim }} can't list {{ $labels.kind }}: {{ $value }} instances aren't looked after",
			Description: "The VIM answers, and other instances there go on. jibe get problems has what the API server says: a webhook that converts the kind is gone, or the right to list it was denied.",
		},
		{
			// Of one replica: each has watches of its own, which end by themselves, too.
			Name: "VimWatchBreaks", Severity: warning, For: 5 * time.Minute,
			Value: `(max by (job, vim) (increase(jibe_vim_watch_restarts_total[` + p.over(time.Hour) + `])) unless on (job, vim) (min by (job, vim) (jibe_vim_up) == 0))`, Bad: "> " + p.many(1000, time.Hour),
			Summary:     "Watches of the VIM {{ $labels.vim }} were begun again {{ $value | humanize }} times in the last hour",
			Description: "Each ends by itself after some minutes; these are cut. Look for a proxy or load balancer that ends long connections.",
		},
	}}
}

func processAlerts(p pace) group {
	return group{"jibe-itself", []alert{
		{
			Name: "JibeAway", Severity: critical, For: 2 * time.Minute,
			Value: `max by (job) (up and on (job, instance) last_over_time(jibe_data_writable[` + p.over(24*time.Hour) + `]))`, Bad: "== 0",
			Summary:     "No Jibe of {{ $labels.job }} answers",
			Description: "VNFs run on, but nothing is changed or repaired, and pushes and requests are refused.",
		},
		{
			Name: "JibeStartsOften", Severity: warning,
			Value: `(changes(process_start_time_seconds[` + p.over(30*time.Minute) + `]) and on (job, instance) jibe_data_writable)`, Bad: "> 3",
			Summary:     "Jibe at {{ $labels.instance }} was started {{ $value }} times in half an hour",
			Description: "Nothing is lost by a start, but something ends it: the log, and who started it (systemd, kubelet), say what.",
		},
		{
			Name: "DataNotWritable", Severity: critical, For: time.Minute,
			Value: `min by (job, instance) (jibe_data_writable)`, Bad: "== 0",
			Summary:     "Jibe at {{ $labels.instance }} can't write its store or desired repository",
			Description: "A full disk, or a Redis that is away. Requests and pushes are refused there and operations stand still: /readyz says why.",
		},
		{
			Name: "AuditLogNotWritable", Severity: critical, For: time.Minute,
			Value: `min by (job, instance) (jibe_audit_writable)`, Bad: "== 0",
			Summary:     "Jibe at {{ $labels.instance }} can't write its audit log",
			Description: "Changes are refused there, as no record of them can be kept: /readyz says why.",
		},
		{
			Name: "AuditLogLostRecords", Severity: critical,
			Value: `max by (job, instance) (jibe_audit_last_record) - max by (job, instance) (max_over_time(jibe_audit_last_record[` + p.over(time.Hour) + `]))`, Bad: "< 0",
			Summary:     "Records were removed from the audit log of Jibe at {{ $labels.instance }}: {{ $value }}",
			Description: "The number of the last record has fallen, which only somebody who writes the file can do: jibe audit verify.",
		},
		{
			Name: "CredentialsAreGuessed", Severity: warning,
			Value: `sum by (job) (rate(jibe_login_failures_total{reason=~"wrong|throttled"}[` + p.over(10*time.Minute) + `]))`, Bad: "> 0.2",
			Summary:     "Wrong credentials keep coming: {{ $value | humanize }} a second",
			Description: "A client with an old token, or somebody who guesses: the audit log names the addresses.",
		},
		{
			Name: "SubscriberNotNotified", Severity: warning,
			Value: `max by (job, subscription) (jibe_notification_lag_seconds)`, Bad: "> " + p.than(5*time.Minute),
			Summary:     "Subscription {{ $labels.subscription }} has taken nothing for {{ $value | humanizeDuration }}",
			Description: "Its notifications are kept and sent again: jibe get subscriptions says what comes of it.",
		},
		{
			Name: "NotificationsGivenUp", Severity: warning,
			Value: `sum by (job, subscription) (` + grown(`jibe_notifications_dropped_total`, p.over(time.Hour)) + `)`, Bad: "> 0",
			Summary:     "Notifications of subscription {{ $labels.subscription }} were given up",
			Description: "The subscriber didn't take them within --notify-retention, and never gets them: it must read what it missed.",
		},
		{
			Name: "SubscriptionNotProven", Severity: critical,
			Value: `max by (job) (jibe_subscriptions_unproven)`, Bad: "> 0",
			Summary:     "Records of {{ $value }} subscriptions weren't written by Jibe: nothing is sent there",
			Description: "They were changed in Redis, or put there: find out who may write to it, and have their owners subscribe again.",
		},
		{
			Name: "QueueNotWorkedOff", Severity: warning, For: 2 * time.Minute,
			Value: `max by (job) ((time() - jibe_queue_oldest_timestamp_seconds) * (jibe_queue_oldest_timestamp_seconds > bool 0))`, Bad: "> " + p.than(2*time.Minute),
			Summary:     "An instance has waited for {{ $value | humanizeDuration }} to be looked at",
			Description: "All workers are busy, or wait for a VIM: the dashboards Jibe itself and VIMs say which.",
		},
		{
			Name: "StoreIsSlow", Severity: warning, For: 10 * time.Minute,
			Value: `histogram_quantile(0.9, sum by (job, le) (rate(jibe_store_duration_seconds_bucket{operation="update"}[` + p.over(10*time.Minute) + `])))`, Bad: "> 0.5",
			Summary:     "A write to the store takes {{ $value | humanizeDuration }}",
			Description: "Each change of an operation's state waits until it is durable: look at the disk's latency.",
		},
		{
			Name: "CertificateEnds", Severity: warning,
			Value: `min by (job, file) (jibe_certificate_expiry_timestamp_seconds) - time()`, Bad: fmt.Sprintf("< %d", 14*day),
			Summary:     "The certificate in {{ $labels.file }} ends in {{ $value | humanizeDuration }}",
			Description: "After that no client trusts it. A new file is taken up without a restart.",
		},
		{
			Name: "CertificateEndsAtOnce", Severity: critical,
			Value: `min by (job, file) (jibe_certificate_expiry_timestamp_seconds) - time()`, Bad: fmt.Sprintf("< %d", 2*day),
			Summary:     "The certificate in {{ $labels.file }} ends in {{ $value | humanizeDuration }}",
			Description: "After that no client trusts it. A new file is taken up without a restart.",
		},
		{
			Name: "BackupIsOld", Severity: warning,
			Value: `time() - (max by (job) (jibe_backup_last_success_timestamp_seconds) > 0)`, Bad: fmt.Sprintf("> %d", 2*day),
			Summary:     "The last backup succeeded {{ $value | humanizeDuration }} ago",
			Description: "The history of operations, the key of the secrets and local repositories are only as safe as the last backup: run jibe backup.",
		},
		{
			Name: "SeriesAreLeftOut", Severity: info, For: 5 * time.Minute,
			Value: `max by (job, metric) (jibe_series_omitted)`, Bad: "> 0",
			Summary:     "{{ $value }} series of {{ $labels.metric }} are left out",
			Description: "So much is out of the ordinary that metrics tell of a part only, and other alerts with them. The API and jibe get tell all.",
		},
		{
			Name: "HooksAreUnconfined", Severity: info, For: 5 * time.Minute,
			Value: `max by (job) (jibe_hooks_unconfined)`, Bad: "== 1",
			Summary:     "Hooks of packages run with all the rights of their user",
			Description: "The flag --unconfined-hooks is set: whoever may push a package may run anything on Jibe's machine as that user.",
		},
	}}
}

// serving is the number of members as those see it who can know: a replica without a session shows what it
// saw last.
const serving = `jibe_members and on (job, instance) (jibe_member_session_held == 1)`

func replicaAlerts(p pace) group {
	return group{"jibe-replicas", []alert{
		{
			Name: "ReplicaHasNoSession", Severity: critical, For: time.Minute,
			Value: `min by (job, instance) (jibe_member_session_held)`, Bad: "== 0",
			Summary:     "Jibe at {{ $labels.instance }} has no session in the store",
			Description: "It begins nothing and refuses writes until it reaches the store. Replicas that reach it have taken its instances over: /readyz says why.",
		},
		{
			// A count must have lasted for two minutes: a replica that was killed and started again is two
			// members until the former session has ended.
			Name: "ReplicaIsMissing", Severity: warning, For: 5 * time.Minute,
			Value: `max_over_time(min_over_time(max by (job) (` + serving + `)[` + p.over(2*time.Minute) + `:` + p.of(30*time.Second) + `])[` + p.over(time.Hour) + `:` + p.of(time.Minute) + `])` +
				` - max by (job) (` + serving + `)`, Bad: "> 0",
			Summary:     "{{ $value }} of the replicas of {{ $labels.job }} that served in the last hour are missing",
			Description: "The others have taken its instances over; there is less in reserve. jibe get members names those that serve.",
		},
		{
			Name: "RedisLostRecords", Severity: warning,
			Value: `max by (job) (jibe_redis_epoch_timestamp_seconds) - min by (job) (min_over_time(jibe_redis_epoch_timestamp_seconds[` + p.over(time.Hour) + `]))`, Bad: "> 0",
			Summary:     "The Redis of {{ $labels.job }} no longer has all that it had answered",
			Description: "A failover, a restart from an older file, or somebody who emptied it. Operations are rebuilt from git and no VNF notices; subscriptions and undelivered events may be gone.",
		},
		{
			Name: "RedisMemoryShort", Severity: warning, For: 5 * time.Minute,
			Value: redisMemory, Bad: "> 0.8",
			Summary:     "The Redis of {{ $labels.job }} uses {{ $value | humanizePercentage }} of the memory that it may",
			Description: "Where it is full, nothing can be written: requests are refused and operations stand still. Raise maxmemory, or keep fewer operations.",
		},
	}}
}

// rules are the alerts as Prometheus reads them.
func rules(runbooks string, p pace) ([]byte, error) {
	type annotations struct {
		Summary     string `yaml:"summary"`
		Description string `yaml:"description"`
		Runbook     string `yaml:"runbook_url"`
	}
	type rule struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		Labels      map[string]string `yaml:"labels"`
		Annotations annotations       `yaml:"annotations"`
	}
	type rendered struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	var groups []rendered
	for _, g := range alerts(p) {
		r := rendered{Name: g.Name}
		for _, a := range g.Alerts {
			x := rule{
				Alert: a.Name, Expr: a.Value + "\n" + a.Bad, Labels: map[string]string{"severity": a.Severity},
				Annotations: annotations{a.Summary, a.Description, strings.TrimSuffix(runbooks, "/") + "/" + a.Name + ".md"},
			}
			if a.For > 0 {
				x.For = p.of(a.For)
			}
			r.Rules = append(r.Rules, x)
		}
		groups = append(groups, r)
	}
	var b bytes.Buffer
	b.WriteString("# Made by go run ./dashboards: change dashboards/alerts.go, and run it again.\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(map[string]any{"groups": groups}); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}
