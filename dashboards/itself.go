package main

// itself answers: does the process have what it needs, and does it keep up?
func itself() dashboard {
	return dashboard{
		UID: "jibe-itself", Title: "Jibe / Jibe itself", Range: "6h",
		Description: "The process and its replicas: version, members, memory, queue, store, API, logins, notifications, audit log, certificates and backups.",
		Rows: []row{
			{"Now", []panel{
				stat("Runs for", "s", calm(), `time() - max(process_start_time_seconds and on (job, instance) jibe_data_writable)`, "How long the process that was started last has run."),
				stat("Can write", "short", below(1, red), `min(jibe_data_writable)`, "Whether the store and the desired repository can be written; no is a full disk, or a Redis that is away.").named(yesNo),
				stat("Keeps records", "short", below(1, red), `min(jibe_audit_writable)`, "Whether records can be written to the audit log; while they can't, changes are refused.").named(yesNo),
				stat("Oldest in the queue", "s", above(60, red), `max((time() - jibe_queue_oldest_timestamp_seconds) * (jibe_queue_oldest_timestamp_seconds > bool 0))`, "How long the instance that waits longest has waited to be looked at."),
				stat("Certificate ends in", "s", []step{{red, nil}, {yellow, num(2 * day)}, {green, num(14 * day)}}, `min(jibe_certificate_expiry_timestamp_seconds) - time()`, "Time until the first of its certificates is no longer valid."),
				stat("Last backup", "s", above(2*day, yellow), `time() - max(jibe_backup_last_success_timestamp_seconds > 0)`, "How long ago jibe backup last succeeded."),
				table("Version", "short", "What runs, and how many processes of it.", `sum by (job, version, revision, goversion) (jibe_build_info)`,
					column{"job", "Jibe"}, column{"version", "Version"}, column{"revision", "Revision"}, column{"goversion", "Go"}, column{"Value", "Processes"}).high(6),
				table("Certificates", "s", "Time until each certificate file's first certificate is no longer valid.", `sort(min by (job, file) (jibe_certificate_expiry_timestamp_seconds) - time())`,
					column{"file", "File"}, column{"job", "Jibe"}, column{"Value", "Ends in"}).high(6),
			}},
			{"Replicas", []panel{
				graph("Members", "short", "Replicas that serve, as each of them sees them: where the lowest and the highest differ for more than some seconds, some don't reach the store.",
					query{`min by (job) (jibe_members)`, "{{job}} lowest"}, query{`max by (job) (jibe_members)`, "{{job}} highest"}).wide(8),
				graph("Sessions held", "short", "Replicas whose session in the store is held. One without begins nothing.",
					query{`sum by (job) (jibe_member_session_held)`, "{{job}}"}).wide(8),
				graph("Instances owned, by replica", "short", "VNF instances that each replica looks after. When one goes, the others take its instances over.",
					query{`max by (job, instance) (jibe_instances_owned)`, "{{job}} {{instance}}"}).stacked().wide(8),
				graph("Leases lost", "ops", "Sessions that a replica lost, as it slept, was stopped, or couldn't reach the store in time; and writes that the store refused, as the lease that they were made under was lost.",
					query{`sum by (job, instance) (rate(jibe_member_sessions_lost_total[$__rate_interval]))`, "sessions, {{job}} {{instance}}"},
					query{`sum by (job, instance) (rate(jibe_store_fenced_total[$__rate_interval]))`, "refused writes, {{job}} {{instance}}"}).wide(columns),
			}},
			{"Redis (where it has the records)", []panel{
				stat("Answers", "short", below(1, red), `min(jibe_redis_up)`, "Whether Redis answers all replicas. While it doesn't, nothing is begun, and writes are answered with 503.").named(yesNo).wide(6),
				stat("Lost nothing for", "s", []step{{red, nil}, {yellow, num(60 * 60)}, {green, num(day)}}, `time() - max(jibe_redis_epoch_timestamp_seconds)`,
					"How long ago Redis was last found not to have all that it had answered, or a backup was restored there; else how long it has been used. What is lost is rebuilt from git.").wide(6),
				stat("Its replicas", "short", below(1, yellow), `min(jibe_redis_replicas)`, "Replicas of Redis that are connected to its master. With none, a lost machine loses the records that git doesn't have.").wide(6),
				stat("Memory in use", "percentunit", []step{{green, nil}, {yellow, num(0.7)}, {red, num(0.8)}}, `max(`+redisMemory+`) or vector(0)`,
					"Share of the memory that Redis may use (maxmemory); 0 where that isn't bounded. Where it is full, nothing can be written.").wide(6),
				graph("Memory of Redis", "bytes", "What it uses, and what it may (maxmemory).",
					query{`max by (job) (jibe_redis_memory_bytes)`, "{{job}}"}, query{`max by (job) (jibe_redis_memory_limit_bytes > 0)`, "{{job}} limit"}).wide(8),
				graph("Records in Redis", "short", "Operations, subscriptions, events that are to be delivered, and what else is kept.", query{`max by (job) (jibe_redis_records)`, "{{job}}"}).wide(8),
				graph("Answers each replica", "short", "1 where Redis answered that replica's scrape: a 0 of one alone is its way to Redis.",
					query{`min by (job, instance) (jibe_redis_up)`, "{{job}} {{instance}}"}).wide(8),
			}},
			{"Work", []panel{
				graph("Instances that wait to be looked at", "short", "The length of the queue. It is ordered by urgency.", query{`sum by (job) (jibe_queue_length)`, "{{job}}"}),
				graph("Wait in the queue, by priority", "s", "95th percentile of the time from being put into the queue to being looked at.",
					query{`histogram_quantile(0.95, sum by (le, priority) (rate(jibe_queue_wait_seconds_bucket[$__rate_interval])))`, "{{priority}}"}),
				graph("Looks at instances", "ops", "Passes, a second, by result. Errors rise while a VIM or repository is away.",
					query{`sum by (result) (rate(jibe_reconcile_duration_seconds_count[$__rate_interval]))`, "{{result}}"}),
				graph("Time of a look", "s", "Median and 95th percentile of one pass.", quantiles("jibe_reconcile_duration_seconds_bucket", "result")...),
			}},
			{"Store", []panel{
				graph("Time of the store", "s", "95th percentile: a view reads, an update is durable when it ends.",
					query{`histogram_quantile(0.95, sum by (le, operation) (rate(jibe_store_duration_seconds_bucket[$__rate_interval])))`, "{{operation}}"}),
				graph("Size of the store", "bytes", "The file store.db; none where the records are in Redis.", query{`sum by (job) (jibe_store_size_bytes)`, "{{job}}"}),
			}},
			{"API", []panel{
				graph("Requests, by status", "reqps", "API requests, a second.", query{`sum by (status) (rate(jibe_http_request_duration_seconds_count[$__rate_interval]))`, "{{status}}"}).stacked(),
				graph("Time of a request, by method", "s", "95th percentile. A request that changes something is answered when its commit is durable.",
					query{`histogram_quantile(0.95, sum by (le, method) (rate(jibe_http_request_duration_seconds_bucket[$__rate_interval])))`, "{{method}}"}),
				graph("Logins that failed", "reqps", "Requests that weren't let in: wrong credentials, none, or throttled as too many were wrong.",
					query{`sum by (reason) (rate(jibe_login_failures_total[$__rate_interval]))`, "{{reason}}"}),
				graph("Records of the audit log", "ops", "Records of writes, refusals and failed logins; those left out are refusals beyond the limit.",
					query{`sum(rate(jibe_audit_last_record[$__rate_interval]))`, "kept"}, query{`sum(rate(jibe_audit_omitted_total[$__rate_interval]))`, "left out"}),
			}},
			{"Notifications", []panel{
				graph("Wait to be delivered", "short", "Notifications that subscribers are still to be sent.", query{`sum by (job) (jibe_notifications_pending)`, "{{job}}"}).wide(8),
				graph("Age of the oldest", "s", "How long the oldest of them has waited, by subscription.", query{`max by (subscription) (jibe_notification_lag_seconds)`, "{{subscription}}"}).wide(8),
				graph("Deliveries", "ops", "Notifications that were taken, and attempts that were in vain, by reason.",
					query{`sum(rate(jibe_notifications_delivered_total[$__rate_interval]))`, "taken"},
					query{`sum by (reason) (rate(jibe_notification_failures_total[$__rate_interval]))`, "in vain: {{reason}}"}).wide(8),
				graph("Time of a delivery", "s", "95th percentile of one attempt, by outcome.",
					query{`histogram_quantile(0.95, sum by (le, outcome) (rate(jibe_notification_delivery_duration_seconds_bucket[$__rate_interval])))`, "{{outcome}}"}).wide(columns),
			}},
			{"Machine", []panel{
				graph("Memory", "bytes", "Resident memory, and what Go's heap uses of it.",
					query{`sum by (job, instance) (process_resident_memory_bytes and on (job, instance) jibe_data_writable)`, "{{job}} {{instance}} resident"},
					query{`sum by (job, instance) (go_memstats_heap_inuse_bytes and on (job, instance) jibe_data_writable)`, "{{job}} {{instance}} heap"}).wide(8),
				graph("Processors", "short", "How many processors it keeps busy, without the hooks and git that it runs.",
					query{`sum by (job, instance) (rate(process_cpu_seconds_total[$__rate_interval]) and on (job, instance) jibe_data_writable)`, "{{job}} {{instance}}"}).wide(8),
				graph("Goroutines and files", "short", "Goroutines and open files.",
					query{`sum by (job, instance) (go_goroutines and on (job, instance) jibe_data_writable)`, "{{job}} {{instance}} goroutines"},
					query{`sum by (job, instance) (process_open_fds and on (job, instance) jibe_data_writable)`, "{{job}} {{instance}} files"}).wide(8),
			}},
		},
	}
}

// redisMemory is the share of the memory that a Redis with a limit uses.
const redisMemory = `max by (job) (jibe_redis_memory_bytes) / (max by (job) (jibe_redis_memory_limit_bytes) > 0)`

// day is in seconds.
const day = 24 * 60 * 60
