package main

// operations answers: what is done, how long does it take, why does it fail?
func operations() dashboard {
	return dashboard{
		UID: "jibe-operations", Title: "Jibe / Operations", Range: "6h",
		Description: "VNF LCM operations: how many, how long, in which phase, and why they fail.",
		Rows: []row{
			{"Now", []panel{
				stat("Under way", "short", calm(), `sum(max by (job, type, state, automatic) (jibe_lcm_operations_open{state=~"STARTING|PROCESSING|ROLLING_BACK"})) or vector(0)`, "Operations that are worked on or wait for their VIM, grant or hook.").wide(3),
				stat("Wait for a person", "short", above(1, red), `sum(max by (job, type) (jibe_lcm_operations_open{state="FAILED_TEMP", automatic="false"})) or vector(0)`, "Operations in FAILED_TEMP that somebody asked for.").wide(3),
				stat("Wait for instances", "short", calm(), `sum(max by (job, instance, type) (jibe_lcm_operations_waiting_for_instances)) or vector(0)`, "Operations that haven't begun, as what their instance needs isn't ready, or others need the instance: jibe get operations says which.").wide(3),
				stat("Wait for a merge", "short", calm(), `sum(max by (job, instance, type, forge) (jibe_lcm_operations_waiting_for_merge)) or vector(0)`, "Requests that wait for their pull request to be merged: jibe get operations says which.").wide(3),
				stat("Repairs that failed", "short", above(1, yellow), `sum(max by (job, type) (jibe_lcm_operations_open{state="FAILED_TEMP", automatic="true"})) or vector(0)`, "Repairs in FAILED_TEMP: they are tried again by themselves.").wide(3),
				stat("Begun", "short", calm(), `sum(increase(jibe_lcm_operation_transitions_total{state="STARTING"}[$__range]))`, "Operations that began in the time shown.").wide(3),
				gauge("Ended well", "percentunit", 0, 1, []step{{red, nil}, {yellow, num(0.9)}, {green, num(0.98)}},
					`sum(increase(jibe_lcm_operation_transitions_total{state="COMPLETED"}[$__range])) / sum(increase(jibe_lcm_operation_transitions_total{state=~"COMPLETED|FAILED_TEMP|FAILED|ROLLED_BACK"}[$__range]))`,
					"Share of COMPLETED among all ends and failures in the time shown. An operation that failed, was retried and completed counts on both sides.").wide(3),
				stat("Steps failed", "percentunit", above(0.05, yellow),
					`sum(increase(jibe_steps_total{outcome!="ok"}[$__range])) / sum(increase(jibe_steps_total[$__range]))`, "Share of steps at VIMs that weren't done, in the time shown.").wide(3),
			}},
			{"How many, and what becomes of them", []panel{
				graph("Begun, by type", "ops", "Operations that began, a second.", query{`sum by (type) (rate(jibe_lcm_operation_transitions_total{state="STARTING"}[$__rate_interval]))`, "{{type}}"}).stacked(),
				graph("States entered", "ops", "Changes of state, a second: COMPLETED and ROLLED_BACK are ends, FAILED_TEMP waits.",
					query{`sum by (state) (rate(jibe_lcm_operation_transitions_total[$__rate_interval]))`, "{{state}}"}),
				graph("Open, by state", "short", "Operations that haven't ended.", query{`sum by (state) (max by (job, type, state, automatic) (jibe_lcm_operations_open))`, "{{state}}"}).stacked(),
				graph("Failures, by cause", "ops", "Why operations failed: refused (a rule or the VIM), grant, vim (away or its error), hook, timeout, conflict, other.",
					query{`sum by (cause) (rate(jibe_lcm_operation_failures_total[$__rate_interval]))`, "{{cause}}"}),
				table("Failures in the time shown", "short", "By type and cause. jibe get operations lists them with their errors.",
					`sort_desc(sum by (type, cause) (`+grown("jibe_lcm_operation_failures_total", "$__range")+`))`, column{"type", "Type"}, column{"cause", "Cause"}, column{"Value", "Failures"}),
				graph("Automatic repairs, by kind", "cps", "Objects that had drifted and were put right.", query{`sum by (kind) (rate(jibe_drift_repairs_total[$__rate_interval]))`, "{{kind}}"}),
			}},
			{"How long", []panel{
				graph("From start to end, by type", "s", "Median and 95th percentile of operations that ended. Waiting for a person is in it.",
					quantiles("jibe_lcm_operation_duration_seconds_bucket", "type")...),
				graph("By phase", "s", "Where the time goes: waiting for other instances, grant, hook, applying, waiting for what runs to be ready, switching traffic, pruning. 95th percentile.",
					query{`histogram_quantile(0.95, sum by (le, phase) (rate(jibe_lcm_operation_phase_duration_seconds_bucket[$__rate_interval])))`, "{{phase}}"}),
				graph("Grants", "s", "How long it took until a grant was decided, by who was asked. 95th percentile.",
					query{`histogram_quantile(0.95, sum by (le, by, result) (rate(jibe_grant_duration_seconds_bucket[$__rate_interval])))`, "{{by}} {{result}}"}),
				graph("Hooks", "s", "How long programs of packages and coordination actions took, by stage and outcome. 95th percentile.",
					query{`histogram_quantile(0.95, sum by (le, stage, outcome) (rate(jibe_hook_duration_seconds_bucket[$__rate_interval])))`, "{{stage}} {{outcome}}"}),
			}},
			{"What is done", []panel{
				graph("Steps, by kind and outcome", "ops", "Steps at VIMs, a second.", query{`sum by (kind, outcome) (rate(jibe_steps_total[$__rate_interval]))`, "{{kind}} {{outcome}}"}),
				graph("Steps of a plan", "short", "How many steps a plan had, by type of operation. 95th percentile.",
					query{`histogram_quantile(0.95, sum by (le, type) (rate(jibe_plan_steps_bucket[$__rate_interval])))`, "{{type}}"}),
			}},
		},
	}
}

// git answers: is what is committed followed, and who is refused?
func git() dashboard {
	return dashboard{
		UID: "jibe-git", Title: "Jibe / Git and pull requests", Range: "6h",
		Description: "The desired repository: whether it is followed and obeyed, how long git takes, which pushes, pull requests and API requests are refused, and by which rule.",
		Rows: []row{
			{"Now", []panel{
				stat("Followed", "short", below(1, red), `min(jibe_desired_repository_healthy)`, "Whether the branch of the desired repository is followed; with several Jibes, of all of them.").named(yesNo),
				stat("Can be written", "short", below(1, red), `min(jibe_data_writable)`, "Whether the store and the desired repository can be written; no is a full disk, or a Redis that is away.").named(yesNo),
				stat("Not obeyed", "short", above(1, red), `count(max by (job, file, instance) (jibe_desired_problem_since_timestamp_seconds)) or vector(0)`, "Files at head that can't be obeyed: jibe get problems lists why."),
				stat("Not obeyed for", "s", above(120, red), `time() - min(jibe_desired_problem_since_timestamp_seconds) or vector(0)`, "How long the oldest of it has stood at head."),
				stat("Refused", "short", above(1, yellow), `sum(`+grown("jibe_admission_rejections_total", "$__range")+`) or vector(0)`, "Pushes, pull requests and requests that a rule refused in the time shown."),
				stat("Conflicts", "short", above(10, yellow), `sum(increase(jibe_git_conflicts_total[$__range]))`, "How often Jibe's own commit found the branch moved and was made anew, in the time shown."),
			}},
			{"Refused changes", []panel{
				graph("Refused, by rule", "cps", "Changes that the rules refused, a second. Each refusal tells its author why.",
					query{`sum by (rule) (rate(jibe_admission_rejections_total[$__rate_interval]))`, "{{rule}}"}),
				table("Refused in the time shown", "short", "By rule, and by the way that the change came.",
					`sort_desc(sum by (rule, by) (`+grown("jibe_admission_rejections_total", "$__range")+`))`, column{"rule", "Rule"}, column{"by", "Came by"}, column{"Value", "Refused"}),
				table("Files that aren't obeyed", "s", "A forge takes commits that Jibe's hook would refuse. What stood before stays in force. jibe get problems says why.",
					`sort_desc(time() - min by (file, instance) (jibe_desired_problem_since_timestamp_seconds))`,
					column{"file", "File"}, column{"instance", "VNF instance"}, column{"Value", "Since"}).wide(columns).high(6),
			}},
			{"Git", []panel{
				graph("Time of git", "s", "How long git took, by command. 95th percentile.",
					query{`histogram_quantile(0.95, sum by (le, command) (rate(jibe_git_duration_seconds_bucket[$__rate_interval])))`, "{{command}}"}),
				graph("Commands of git", "ops", "How often git was run, by command and outcome.",
					query{`sum by (command, outcome) (rate(jibe_git_duration_seconds_count[$__rate_interval]))`, "{{command}} {{outcome}}"}),
				graph("Package repositories", "short", "1 while a package repository can be fetched and read. Where it can't, what it had is still offered: jibe get problems says why.",
					query{`min by (job, repository) (jibe_package_repository_up)`, "{{repository}}"}),
				graph("Git clients", "short", "Requests of git clients for which git runs, those that wait for their turn, and those that were answered 503 in five minutes.",
					query{`sum by (service) (jibe_git_served)`, "{{service}}"}, query{`sum by (service) (jibe_git_served_waiting)`, "{{service}}, waits"},
					query{`sum by (service) (increase(jibe_git_served_refused_total[5m]))`, "{{service}}, refused"}),
				graph("Conflicts", "cps", "Jibe's own commits that found the branch moved. They are made anew; many of them mean that many people and programs write at once.",
					query{`sum(rate(jibe_git_conflicts_total[$__rate_interval]))`, "conflicts"}),
				graph("Wait for the next push", "s", "How long writes waited for their push, where --push-interval keeps pushes apart. Median and 95th percentile.",
					query{`histogram_quantile(0.5, sum by (le) (rate(jibe_git_push_wait_seconds_bucket[$__rate_interval])))`, "median"},
					query{`histogram_quantile(0.95, sum by (le) (rate(jibe_git_push_wait_seconds_bucket[$__rate_interval])))`, "95%"}),
				graph("Calls of the webhook", "ops", "What became of the forge's deliveries to /webhook. Those that are refused as forged or unsigned come from elsewhere, or the forge has another secret.",
					query{`sum by (outcome) (rate(jibe_webhook_deliveries_total[$__rate_interval]))`, "{{outcome}}"}),
				graph("Said to the forge", "ops", "Statuses of commits, comments on pull requests and looks at those: sent, failed (tried again), dropped (given up).",
					query{`sum by (kind, outcome) (rate(jibe_forge_reports_total[$__rate_interval]))`, "{{kind}} {{outcome}}"}),
				graph("Not said to the forge yet", "short", "Commits and pull requests of which the forge doesn't know the newest. It stays above zero while the forge is away, refuses the token, or limits requests.",
					query{`sum by (job) (jibe_forge_reports_outstanding)`, "{{job}}"}),
				graph("Followed", "short", "1 while the branch is followed, 0 while it isn't.", query{`min by (job) (jibe_desired_repository_healthy)`, "{{job}}"}),
			}},
		},
	}
}

// yesNo names the values of a metric that is 1 or 0.
var yesNo = map[string]string{"1": "yes", "0": "no"}

// vims answers: is it us, or is it the VIM?
func vims() dashboard {
	return dashboard{
		UID: "jibe-vims", Title: "Jibe / VIMs", Range: "6h",
		Description: "Kubernetes clusters and OpenStack projects as Jibe sees them: whether they answer, how fast, with which errors.",
		Vars:        []variable{{"vim", "VIM", `label_values(jibe_vim_up{job=~"$job"}, vim)`, true}},
		Rows: []row{
			{"Now", []panel{
				stat("Answer", "short", calm(), `sum(min by (job, vim) (jibe_vim_up{vim=~"$vim"}))`, "VIMs that answered when they were last asked, each replica of Jibe.").wide(5),
				stat("Don't answer", "short", above(1, red), `count(min by (job, vim) (jibe_vim_up{vim=~"$vim"}) == 0) or vector(0)`, "VIMs that didn't. Their instances stay as they are; operations there wait.").wide(5),
				stat("VNFs at a former one", "short", above(1, red), `sum(jibe_vim_former_instances{vim=~"$vim"}) or vector(0)`, "VNFs that were instantiated at another VIM than the one that answers under the name now. Nothing is done for them.").wide(4),
				gauge("Requests that failed", "percentunit", 0, 1, []step{{green, nil}, {yellow, num(0.05)}, {red, num(0.2)}},
					`sum(increase(jibe_vim_errors_total{vim=~"$vim"}[$__range])) / (sum(increase(jibe_vim_request_duration_seconds_count{vim=~"$vim"}[$__range])) + sum(increase(jibe_vim_errors_total{vim=~"$vim", cause=~"unreachable|timeout|certificate"}[$__range])))`,
					"Share of requests to VIMs that ended with an error, in the time shown.").wide(5),
				stat("Watches begun anew", "short", above(20, yellow), `sum(increase(jibe_vim_watch_restarts_total{vim=~"$vim"}[$__range]))`, "How often a watch broke and was begun anew, in the time shown.").wide(5),
				table("State", "short", "Each VIM, and whether it answered when it was last asked.", `sort(min by (job, vim) (jibe_vim_up{vim=~"$vim"}))`,
					column{"vim", "VIM"}, column{"job", "Jibe"}, column{"Value", "Answers"}).named(yesNo).wide(8),
				graph("Answers", "short", "1 while a VIM answers, 0 while it doesn't.", query{`min by (vim) (jibe_vim_up{vim=~"$vim"})`, "{{vim}}"}).wide(8),
				graph("VNFs, by VIM", "short", "Instances that are at the VIM, or are to be. One that none uses is connected to all the same: objects of no VNF may be there.",
					query{`sum by (vim) (jibe_vim_instances{vim=~"$vim"})`, "{{vim}}"}).wide(8),
			}},
			{"Requests", []panel{
				graph("Requests, by VIM", "reqps", "Requests that Jibe makes, a second. At rest there are nearly none: watches tell what changes.",
					query{`sum by (vim) (rate(jibe_vim_request_duration_seconds_count{vim=~"$vim"}[$__rate_interval]))`, "{{vim}}"}),
				graph("Answers, by code", "reqps", "By the HTTP status of the answer.",
					query{`sum by (code) (rate(jibe_vim_request_duration_seconds_count{vim=~"$vim"}[$__rate_interval]))`, "{{code}}"}),
				graph("Time of a request", "s", "Median and 95th percentile, by VIM.", quantiles(`jibe_vim_request_duration_seconds_bucket{vim=~"$vim"}`, "vim")...),
				graph("Time, by method", "s", "95th percentile, by HTTP method.",
					query{`histogram_quantile(0.95, sum by (le, method) (rate(jibe_vim_request_duration_seconds_bucket{vim=~"$vim"}[$__rate_interval])))`, "{{method}}"}),
			}},
			{"Trouble", []panel{
				graph("Errors, by cause", "cps", "Requests that ended with an error, a second.", query{`sum by (vim, cause) (rate(jibe_vim_errors_total{vim=~"$vim"}[$__rate_interval]))`, "{{vim}} {{cause}}"}).wide(8),
				graph("Watches begun anew", "cps", "A watch that ends often costs the VIM a list of all that it holds.",
					query{`sum by (vim) (rate(jibe_vim_watch_restarts_total{vim=~"$vim"}[$__rate_interval]))`, "{{vim}}"}).wide(8),
				graph("Objects of no VNF", "short", "Objects of this installation that belong to no VNF, as after a restore of the VIM: jibe get orphans shows them.",
					query{`max by (vim) (jibe_orphaned_objects{vim=~"$vim"})`, "{{vim}}"}).wide(8),
				table("Kinds that can't be listed", "short", "Kinds of object that a VIM can't list or watch while it answers otherwise, and how many instances aren't looked after for that: jibe get problems has the VIM's reason.",
					`sort_desc(sum by (job, vim, kind) (jibe_vim_unlisted_instances{vim=~"$vim"}))`,
					column{"vim", "VIM"}, column{"kind", "Kind"}, column{"job", "Jibe"}, column{"Value", "Instances"}).wide(24),
			}},
		},
	}
}
