package process_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

// broken says whether a span is marked as failed.
func broken(s seenSpan) bool { return s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR }

// within returns the spans of a name that belong to one of the other, and fails where one of them
// begins before that or ends after it.
func within(t *testing.T, spans map[string][]seenSpan, parent, child string) (found []seenSpan) {
	t.Helper()
	for _, p := range spans[parent] {
		for _, s := range spans[child] {
			if string(s.GetParentSpanId()) != string(p.GetSpanId()) {
				continue
			}
			if found = append(found, s); s.GetStartTimeUnixNano() < p.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > p.GetEndTimeUnixNano() {
				t.Errorf("the span %q isn't within the time of its %q", child, parent)
			}
		}
	}
	if len(found) == 0 {
		t.Errorf("no span %q belongs to a span %q", child, parent)
	}
	return found
}

// credentials are the secrets in a kubeconfig, as they stand there and as they are.
func credentials(t *testing.T, kubeconfig string) (list []string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err == nil {
		err = clientcmdapi.FlattenConfig(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		for _, text := range []string{user.Token, user.Password, string(user.ClientKeyData)} {
			if text != "" {
				list = append(list, base64.StdEncoding.EncodeToString([]byte(text)))
				// A span is shown with its line breaks escaped.
				list = append(list, slices.MaxFunc(strings.Split(text, "\n"), func(a, b string) int { return len(a) - len(b) }))
			}
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no credentials, so that none can be shown", kubeconfig)
	}
	return list
}

// exemplar is what a histogram of the text names as its trace.
var exemplar = regexp.MustCompile(`(?m)^jibe_lcm_operation_duration_seconds_bucket\{.* # \{.*trace_id="([0-9a-f]{32})"`)

func TestTheTraceOfAnOperationHasItsRequestsToTheClusterAndMarksThoseThatFailed(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	kubeconfig := kubeenv.Kubeconfig(t)
	c := newCollector(t)
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("Authorization: "+collectorToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, filepath.Join(process.ShortTempDir(t), "data"), "--otlp-endpoint", c.URL, "--otlp-headers-file", headers)
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	s.PushFiles(t, map[string]string{"vims/test.yaml": s.Keep(t, "type: kubernetes\ndefault: true\nkubeconfig: file:"+kubeconfig+"\n")})
	const password = "pa55word-of-the-callback"
	s.Want(t, http.StatusCreated, http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": c.URL + "/callback",
		"authentication": map[string]any{"authType": []string{"BASIC"}, "paramsBasic": map[string]any{"userName": "nfvo", "password": password}}}, nil)
	const root = "operation INSTANTIATE"
	all := []string{root, "attempt", "observe", "plan", "do", "step apply", "phase apply", "VIM PATCH", "notification"}
	// ended holds the trace of an operation that was completed, which began with a span of this name.
	ended := func(op, began string) {
		t.Helper()
		s.Await(t, op, "COMPLETED")
		spans := c.whole(t, traceOf(op), append([]string{began}, all...)...)
		below(t, spans, "", root)
		below(t, spans, root, began, "attempt", "notification")
		below(t, spans, "attempt", "do", "phase apply")
		within(t, spans, "do", "VIM PATCH")
		within(t, spans, "attempt", "do")
		within(t, spans, root, "attempt")
		for name, list := range spans {
			for _, one := range list {
				if broken(one) && name != "VIM GET" { // what isn't there yet is looked for
					t.Errorf("of an operation that was completed the span %q is marked as failed: %s", name, one)
				}
				if strings.HasPrefix(name, "VIM ") && (attribute(one.GetAttributes(), "jibe.vim") != "test" || one.GetKind() != tracepb.Span_SPAN_KIND_CLIENT) {
					t.Errorf("a request to the VIM is shown as %s", one)
				}
			}
		}
	}

	id := s.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": "asked"}, nil).ID()
	asked := s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+id+"/instantiate", map[string]any{"flavourId": "simple",
		"additionalParams": map[string]any{"lcm-kubernetes-def-files": process.SmallManifests(), "namespace": kubeenv.Namespace(t, kubeconfig)}}, nil).ID()
	ended(asked, "request")
	below(t, c.whole(t, traceOf(asked), "commit"), "request", "commit")

	file := func(dir, namespace string) map[string]string {
		return map[string]string{dir + "/vnf.yaml": fmt.Sprintf("id: %s\nname: pushed\nvnfdId: %s\nstate: instantiated\nflavour: simple\nparams: {lcm-kubernetes-def-files: [%s], namespace: %s}\n",
			desired.DeriveID(dir), process.SmallVnfd, strings.Join(process.SmallManifests(), ", "), namespace)}
	}
	s.PushFiles(t, file("instances/pushed", kubeenv.Namespace(t, kubeconfig)))
	pushed := begunFor(t, s, "instances/pushed")
	ended(pushed, "push")

	// One that the cluster refuses: there is no such namespace.
	s.PushFiles(t, file("instances/refused", "there-is-no-such-namespace"))
	refused := begunFor(t, s, "instances/refused")
	s.Await(t, refused, "ROLLED_BACK")
	spans := c.whole(t, traceOf(refused), root, "push", "starting", "VIM PATCH")
	for _, name := range []string{root, "starting", "VIM PATCH"} {
		if !slices.ContainsFunc(spans[name], broken) {
			t.Errorf("of an operation that was refused no span %q is marked as failed", name)
		}
	}

	shown := s.Want(t, http.StatusOK, http.MethodGet, "/metrics", nil, nil, "Accept", "application/openmetrics-text; version=1.0.0").Body
	var named []string
	for _, found := range exemplar.FindAllStringSubmatch(string(shown), -1) {
		named = append(named, found[1])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, trace := range named {
		if len(c.traces[trace]) == 0 {
			t.Errorf("an exemplar names the trace %s, which the collector doesn't have", trace)
		}
	}
	if !slices.Contains(named, traceOf(refused)) || !slices.Contains(named, traceOf(asked)) && !slices.Contains(named, traceOf(pushed)) {
		t.Errorf("exemplars name the traces %q, and the operations were %s, %s and %s", named, asked, pushed, refused)
	}
	if len(c.wrong) > 0 {
		t.Errorf("the collector was sent %q", c.wrong)
	}
	for _, secret := range append(credentials(t, kubeconfig), s.Token, password, collectorToken) {
		for id, spans := range c.traces {
			if i := slices.IndexFunc(spans, func(one seenSpan) bool { return strings.Contains(one.String(), secret) }); i >= 0 {
				t.Errorf("trace %s shows a secret in the span %q", id, spans[i].GetName())
			}
		}
	}
}

// begunFor waits for the first operation of the instance in a folder, and returns its id.
func begunFor(t *testing.T, s *process.Server, dir string) (id string) {
	t.Helper()
	kit.Eventually(t, func() error {
		ops, err := process.All[process.Operation](t.Context(), s, process.Operations+"?filter=(eq,vnfInstanceId,"+desired.DeriveID(dir)+")")
		if err == nil && len(ops) == 0 {
			err = fmt.Errorf("no operation of %s has begun", dir)
		}
		if err != nil {
			return err
		}
		id = ops[0].ID
		return nil
	})
	return id
}
