package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestAContendedRepairIsOneOperationThatNamesTheOtherManagerAndEndsWithIt(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual)
	id, _, _ := b.pushed(twins, "")
	var undone atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // a controller that has its own idea of the data
		defer close(stopped)
		maps := b.api.CoreV1().ConfigMaps(b.namespace)
		for {
			select {
			case <-stop:
				return
			case <-b.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			c, err := maps.Get(b.Context(), "settings", metav1.GetOptions{})
			if err != nil || c.Data["mode"] == "slow" {
				continue
			}
			if _, err := maps.Patch(b.Context(), "settings", types.MergePatchType, []byte(`{"data":{"mode":"slow"}}`), metav1.PatchOptions{FieldManager: "stubborn-operator"}); err == nil {
				undone.Add(1)
			}
		}
	}()
	var op object
	kit.Eventually(t, func() error {
		ops := b.history(t, id)
		if op = ops[len(ops)-1]; op.text("operationState") != "FAILED_TEMP" {
			return fmt.Errorf("the last of %d operations is %s %s", len(ops), op.text("operation"), op.text("operationState"))
		}
		return nil
	})
	b.says(op, "ConfigMap/"+b.namespace+"/settings", "data.mode", "stubborn-operator")
	b.drifted(id, "ConfigMap/"+b.namespace+"/settings", "fight")
	kit.Eventually(t, func() error { // it is tried again now and then, and then looks like any other repair
		if out, _, _ := b.cli(t, "get", "drift"); !strings.Contains(out, "fight") || !strings.Contains(out, "stubborn-operator") {
			return fmt.Errorf("jibe get drift doesn't show who contends: %s", out)
		}
		if text := string(b.must(t, 200, "GET", "/metrics", nil).Body); !strings.Contains(text, "jibe_fights 1") {
			return errors.New("the metric jibe_fights isn't 1")
		}
		return nil
	})
	if n := undone.Load(); n > 20 {
		t.Errorf("it was repaired %d times until a pause was made", n)
	}
	// A request doesn't have to wait for its end.
	b.idle(id, "scale", scale("SCALE_OUT", "back_aspect", 1))
	b.awaitPods(3)
	close(stop)
	<-stopped
	kit.Eventually(t, func() error {
		mode, _, _ := unstructured.NestedString(b.read("ConfigMap/settings").Object, "data", "mode")
		ops := b.history(t, id)
		if last := ops[len(ops)-1]; mode != "fast" || last.text("operationState") != "COMPLETED" {
			return fmt.Errorf("the data is %s, the last of %d operations is %s %s", mode, len(ops), last.text("operation"), last.text("operationState"))
		}
		return nil
	})
	b.undrifted(id)
	if n := len(b.history(t, id)); n > 20 || undone.Load() > 30 {
		t.Errorf("%d operations, %d times undone", n, undone.Load())
	}
}
