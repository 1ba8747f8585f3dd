package kubeenv

import (
	"regexp"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestNamespaceNamesAreDNSLabelsAndUnique(t *testing.T) {
	label := regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	for _, test := range []string{
		"TestX", "TestScale/in_keeps/claims", "Testé世界", "FuzzA",
		"TestAVeryLongNameThatSaysWhatItProvesInAWholeSentenceAndThenGoesOnForLongerThanALabelMay",
	} {
		a, b := namespaceName(test), namespaceName(test)
		if !label.MatchString(a) {
			t.Errorf("%q gives %q, not a DNS label", test, a)
		}
		if a == b {
			t.Errorf("%q gives %q twice", test, a)
		}
	}
}

func TestMissingClusterSkipsUnlessRequired(t *testing.T) {
	for _, test := range []struct {
		name, kubeconfig, require string
		skipped, failed           bool
	}{
		{name: "no cluster", skipped: true},
		{name: "no cluster, required", require: "1", failed: true},
		{name: "cluster", kubeconfig: "/some/file"},
		{name: "cluster, required", kubeconfig: "/some/file", require: "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(EnvKubeconfig, test.kubeconfig)
			t.Setenv(testenv.EnvRequire, test.require)
			r := &kit.Recorder{TB: t}
			if got := Kubeconfig(r); got != test.kubeconfig {
				t.Errorf("Kubeconfig is %q, want %q", got, test.kubeconfig)
			}
			if skipped, failed := r.Ended(); skipped != test.skipped || failed != test.failed {
				t.Errorf("skipped %v, failed %v; want %v, %v", skipped, failed, test.skipped, test.failed)
			}
		})
	}
}

func TestFreshNamespaceAdmitsPods(t *testing.T) {
	namespace := Namespace(t, Kubeconfig(t))
	client, err := kubernetes.NewForConfig(RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.org/c"}}},
	}
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create pod: %v", err)
	}
}
