package chart

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/nodes"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// One node for all that is asserted: to start it takes most of the time. Each part goes on from
// where the one before it has left the release.
func TestTheChartRunsVNFsOfRealPodsOnARealNodeAndKeepsAllOverUpgradeAndRollback(t *testing.T) {
	s := newSite(t)
	s.volume("jibe")
	s.parts([]part{
		{"HelmInstallsItAndItIsReady", (*site).install},
		{"ItIsReachedAsTheNotesSay", (*site).notes},
		{"ItHasTheRightsThatTheValuesSayAndNoOthers", (*site).rights},
		{"HelmTestTakesAVNFThroughItsLife", (*site).test},
		{"AVNFIsInstantiatedByAPushToTheService", (*site).instantiate},
		{"ItIsScaledByAPush", (*site).scale},
		{"AVNFCIsHealed", (*site).heal},
		{"AnotherPackageReplacesItsPods", (*site).upgradeVNF},
		{"HelmUpgradeAndRollbackKeepAll", (*site).upgradeAndRollback},
		{"ItIsTerminatedAfterThat", (*site).terminate},
		{"TheVolumeOutlivesTheRelease", (*site).reinstall},
		{"ItsAPIServerTakesWhatIsOfKindsOfOthers", (*site).foreign},
	})
}

func TestTheChartRunsReplicasOnARealNodeOfWhichNoneIsMissedWhenItIsReplaced(t *testing.T) {
	testenv.Chaos(t, "machines")
	s := newSite(t)
	s.replicated().parts([]part{
		{"ThreeReplicasAreInstalled", (*site).installReplicas},
		{"HelmTestTakesAVNFOfPackagesThatAreThereThroughItsLife", (*site).test},
		{"AVNFIsInstantiatedScaledAndHealedByRequestsToTheirService", (*site).liveAtReplicas},
		{"WhatAReplicaWasDoingIsCarriedOnWhenItsPodIsDeleted", (*site).takeOver},
		{"HelmUpgradeReplacesAllThreeAndNoRequestFails", (*site).rollReplicas},
		{"AnUpgradeThatCannotStartLeavesTwoServingAndIsRolledBack", (*site).breakReplicas},
		{"NothingThatWasAnsweredIsLost", (*site).endAtReplicas},
	})
}

// newSite is a node, with an image of this tree, on which no release is installed yet.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, release: release, namespace: namespace, vnfs: vnfs, helm: helm(t), env: environment(t), binary: process.Binary(t), jibe: process.Environment(), dir: t.TempDir()}
	s.Cluster = nodes.Start(t, "10.207.4.0/24", nodes.Options{Images: []string{"local/web:1.0", "local/web:2.0"}})
	s.env = append(s.env, "KUBECONFIG="+s.Kubeconfig)
	s.image()
	return s
}

// part is one of a test that goes on from where the one before it has left the release.
type part struct {
	name string
	do   func(*site)
}

// parts does them one after the other; the test ends with the first that fails.
func (s *site) parts(all []part) {
	t, began := s.T, time.Now()
	defer func() { s.T = t }()
	for _, p := range all {
		if !t.Run(p.name, func(t *testing.T) {
			since := time.Now()
			s.T = t
			p.do(s)
			t.Logf("%v", time.Since(since).Round(100*time.Millisecond))
		}) {
			s.T = t
			s.tell()
			t.FailNow()
		}
	}
	t.Logf("on the node, release %s: %v", s.release, time.Since(began).Round(time.Second))
}

func (s *site) install() {
	s.do("install", s.release, chartDir(), "--create-namespace", "--wait", "--timeout", "5m",
		"--set", "image.tag="+tag, "--set", "persistence.storageClass=-", "--set", "service.type=NodePort",
		"--set", "tls.names={"+s.Master.Addr().String()+"}", "--set", "hooks.allow={packages}", "--set", "podDisruptionBudget.enabled=true", "--set", "networkPolicy.enabled=true")
	s.connect()
	if out := s.client("get", "instances"); strings.Contains(out, "smoke") {
		s.Errorf("a new installation has instances: %s", out)
	}
}

func (s *site) test() {
	s.Log(s.do("test", s.release, "--timeout", "5m", "--logs"))
}

func (s *site) instantiate() {
	s.push("packages/packages.git", s.packages())
	kit.Eventually(s, func() error {
		if out := s.client("get", "packages"); !strings.Contains(out, vnfds[0]) || !strings.Contains(out, vnfds[1]) {
			return fmt.Errorf("the packages are: %s", out)
		}
		return nil
	})
	s.push("desired.git", map[string]*string{vnfFile: s.vnf(0)})
	s.runs(1, "1.0")
	s.settled()
}

func (s *site) scale() {
	s.push("desired.git", map[string]*string{vnfFile: s.vnf(2)})
	s.runs(3, "1.0")
	s.settled()
}

func (s *site) heal() {
	before := s.runs(3, "1.0")
	pods, err := s.Client.CoreV1().Pods(s.vnfs).List(s.Context(), metav1.ListOptions{LabelSelector: "app=vdu1"})
	if err != nil {
		s.Fatal(err)
	}
	victim := pods.Items[0]
	s.client("heal", "web", victim.Name, "--wait")
	after := s.runs(3, "1.0")
	if slices.Contains(after, string(victim.UID)) {
		s.Errorf("pod %s lives still: %v, was %v", victim.UID, after, before)
	}
	kept := slices.DeleteFunc(slices.Clone(before), func(uid string) bool { return !slices.Contains(after, uid) })
	if len(kept) != 2 {
		s.Errorf("of %v are left %v: the others were to stay", before, after)
	}
}

func (s *site) upgradeVNF() {
	s.client("upgrade", "web", vnfds[1], "--strategy", "rolling", "--wait")
	s.runs(3, "2.0")
	s.settled()
}

// kept is all that must outlive whatever is done to the release.
type kept struct {
	Instances  string
	Operations []string
	Pods       []string
	Tokens     map[string][]byte
	TLS        map[string][]byte
	Claim      string
}

func (s *site) all() kept {
	s.Helper()
	claim, err := s.Client.CoreV1().PersistentVolumeClaims(s.namespace).Get(s.Context(), "data-"+s.release+"-0", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return kept{
		Instances: s.client("get", "instances", "-o", "json"), Operations: s.operations(), Pods: s.runs(3, "2.0"),
		Tokens: s.secret(s.release + "-tokens"), TLS: s.secret(s.release + "-tls"), Claim: string(claim.UID),
	}
}

func (s *site) upgradeAndRollback() {
	before, pod := s.all(), s.pod()
	for _, args := range [][]string{
		{"upgrade", s.release, chartDir(), "--reset-then-reuse-values", "--set", "log.level=debug", "--wait", "--timeout", "5m"},
		{"rollback", s.release, "1", "--wait", "--timeout", "5m"},
	} {
		s.do(args...)
		kit.Eventually(s, func() error {
			_, err := run(s.Context(), s.jibe, "", s.binary, "get", "instances")
			return err
		})
		next := s.pod()
		if next == pod {
			s.Errorf("helm %s has left the pod as it was", args[0])
		}
		pod = next
		if after := s.all(); !reflect.DeepEqual(before, after) {
			s.Errorf("helm %s changed what was to stay (Secrets aside):\n%s %v %v %s\nwas\n%s %v %v %s", args[0],
				after.Instances, after.Operations, after.Pods, after.Claim, before.Instances, before.Operations, before.Pods, before.Claim)
		}
	}
}

func (s *site) terminate() {
	s.push("desired.git", map[string]*string{vnfFile: nil})
	s.gone()
}

// gone waits until the VNF has no pod, and all operations are done.
func (s *site) gone() {
	s.Helper()
	kit.Eventually(s, func() error {
		pods, err := s.Client.CoreV1().Pods(s.vnfs).List(s.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods.Items))
		}
		return err
	})
	s.settled()
}

func (s *site) reinstall() {
	before := s.operations()
	s.do("uninstall", s.release, "--wait", "--timeout", "5m")
	if _, err := s.Client.CoreV1().Namespaces().Get(s.Context(), s.vnfs, metav1.GetOptions{}); err != nil {
		s.Errorf("the namespace of the VNFs has gone with the release: %v", err)
	}
	if _, err := s.Client.CoreV1().Secrets(s.namespace).Get(s.Context(), s.release+"-tokens", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		s.Errorf("the tokens that the chart made outlive it: %v", err)
	}
	s.install()
	if after := s.operations(); !slices.Equal(before, after) {
		s.Errorf("a new release on the same volume has the operations %v, was %v", after, before)
	}
}
