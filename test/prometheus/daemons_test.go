package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// daemon runs a program until the test ends, and shows the end of its log if it failed.
func daemon(t *testing.T, program string, args ...string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), filepath.Base(program)+".log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()         // killed
		file.Close()
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("the end of the log of %s:\n%s", filepath.Base(program), text[max(0, len(text)-4<<10):])
		}
	})
}

// target is an installation that is scraped: its only process, or its replicas.
type target struct {
	job     string
	servers []*process.Server
}

func at(job string, servers ...*process.Server) target { return target{job, servers} }

// prometheus is Debian's, with the rules of the chart in a hurry, and an Alertmanager that tells
// the receiver.
type prometheus struct {
	url     string
	started time.Time
	alerts  *receiver
}

// startPrometheus scrapes the targets, and evaluates the rules in a folder.
func startPrometheus(t *testing.T, rules string, targets ...target) *prometheus {
	t.Helper()
	server, manager := testenv.Program(t, "prometheus", "prometheus"), testenv.Program(t, "prometheus-alertmanager", "prometheus-alertmanager")
	dir := t.TempDir()
	p := &prometheus{url: "http://" + kit.Free(t), started: time.Now(), alerts: newReceiver(t)}
	alertmanager := kit.Free(t)
	write(t, filepath.Join(dir, "alertmanager.yml"), fmt.Sprintf(`route: {receiver: test, group_by: ['...'], group_wait: 100ms, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: test, webhook_configs: [{url: %q, send_resolved: true}]}]
`, p.alerts.URL))
	var jobs strings.Builder
	for _, x := range targets {
		for i, s := range x.servers { // each has a token of its own
			u, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s-%d", x.job, i)
			write(t, filepath.Join(dir, name+".token"), s.Token)
			fmt.Fprintf(&jobs, "- {job_name: %s, honor_labels: true, scheme: %s, tls_config: {insecure_skip_verify: true}, authorization: {credentials_file: %q}, static_configs: [{targets: [%q], labels: {job: %s}}]}\n",
				name, u.Scheme, filepath.Join(dir, name+".token"), u.Host, x.job)
		}
	}
	write(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs:
%s`, filepath.Join(rules, "*.yaml"), alertmanager, jobs.String()))
	daemon(t, manager, "--config.file="+filepath.Join(dir, "alertmanager.yml"), "--storage.path="+filepath.Join(dir, "alerts"),
		"--web.listen-address="+alertmanager, "--cluster.listen-address=")
	daemon(t, server, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+strings.TrimPrefix(p.url, "http://"), "--enable-feature=exemplar-storage", "--log.level=warn")
	kit.Eventually(t, func() error {
		for _, ready := range []string{p.url, "http://" + alertmanager} {
			resp, err := http.Get(ready + "/-/ready")
			if err != nil {
				return err
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s is %s", ready, resp.Status)
			}
		}
		return nil
	})
	return p
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// series is one of an answer: its labels, and its values (one of an instant query).
type series struct {
	Metric map[string]string
	Value  [2]any
	Values [][2]any
}

// numbers are the values that are numbers.
func (s series) numbers() int {
	n := 0
	for _, v := range append(s.Values, s.Value) {
		if text, ok := v[1].(string); ok && text != "NaN" {
			n++
		}
	}
	return n
}

// get decodes the answer of one of Prometheus' APIs.
func (p *prometheus) get(ctx context.Context, api string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/"+api, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s: %w: %s", api, err, text)
	}
	return nil
}

// ask is the answer of one of Prometheus' query APIs.
func (p *prometheus) ask(ctx context.Context, api string, params url.Values) ([]series, error) {
	var answer struct {
		Status, Error string
		Warnings      []string
		Data          struct{ Result json.RawMessage }
	}
	if err := p.get(ctx, api+"?"+params.Encode(), &answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" || len(answer.Warnings) > 0 {
		return nil, fmt.Errorf("%s%v", answer.Error, answer.Warnings)
	}
	var list []series
	if err := json.Unmarshal(answer.Data.Result, &list); err != nil {
		return nil, fmt.Errorf("%w in %s", err, answer.Data.Result)
	}
	return list, nil
}

// now is the answer to an instant query.
func (p *prometheus) now(ctx context.Context, expr string) ([]series, error) {
	return p.ask(ctx, "query", url.Values{"query": {expr}})
}

// sofar is the answer to a query over the whole run.
func (p *prometheus) sofar(ctx context.Context, expr string) ([]series, error) {
	return p.ask(ctx, "query_range", url.Values{"query": {expr}, "step": {"1s"},
		"start": {fmt.Sprint(p.started.Unix())}, "end": {fmt.Sprint(time.Now().Unix())}})
}

// until waits for an instant query to be answered with something.
func (p *prometheus) until(t *testing.T, expr string) {
	t.Helper()
	kit.Eventually(t, func() error {
		list, err := p.now(t.Context(), expr)
		if err == nil && len(list) == 0 {
			err = errors.New("it has no answer")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", expr, err)
		}
		return nil
	})
}

// receiver is where the Alertmanager sends alerts.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]map[string]received // by name, then by its labels
}

// received is what was told of one alert.
type received struct {
	status  string // firing, resolved
	fired   bool
	alert   alert
	changed time.Time
}

// alert is an alert as the Alertmanager sends it.
type alert struct {
	Status              string
	Labels, Annotations map[string]string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{seen: map[string]map[string]received{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var body struct{ Alerts []alert }
		if err := json.NewDecoder(q.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, a := range body.Alerts {
			name := a.Labels["alertname"]
			if r.seen[name] == nil {
				r.seen[name] = map[string]received{}
			}
			key := fmt.Sprint(a.Labels) // printed in the order of the keys
			was := r.seen[name][key]
			r.seen[name][key] = received{a.Status, was.fired || a.Status == "firing", a, time.Now()}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// fired returns an error unless each of the alerts was received firing at some time.
func (r *receiver) fired(names ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []string
	for _, n := range names {
		if !slices.ContainsFunc(slices.Collect(maps.Values(r.seen[n])), func(x received) bool { return x.fired }) {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not received: %s", strings.Join(missing, ", "))
	}
	return nil
}

// resolved returns an error while one of the alerts fires, as far as was received.
func (r *receiver) resolved(names ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var firing []string
	for _, n := range names {
		for _, x := range r.seen[n] {
			if x.status != "resolved" {
				firing = append(firing, fmt.Sprintf("%s %v: %s", n, x.alert.Labels, x.alert.Annotations["summary"]))
			}
		}
	}
	if len(firing) > 0 {
		slices.Sort(firing)
		return fmt.Errorf("still firing:\n%s", strings.Join(firing, "\n"))
	}
	return nil
}
