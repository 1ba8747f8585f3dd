package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// definition is a CustomResourceDefinition as a module of Go has it, with the module's checksum.
type definition struct{ kind, module, version, sum, file string }

// definitions are those of the kinds of others that the chart may make.
var definitions = []definition{
	{"HTTPRoute", "sigs.k8s.io/gateway-api", "v1.3.0", "h1:q6okN+/UKDATola4JY7zXzx40WO4VISk7i9DIfOvr9M=",
		"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"},
	{"ServiceMonitor", "github.com/prometheus-operator/prometheus-operator", "v0.83.0", "h1:qAKbm+45fqNGcn9sGTa1Ae2TM3KZuYA/uyoD2QKi9+o=",
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"},
	{"PrometheusRule", "github.com/prometheus-operator/prometheus-operator", "v0.83.0", "h1:qAKbm+45fqNGcn9sGTa1Ae2TM3KZuYA/uyoD2QKi9+o=",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
	{"Certificate", "github.com/cert-manager/cert-manager", "v1.18.2", "h1:H2P75ycGcTMauV3gvpkDqLdS3RSXonWF2S49QGA1PZE=",
		"deploy/crds/crd-certificates.yaml"},
}

// template matches a line with what helm would fill in.
var template = regexp.MustCompile(`(?m)^.*\{\{.*\n`)

// read is the definition's text.
func (d definition) read(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", d.module+"@"+d.version)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download %s: %w: %s", d.module, err, out)
	}
	var is struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &is); err != nil {
		return nil, err
	}
	if is.Sum != d.sum {
		return nil, fmt.Errorf("%s %s has the checksum %s, not %s", d.module, d.version, is.Sum, d.sum)
	}
	text, err := os.ReadFile(filepath.Join(is.Dir, d.file))
	// One of them is a helm template, in its labels alone.
	return template.ReplaceAll(text, nil), err
}

// foreign has the API server check what the chart makes of the kinds of others: by their own definitions,
// which only this test's cluster is given.
func (s *site) foreign() {
	for _, d := range definitions {
		text, err := d.read(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		if _, err := s.Master.Run(s.Context(), strings.NewReader(string(text)), "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "apply", "--server-side", "-f", "-"); err != nil {
			s.Fatal(err)
		}
	}
	server := clientOf(s.T, s.Kubeconfig)
	var seen []string
	for _, name := range []string{"monitoring", "gateway", "cert-manager"} {
		for _, obj := range render(s.T, namespace, filepath.Join("testdata", "values", name+".yaml")) {
			if !slices.Contains(foreign, obj.GetKind()) {
				continue
			}
			seen = append(seen, obj.GetKind())
			kit.Eventually(s, func() error { // a definition counts a moment after it is there
				server.mapper.Reset()
				return server.dryRun(s.Context(), obj)
			})
		}
	}
	for _, d := range definitions {
		if !slices.Contains(seen, d.kind) && (d.kind != "PrometheusRule" || rulesAreThere(s)) {
			s.Errorf("no file of values renders a %s: %v", d.kind, seen)
		}
	}
}

// rulesAreThere says whether the chart has alert rules.
func rulesAreThere(s *site) bool {
	files, err := filepath.Glob(filepath.Join(chartDir(), "rules", "*.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	return len(files) > 0
}
