package main

// all are the dashboards, in the order in which people come to them.
func all() []dashboard {
	return []dashboard{fleet(), instance(), operations(), git(), vims(), itself()}
}

// fleet answers: is anything wrong anywhere, and where do I look?
func fleet() dashboard {
	return dashboard{
		UID: "jibe-fleet", Title: "Jibe / Fleet", Range: "6h",
		Description: "All VNF instances at a glance: how many there are, which versions they are of, and what needs a person.",
		Rows: []row{
			{"What needs somebody", []panel{
				stat("Instances", "short", calm(), `sum(max by (job) (jibe_instances))`, "VNF instances in the desired repository, whatever their state."),
				stat("Wait for a person", "short", above(1, red), `sum(max by (job, type) (jibe_lcm_operations_open{state="FAILED_TEMP", automatic="false"})) or vector(0)`,
					"Operations in FAILED_TEMP that somebody asked for. Each waits for retry, rollback or fail."),
				stat("Instances that drift", "short", above(1, yellow), `count(count by (job, instance) (jibe_drift_since_timestamp_seconds)) or vector(0)`,
					"VNF instances of which something at the VIM differs from git now."),
				stat("Fights", "short", above(1, red), `sum(max by (job) (jibe_fights))`, "Automatic repairs that somebody else undoes again and again."),
				stat("Held", "short", above(1, yellow), `count(max by (job, instance) (jibe_instance_held_since_timestamp_seconds)) or vector(0)`,
					"VNF instances for which nothing is done until the next change, as their operation was failed by a person."),
				stat("Files not obeyed", "short", above(1, red), `count(max by (job, file, instance) (jibe_desired_problem_since_timestamp_seconds)) or vector(0)`, "Files at the head of the desired repository that can't be obeyed: jibe get problems lists why."),
				graph("Operations under way", "short", "Operations that haven't ended, by type and state. FAILED_TEMP waits for a person, unless the operation is automatic.",
					query{`sum by (type, state) (max by (job, type, state, automatic) (jibe_lcm_operations_open)) > 0`, "{{type}} {{state}}"}).stacked(),
				graph("Instances out of the ordinary", "short", "VNF instances that drift, are held or are suspended.",
					query{`count(count by (job, instance) (jibe_drift_since_timestamp_seconds)) or vector(0)`, "drifting"},
					query{`count(max by (job, instance) (jibe_instance_held_since_timestamp_seconds)) or vector(0)`, "held"},
					query{`sum(max by (job) (jibe_instances_suspended))`, "suspended"}),
			}},
			{"Rollouts and windows", []panel{
				stat("Rollouts under way", "short", calm(), `count(max by (job, rollout) (jibe_rollout_phase{phase!~"paused|halted|problem"})) or vector(0)`,
					"Rollouts that go on or wait for a gate: jibe get rollouts tells of each.").wide(6),
				stat("Rollouts that need a person", "short", above(1, yellow), `count(max by (job, rollout) (jibe_rollout_phase{phase=~"halted|problem|waiting for approval|waiting for merge"})) or vector(0)`,
					"Rollouts that are halted, wait for an approval or a merge, or whose files can't be obeyed.").wide(6),
				stat("Longest wait for a merge", "s", above(day, yellow), `max(time() - min by (job, rollout) (jibe_rollout_waiting_for_merge_since_timestamp_seconds)) or vector(0)`,
					"How long nobody has merged what a rollout proposes as a pull request: jibe get rollouts says which.").wide(6),
				stat("Wait for a window", "short", calm(), `sum(max by (job, type, end) (jibe_instances_waiting_for_window)) or vector(0)`,
					"VNF instances on which an operation isn't begun yet, as a maintenance window is closed or a freeze holds.").wide(6),
				graph("Instances of rollouts", "short", "VNF instances of rollouts that haven't ended, by what has become of them: already are those that were at the target before.",
					query{`sum by (state) (max by (job, rollout, state) (jibe_rollout_instances))`, "{{state}}"}).stacked(),
				graph("Waiting for a window", "short", "By type of operation. Where end is false, no window that is in sight is long enough: somebody must change it, or override it.",
					query{`sum by (type, end) (max by (job, type, end) (jibe_instances_waiting_for_window))`, "{{type}}, end in sight: {{end}}"}),
				table("Rollouts by phase", "short", "Rollouts that haven't ended, and where each stands.", `max by (rollout, phase) (jibe_rollout_phase)`,
					column{"rollout", "Rollout"}, column{"phase", "Phase"}, column{"Value", "Number"}).wide(columns).high(5),
			}},
			{"Who runs what", []panel{
				bars("Instances by version", "short", "VNF instances in git by product and version of the software that their package has. After 500 series the rest is one, called other.",
					query{`sort_desc(sum by (product, software_version) (max by (job, product, software_version, package_version, vnfd_id) (jibe_desired_instances)))`, "{{product}} {{software_version}}"}).high(6),
				bars("Instances by folder", "short", "VNF instances in git by the first folder below instances/, mostly a site. After 500 folders the rest is one, called other.",
					query{`sort_desc(sum by (folder) (max by (job, folder) (jibe_desired_folder_instances)))`, "{{folder}}"}).high(6),
				table("Packages in use", "short", "VNF instances in git by VNFD: product, version of the software and version of the package.",
					`sort_desc(sum by (product, software_version, package_version, vnfd_id) (max by (job, product, software_version, package_version, vnfd_id) (jibe_desired_instances)))`,
					column{"product", "Product"}, column{"software_version", "Software"}, column{"package_version", "Package"}, column{"vnfd_id", "VNFD"}, column{"Value", "Instances"}).high(6),
				table("VNFCs by project", "short", "VNFCs by the scale levels in git, for each project that has a file under projects/.",
					`sort_desc(sum by (project) (max by (job, project) (jibe_project_vnfcs)))`, column{"project", "Project"}, column{"Value", "VNFCs"}).high(6),
			}},
			{"Which instances", []panel{
				table("Differ from git for longest", "s", "VNF instances that drift, and for how long, by what is done about it (suspended, reported, held: nothing).",
					`topk(20, time() - min by (instance, state) (jibe_drift_since_timestamp_seconds))`, column{"instance", "VNF instance"}, column{"state", "State"}, column{"Value", "Since"}).high(6),
				table("Held for longest", "s", "VNF instances that are held since an operation was failed. The next commit or request lifts it.",
					`topk(20, time() - max by (instance) (jibe_instance_held_since_timestamp_seconds))`, column{"instance", "VNF instance"}, column{"Value", "Held for"}).high(6),
				table("Files that aren't obeyed", "s", "Files at the head of the desired repository that can't be obeyed: what stood before stays in force. jibe get problems says why.",
					`topk(50, time() - min by (file, instance) (jibe_desired_problem_since_timestamp_seconds))`,
					column{"file", "File"}, column{"instance", "VNF instance"}, column{"Value", "Since"}).wide(columns).high(5),
			}},
		},
	}
}

// instance answers: what is wrong with this one?
func instance() dashboard {
	return dashboard{
		UID: "jibe-instance", Title: "Jibe / One instance", Range: "6h",
		Description: "One VNF instance: what of it differs from git and who did it, whether it is held, whether its file is obeyed.",
		Vars: []variable{{"instance", "VNF instance",
			`label_values({__name__=~"jibe_(drift|instance_held|desired_problem)_since_timestamp_seconds", job=~"$job", instance!=""}, instance)`, false}},
		Rows: []row{
			{"$instance", []panel{
				stat("Fields that differ", "short", above(1, yellow), `count(min by (job, object, field, by, state) (jibe_drift_since_timestamp_seconds{instance="$instance"})) or vector(0)`, "Fields of its objects at the VIM that differ from git."),
				stat("Differs for", "s", above(300, red), `time() - min(jibe_drift_since_timestamp_seconds{instance="$instance"}) or vector(0)`, "How long the oldest of them has differed."),
				stat("Held for", "s", above(1, yellow), `time() - max(jibe_instance_held_since_timestamp_seconds{instance="$instance"}) or vector(0)`,
					"How long it has been held for an operation that was failed; 0 where it isn't. The next commit or request lifts it."),
				stat("Not obeyed for", "s", above(1, red), `time() - min(jibe_desired_problem_since_timestamp_seconds{instance="$instance"}) or vector(0)`,
					"How long its file in git hasn't been obeyed; 0 where it is."),
				{Kind: "text", Title: "More of it", W: 8, H: 4, Text: "Metrics tell of an instance only while something is out of the ordinary, so that their number stays bounded: the list above has no others.\n\n" +
					"`jibe get instances`, `jibe get operations`, `jibe get drift` and the page `/ui/instances/$instance` tell the rest."},
			}},
			{"What differs", []panel{
				table("Fields that differ from git", "s", "Each field, who wrote it last as the VIM says, what is done about it, and since when it differs.",
					`sort_desc(time() - min by (object, field, by, state) (jibe_drift_since_timestamp_seconds{instance="$instance"}))`,
					column{"object", "Object"}, column{"field", "Field"}, column{"by", "Written by"}, column{"state", "State"}, column{"Value", "Since"}).wide(columns).high(6),
				graph("Fields that differ", "short", "How many fields differed, by who wrote them. A line that comes and goes is a fight.",
					query{`count by (by) (min by (job, object, field, by, state) (jibe_drift_since_timestamp_seconds{instance="$instance"}))`, "{{by}}"}),
				graph("Repairs in the fleet", "cps", "Objects that were put right, by kind, in all instances: is this one alone?",
					query{`sum by (kind) (rate(jibe_drift_repairs_total[$__rate_interval]))`, "{{kind}}"}),
				table("Its file in git", "s", "Where its file isn't obeyed, and since when.",
					`time() - min by (file) (jibe_desired_problem_since_timestamp_seconds{instance="$instance"})`, column{"file", "File"}, column{"Value", "Not obeyed for"}).wide(columns).high(5),
			}},
		},
	}
}
