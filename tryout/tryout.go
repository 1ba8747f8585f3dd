// Package tryout lets somebody see Jibe without any cluster: it runs a whole server on the
// simulator, gives it a small fleet, and lets that live.
//
// Everything goes through the doors that people use: pushes and requests of the API. Only what a
// VIM does by itself (pods that die, changes by hand, images that can't be fetched) is done to
// the simulator directly. It is for nothing but trying: nothing of it manages what is real.
package tryout

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// Options are what a person may set. Log is required.
type Options struct {
	// Data is the data directory; "" is a new one that goes at the end.
	Data string
	// Listen is host:port of the API and the page, of the loopback; port 0 picks one.
	Listen string
	// Quiet leaves the fleet alone once it runs.
	Quiet bool
	// Pace is the time between two events of the fleet's life.
	Pace time.Duration
	// Binary is the path of jibe, for the push hook; "" installs none.
	Binary  string
	Version string
	Log     *slog.Logger
	// Ready is called once, when the fleet runs.
	Ready func(At)
}

// At is where everything is.
type At struct {
	URL, Data string
	// Page opens the web page and logs in, once; "" where there is none.
	Page string
	// Instances is how many VNFs run, After how long it took until they did.
	Instances int
	After     time.Duration
}

// ErrOthers is returned for a data directory that isn't one of a tryout: what it manages may be
// real.
var ErrOthers = errors.New("isn't a data directory that jibe try has made")

const (
	// marker is the file that says that a data directory is for trying.
	marker = "tryout"
	// settling is how long a unit of the simulator takes to become ready and to go: long enough
	// that an operation can be watched.
	settling = 1200 * time.Millisecond
	// patience bounds the wait for the fleet.
	patience = 2 * time.Minute
	// attempt bounds one attempt of an operation of the fleet.
	attempt = 20 * time.Second
)

// Run starts everything, lets the fleet live until ctx ends, and ends in order. Where the data
// directory is one of its own, nothing is left of it.
func Run(ctx context.Context, o Options) (err error) {
	begin := time.Now()
	if o.Data == "" {
		dir, err := os.MkdirTemp("", "jibe-try-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		o.Data = filepath.Join(dir, "data")
	}
	if err := claim(o.Data); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "jibe-try-clone-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cloud := sim.NewCloud()
	serving, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- app.Run(ctx, app.Options{
			Data: o.Data, Listen: o.Listen, Branch: "main", Cloud: cloud, Binary: o.Binary, Version: o.Version, Log: o.Log,
			Timeout: attempt, StartTimeout: attempt, Workers: 16, KeepOperations: oplog.DefaultKeep(), Started: "jibe try",
			Ready: func(s *app.Server) { serving <- s.BaseURL },
		})
	}()
	var url string
	select {
	case err := <-ended:
		return err
	case url = <-serving:
	}
	life := &life{Options: o, url: url, cloud: cloud, clone: filepath.Join(work, "fleet")}
	err = life.run(ctx, begin)
	if ctx.Err() != nil {
		err = nil // whatever was under way was cut short by the end
	}
	stop()
	return errors.Join(err, <-ended)
}

// claim refuses a data directory that others have made, and marks a new one.
func claim(data string) error {
	entries, err := os.ReadDir(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(data, marker)); err == nil {
		return nil
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s %w: what runs there may be real; name another folder, or none", data, ErrOthers)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, marker), []byte("This data directory is for trying Jibe: jibe try --data may use it.\n"), 0o600)
}

// people are who works with the fleet, beside the admin of the data directory.
func people() []string { return []string{"ana", "ben", "orchestrator"} }

// hire gives each of the people a token, where they have none.
func (l *life) hire() error {
	file := datadir.TokensFile(l.Data)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var known struct {
		Tokens []map[string]any `yaml:"tokens"`
	}
	if err := yaml.Unmarshal(text, &known); err != nil {
		return fmt.Errorf("%s is no token file", file) // the parser would quote the tokens
	}
	l.tokens = map[string]string{}
	if l.tokens[""], err = auth.LocalToken(datadir.TokensFile(l.Data)); err != nil {
		return err
	}
	for _, t := range known.Tokens {
		l.tokens[fmt.Sprint(t["name"])] = fmt.Sprint(t["token"])
	}
	before := len(known.Tokens)
	for _, name := range people() {
		if l.tokens[name] == "" {
			l.tokens[name] = rand.Text() + rand.Text()
			known.Tokens = append(known.Tokens, map[string]any{"name": name, "role": auth.Admin, "token": l.tokens[name]})
		}
	}
	if len(known.Tokens) == before {
		return nil
	}
	if text, err = yaml.Marshal(known); err != nil {
		return err
	}
	next := file + ".new"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// run seeds the fleet where there is none, waits until it runs, and lets it live.
func (l *life) run(ctx context.Context, begin time.Time) error {
	if err := l.hire(); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	var there []json.RawMessage
	if _, err := l.ask(ctx, "", http.MethodGet, "/jibe/v1/instances", nil, &there); err != nil {
		return err
	}
	if len(there) == 0 {
		if err := l.seed(ctx); err != nil {
			return err
		}
	} else if err := l.checkOut(ctx, l.clone, "desired.git"); err != nil {
		return err
	}
	running, err := l.converged(ctx)
	if err != nil {
		return err
	}
	l.cloud.SetLatency(settling)
	if l.Ready != nil {
		at := At{URL: l.url, Data: l.Data, Instances: running, After: time.Since(begin)}
		if at.Page, err = l.page(ctx); err != nil {
			return err
		}
		l.Ready(at)
	}
	if !l.Quiet {
		l.live(ctx)
	}
	<-ctx.Done()
	return nil
}

// page makes a link that opens the web page and logs in, "" where the server has no page.
func (l *life) page(ctx context.Context) (string, error) {
	var link struct{ Path string }
	_, err := l.ask(ctx, people()[0], http.MethodPost, "/jibe/v1/ui-links", nil, &link)
	var no *refused
	if errors.As(err, &no) || err == nil && link.Path == "" {
		return "", nil
	}
	return l.url + link.Path, err
}

// seed pushes the packages and the fleet, as a person would.
func (l *life) seed(ctx context.Context) error {
	files, err := packages()
	if err != nil {
		return err
	}
	dir := l.clone + "-packages"
	if err := errors.Join(l.checkOut(ctx, dir, "packages/packages.git"), l.write(dir, files), l.push(ctx, dir, "ben", "Bring the packages of the fleet")); err != nil {
		return fmt.Errorf("packages of the fleet: %w", err)
	}
	if err := l.until(ctx, "the packages are known", func() (bool, error) {
		var list []struct{ VnfdID string }
		_, err := l.ask(ctx, "", http.MethodGet, "/jibe/v1/packages", nil, &list)
		return len(list) >= len(products()), err
	}); err != nil {
		return err
	}
	if err := errors.Join(l.checkOut(ctx, l.clone, "desired.git"), l.write(l.clone, desiredFiles()), l.push(ctx, l.clone, "ana", "Open five sites with six VNFs each")); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	return nil
}

// converged waits until no operation is under way that will end by itself, and says how many
// VNFs run.
func (l *life) converged(ctx context.Context) (running int, err error) {
	return running, l.until(ctx, "the fleet runs", func() (bool, error) {
		var instances []struct{ InstantiationState string }
		var open []struct{}
		_, err1 := l.ask(ctx, "", http.MethodGet, "/vnflcm/v2/vnf_instances?exclude_default", nil, &instances)
		_, err2 := l.ask(ctx, "", http.MethodGet, "/vnflcm/v2/vnf_lcm_op_occs?exclude_default&filter=(in,operationState,STARTING,PROCESSING,ROLLING_BACK)", nil, &open)
		running = 0
		for _, i := range instances {
			if i.InstantiationState == "INSTANTIATED" {
				running++
			}
		}
		return running == len(instances) && running > 0 && len(open) == 0, errors.Join(err1, err2)
	})
}

// until asks again and again.
func (l *life) until(ctx context.Context, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		done, err := ok()
		if done && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("never: %s: %w", what, errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// refused is what the API says no to.
type refused struct {
	status int
	said   string
}

func (e *refused) Error() string { return e.said }

// ask makes a request of the API as one of the people, "" for the admin, and decodes the answer
// into out, if not nil. It returns the Location.
func (l *life) ask(ctx context.Context, who, method, path string, body, out any) (location string, err error) {
	var content io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return "", err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, l.url+path, content)
	if err != nil {
		return "", err
	}
	req.Header = http.Header{"Version": {"2.0.0"}, "Authorization": {"Bearer " + l.tokens[who]}, "Content-Type": {"application/json"}}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return "", err
	case answer.StatusCode >= http.StatusMultipleChoices:
		return "", &refused{answer.StatusCode, fmt.Sprintf("%s %s: %s: %s", method, path, answer.Status, data)}
	case out != nil:
		return "", json.Unmarshal(data, out)
	}
	return answer.Header.Get("Location"), nil
}

// checkOut clones a repository of the data directory.
func (l *life) checkOut(ctx context.Context, dir, repository string) error {
	_, err := git.Runner{}.Run(ctx, "clone", "--quiet", "--no-local", "--", filepath.Join(l.Data, repository), dir)
	if err == nil {
		_, err = git.Runner{Clone: dir}.Run(ctx, "symbolic-ref", "HEAD", "refs/heads/main")
	}
	return err
}

// write writes files of a clone.
func (l *life) write(dir string, files map[string]string) error {
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// push commits what is in a clone as one of the people, and pushes it over HTTP, by which the
// server knows who they are.
func (l *life) push(ctx context.Context, dir, who, message string) error {
	name := strings.ToUpper(who[:1]) + who[1:]
	mail := who + "@example.org"
	r := git.Runner{Clone: dir, Env: []string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail,
		// In the environment, where no other user of the machine sees it.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0=Authorization: Bearer " + l.tokens[who],
	}}
	target := l.url + "/git/desired.git"
	if strings.HasSuffix(dir, "-packages") {
		target = l.url + "/git/packages/packages.git"
	}
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--no-gpg-sign", "--message", message}, {"push", "--quiet", target, "HEAD:main"}} {
		if _, err := r.Run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// edit takes an instance's file to another package, and keeps all else of it.
func (l *life) edit(file string, to product) error {
	name := filepath.Join(l.clone, filepath.FromSlash(file))
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if text, err = desired.Edit(file, text, desired.KeyValue{Path: []string{"vnfdId"}, Value: to.ID}); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
