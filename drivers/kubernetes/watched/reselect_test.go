package watched

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
)

// selecting has the stage's Service select by the labels, beside the instance.
func (s *stage) selecting(labels string) {
	s.t.Helper()
	s.brings(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {%s: x}}, spec: {selector: {%s: i, %s}}}", manifest.AnnotationDigest, manifest.LabelInstance, labels))
}

// workload has a Deployment and a pod of it stand, of the generation and with the labels.
func (s *stage) workload(name, generation, labels string) {
	s.t.Helper()
	all := fmt.Sprintf("{%s: i, %s: '%s', %s}", manifest.LabelInstance, manifest.LabelGeneration, generation, labels)
	s.brings(fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, annotations: {%s: x}}, spec: {template: {metadata: {labels: %s}}}}", name, manifest.AnnotationDigest, all))
	s.pod(name+"-a", generation, labels+", pod-template-hash: abc")
}

func (s *stage) pod(name, generation, labels string) {
	s.t.Helper()
	s.brings(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {%s: '%s', %s}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]}}",
		name, manifest.LabelGeneration, generation, labels))
}

// renders has the pods of the Deployment that should stand have the labels, and the author's
// Service select by others.
func (s *stage) renders(labels, authored string) {
	s.t.Helper()
	s.render.Objects = map[string]*unstructured.Unstructured{
		"Deployment/n/web-1": sample.Object(s.t, fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web-1, namespace: 'n'}, spec: {template: {metadata: {labels: {%s: i, %s: '1', %s}}}}}", manifest.LabelInstance, manifest.LabelGeneration, labels)),
		"Service/n/web":      sample.Object(s.t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: 'n'}, spec: {selector: {%s: i, %s: '1', app: web}}}", manifest.LabelInstance, manifest.LabelGeneration)),
	}
	s.render.LeftOut = map[string][]string{"Service/n/web": nil}
	if authored != "" {
		s.render.LeftOut["Service/n/web"] = strings.Split(authored, ",")
	}
}

func TestAServiceSelectsTheSamePodsByTheLabelsThatTellThemFromAllOthers(t *testing.T) {
	generation := func(g string) string { return manifest.LabelGeneration + ": '" + g + "'" }
	const unmarked = "-" + manifest.LabelGeneration
	for name, tt := range map[string]struct {
		selector, old, new string // labels of the Service, of the pods that stand and of those that come
		authored           string // labels by which the author selects besides
		also               func(s *stage)
		want               string // what the selector gains ("k=v") and loses ("-k")
	}{
		"by the author's label": {
			selector: "app: web, version: v1, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v2", want: unmarked,
		},
		"the new pods stand already": {
			selector: "app: web, version: v1, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v2", want: unmarked,
			also: func(s *stage) { s.workload("web-1", "1", "app: web, version: v2") },
		},
		"by names that differ": {
			selector: "app: web, " + generation("0"), old: "app: web", new: "app: web2", want: unmarked,
		},
		"no label differs": {
			selector: "app: web, version: v1, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v1",
		},
		"another label differs than the author selects by": {
			selector: "app: web, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v2",
		},
		"by one that was left out": {
			selector: "app: web, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v2", authored: "version", want: unmarked + " version=v1",
		},
		"by one of two that were left out": {
			selector: "app: web, " + generation("0"), old: "app: web, version: v1, tier: a", new: "app: web, version: v2, tier: a", authored: "tier,version", want: unmarked + " version=v1",
		},
		"two that were left out differ": {
			selector: "app: web, " + generation("0"), old: "app: web, version: v1, tier: a", new: "app: web, version: v2, tier: b", authored: "tier,version",
		},
		"pods of the generation have several values": {
			selector: "app: web, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v2", authored: "version",
			also: func(s *stage) { s.pod("other", "0", "app: web, version: v0") },
		},
		"a pod of a third generation has the labels": {
			selector: "app: web, version: v1, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v2",
			also: func(s *stage) { s.workload("web-7", "7", "app: web, version: v1") },
		},
		"a pod of a third generation that ran to its end has the labels": {
			selector: "app: web, version: v1, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v2", want: unmarked,
			also: func(s *stage) {
				s.brings(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: done, labels: {%s: '7', app: web, version: v1}}, status: {phase: Succeeded}}", manifest.LabelGeneration))
			},
		},
		"a CronJob will make pods with the labels": {
			selector: "app: web, version: v1, " + generation("3"), old: "app: web, version: v1", new: "app: web, version: v2",
			also: func(s *stage) {
				s.brings(fmt.Sprintf("{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, annotations: {%s: x}}, spec: {jobTemplate: {spec: {template: {metadata: {labels: {%s: '0', app: web, version: v1}}}}}}}", manifest.AnnotationDigest, manifest.LabelGeneration))
			},
		},
		"it selects by a pod's name": {
			selector: "app: web, version: v1, " + manifest.LabelPodName + ": web-0, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v2",
		},
		"it selects the desired generation": {
			selector: "app: web, version: v2, " + generation("1"), old: "app: web, version: v1", new: "app: web, version: v2",
		},
		"a script was there": {
			selector: "app: web, version: v2", old: "app: web, version: v1", new: "app: web, version: v2",
			also: func(s *stage) { s.workload("web-1", "1", "app: web, version: v2") },
		},
		"it selects nothing": {
			selector: "app: none, " + generation("0"), old: "app: web, version: v1", new: "app: web, version: v2",
		},
		"unmarked, and other labels come": {
			selector: "app: web, version: v1", old: "app: web, version: v1", new: "app: web, version: v2",
		},
		"unmarked, and the same labels come": {
			selector: "app: web, version: v1", old: "app: web, version: v1", new: "app: web, version: v1", want: manifest.LabelGeneration + "=0",
		},
		"unmarked, and the same labels have come": {
			selector: "app: web, version: v1", old: "app: web, version: v1", new: "app: web, version: v1",
			also: func(s *stage) { s.workload("web-1", "1", "app: web, version: v1") },
		},
		"unmarked, and it selects two generations": {
			selector: "app: web", old: "app: web, version: v1", new: "app: web, version: v1",
			also: func(s *stage) { s.workload("web-7", "7", "app: web, version: v7") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, webService)
			s.renders(tt.new, tt.authored)
			old := "0"
			if strings.Contains(tt.selector, generation("3")) {
				old = "3"
			}
			s.workload("web", old, tt.old)
			s.selecting(tt.selector)
			if tt.also != nil {
				tt.also(s)
			}
			to, due := s.cache.Reselection("i", "Service/n/web", plan.Desired{Generation: "1"}, s.render)
			var got []string
			for _, k := range slices.Sorted(maps.Keys(to.Labels)) {
				if v := to.Labels[k]; v == nil {
					got = append([]string{"-" + k}, got...)
				} else {
					got = append(got, fmt.Sprintf("%s=%v", k, v))
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" || due != (tt.want != "") {
				t.Errorf("due is %v:\n%s", due, diff)
			}
		})
	}
}
