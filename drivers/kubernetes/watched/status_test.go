package watched

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

func TestStatusIsReadyWaitingOrFailed(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	owned := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: u, controller: true}]}\n"
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, generation: 2}\nspec: {replicas: 1, progressDeadlineSeconds: 600}\n"
	for _, c := range []struct {
		name, object    string
		ready           bool
		reason, failure string // parts
	}{
		{"running and ready", pod + "status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", true, "", ""},
		{"changed in place, not noted", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, generation: 2}\nstatus: {observedGeneration: 1, phase: Running, conditions: [{type: Ready, status: 'True'}]}", false, "hasn't taken note", ""},
		{"changed in place, noted", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, generation: 2}\nstatus: {observedGeneration: 2, phase: Running, conditions: [{type: Ready, status: 'True'}]}", true, "", ""},
		{"changed in place, of a kubelet that doesn't tell", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, generation: 2}\nstatus: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", true, "", ""},
		{"running, not ready", pod + "status: {phase: Running, conditions: [{type: Ready, status: 'False', message: 'containers with unready status: [c]'}]}", false, "unready status", ""},
		{"new", pod, false, "pod is new", ""},
		{"unschedulable", pod + "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available'}]}", false, "0/3 nodes", ""},
		{"creating", pod + "status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]}", false, "Pending", ""},
		{"no image", pod + "status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: ErrImagePull, message: not found}}}]}", false, "container c: ErrImagePull: not found", "ErrImagePull"},
		{"bad config", pod + "status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: CreateContainerConfigError, message: 'configmap \"x\" not found'}}}]}", false, "", `configmap "x" not found`},
		{"crash loop", pod + "status: {phase: Running, containerStatuses: [{name: c, lastState: {terminated: {exitCode: 3}}, state: {waiting: {reason: CrashLoopBackOff}}}]}", false, "", "exit code 3"},
		{"crash loop of an init container", pod + "status: {phase: Pending, initContainerStatuses: [{name: i, state: {waiting: {reason: CrashLoopBackOff}}}]}", false, "", "container i"},
		{"just ended", pod + "status: {phase: Running, containerStatuses: [{name: c, state: {terminated: {exitCode: 1}}}]}", false, "exit code 1", ""},
		{"bare and failed", pod + "status: {phase: Failed, reason: Evicted, message: disk pressure}", false, "Evicted: disk pressure", "Evicted"},
		{"failed, to be replaced", owned + "status: {phase: Failed, reason: Evicted}", false, "Evicted", ""},
		{"succeeded", pod + "status: {phase: Succeeded}", true, "", ""},
		{"leaving", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a.b/c]}\nstatus: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", false, "finalizer a.b/c", ""},
		{"available", deployment + "status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}", true, "", ""},
		{"not observed yet", deployment + "status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}", false, "", ""},
		{"yesterday's failure", deployment + "status: {observedGeneration: 1, conditions: [{type: ReplicaFailure, status: 'True', message: exceeded quota}]}", false, "", ""},
		{"quota", deployment + "status: {observedGeneration: 2, conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]}", false, "exceeded quota", "exceeded quota"},
		{"quota, when old pods still run", deployment + "status: {observedGeneration: 2, replicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]}", false, "exceeded quota", "exceeded quota"},
		{"quota, for a size that was taken back", deployment + "status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]}", false, "Available: 0/1", ""},
		{"deadline", deployment + "status: {observedGeneration: 2, replicas: 1, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: timed out}]}", false, "", "timed out"},
		{"DaemonSet that is being updated", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d, generation: 2}\nstatus: {observedGeneration: 2, desiredNumberScheduled: 1, currentNumberScheduled: 1, numberAvailable: 1, numberReady: 1}", false, "Updated: 0/1", ""},
		{"DaemonSet that somebody has to update", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d, generation: 2}\nspec: {updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 2, desiredNumberScheduled: 1, currentNumberScheduled: 1, numberAvailable: 1, numberReady: 1}", true, "", ""},
		{"job running", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nstatus: {active: 1}", false, "hasn't completed", ""},
		{"job done", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nstatus: {conditions: [{type: Complete, status: 'True'}]}", true, "", ""},
		{"job failed", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nstatus: {conditions: [{type: Failed, status: 'True', message: backoff limit}]}", false, "", "backoff limit"},
		{"claim pending", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nstatus: {phase: Pending}", false, "not bound", ""},
		{"claim bound", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nstatus: {phase: Bound}", true, "", ""},
		{"volume available", "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nstatus: {phase: Available}", true, "", ""},
		{"namespace terminating", "apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\nstatus: {phase: Terminating}", false, "Terminating", ""},
		{"API unavailable", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}\nstatus: {conditions: [{type: Available, status: 'False', message: no endpoints}]}", false, "no endpoints", ""},
		{"custom resource that says no", "apiVersion: example.com/v1\nkind: Radio\nmetadata: {name: r}\nstatus: {conditions: [{type: Ready, status: 'False', message: tuning}]}", false, "tuning", ""},
		{"job suspended", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {suspend: true}\nstatus: {conditions: [{type: Suspended, status: 'True'}]}", true, "", ""},
		{"job that may run no pod", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 0}", true, "", ""},
		{"cron job suspended", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c, generation: 1}\nspec: {suspend: true}", true, "", ""},
		{"cron job that never ran", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c, generation: 1}\nstatus: {}", true, "", ""},
		{"autoscaler without metrics", "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nstatus: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False', reason: FailedGetResourceMetric}]}", true, "", ""},
		{"autoscaler of what is stopped", "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nstatus: {conditions: [{type: ScalingActive, status: 'False', reason: ScalingDisabled}]}", true, "", ""},
		{"budget that permits no disruption", "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b, generation: 1}\nspec: {minAvailable: 1}\nstatus: {observedGeneration: 1, disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 1, expectedPods: 0, conditions: [{type: DisruptionAllowed, status: 'False', reason: InsufficientPods}]}", true, "", ""},
		{"service without a load balancer's address", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: LoadBalancer, clusterIP: 10.0.0.1}\nstatus: {loadBalancer: {}}", true, "", ""},
		{"service of another name", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: ExternalName, externalName: a.example}", true, "", ""},
		{"ingress without an address", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, generation: 1}\nstatus: {loadBalancer: {}}", true, "", ""},
		{"DaemonSet that fits no node", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d, generation: 1}\nstatus: {observedGeneration: 1, currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, numberReady: 0}", true, "", ""},
		{"StatefulSet without pods", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s, generation: 1}\nspec: {replicas: 0}\nstatus: {observedGeneration: 1, replicas: 0, availableReplicas: 0, currentRevision: a, updateRevision: a}", true, "", ""},
		{"StatefulSet that keeps some by its partition", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s, generation: 2}\nspec: {replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}\nstatus: {observedGeneration: 2, replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: b}", true, "", ""},
		{"storage class", "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: s}\nprovisioner: p", true, "", ""},
		{"priority of requests whose level is missing", "apiVersion: flowcontrol.apiserver.k8s.io/v1\nkind: FlowSchema\nmetadata: {name: f, generation: 1}\nstatus: {conditions: [{type: Dangling, status: 'True'}]}", true, "", ""},
		{"webhook", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w, generation: 1}", true, "", ""},
		{"admission policy not type-checked", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: w, generation: 1}\nstatus: {}", true, "", ""},
		{"custom resource that an autoscaler's operator lets rest", "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: s, generation: 1}\nstatus: {conditions: [{type: Ready, status: 'True'}, {type: Active, status: 'False'}, {type: Paused, status: 'True'}]}", true, "", ""},
		{"custom resource without an operator", "apiVersion: example.com/v1\nkind: Radio\nmetadata: {name: r, generation: 1}", true, "", ""},
		{"plain object", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}", true, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := sample.Object(t, c.object)
			f := FactOf("", u.GroupVersionKind().GroupKind(), u)
			if f.ready != c.ready || !strings.Contains(f.Reason, c.reason) || !strings.Contains(f.failure, c.failure) || (c.failure == "") != (f.failure == "") {
				t.Errorf("ready %v, reason %q, failure %q; want %v, …%q…, …%q…", f.ready, f.Reason, f.failure, c.ready, c.reason, c.failure)
			}
			if f.ready && f.Reason+f.failure != "" {
				t.Errorf("ready, and yet: %q %q", f.Reason, f.failure)
			}
		})
	}
}
