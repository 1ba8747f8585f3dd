package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// tiny is the package that all instances run: a Deployment and a ConfigMap, and a
// Service where an instance lists it.
//
//go:embed package
var tiny embed.FS

const (
	vnfdID   = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1be0"
	manifest = "Files/kubernetes/web.yaml"
	exposed  = "Files/kubernetes/service.yaml"
	simVIM   = "type: sim\ndefault: true\n"

	// The package's next version has another id, and another image.
	nextVnfdID = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1be1"
	image      = "registry.k8s.io/pause:3.10"
	nextImage  = "registry.k8s.io/pause:3.9"
)

// instanceID is the id of the instance with this number. Each kind has its own.
func instanceID(kind string, i int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s %d", kind, i)).String()
}

// jibe is a server with a person's clone of its desired repository.
type jibe struct {
	*process.Server
	clone string
	tree  string // of the package
	// nextTree is that of the package's next version.
	nextTree string
}

// start starts the built binary on a new folder and gives it the package and VIMs,
// by file name.
func (b *bench) start(ctx context.Context, name string, vims map[string]string) (*jibe, error) {
	data := filepath.Join(b.tmp, name)
	s, err := b.spawn(data)
	if err != nil {
		return nil, err
	}
	return furnish(ctx, s, vims)
}

// furnish gives a new server the package and VIMs.
func furnish(ctx context.Context, s *process.Server, vims map[string]string) (_ *jibe, err error) {
	data := s.Data
	j := &jibe{Server: s, clone: data + "-clone"}
	for name, vim := range vims {
		if vims[name], err = process.Keep(data, vim); err != nil {
			s.Kill()
			return nil, err
		}
	}
	if err := j.provision(ctx, vims); err != nil {
		s.Kill()
		return nil, fmt.Errorf("%w; the server's log:\n%s", err, s.Log())
	}
	return j, nil
}

func (j *jibe) provision(ctx context.Context, vims map[string]string) error {
	work := j.Data + "-packages"
	sub, err := fs.Sub(tiny, "package")
	if err != nil {
		return err
	}
	if _, err := process.Git(ctx, j.Data, "clone", "--quiet", "--no-local", filepath.Join(j.Data, "packages", "packages.git"), work); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(work, "tiny"), sub); err != nil {
		return err
	}
	if err := writeSuccessor(filepath.Join(work, "successor"), sub); err != nil {
		return err
	}
	if err := commit(ctx, work, "Add a package"); err != nil {
		return err
	}
	if _, err := process.Git(ctx, work, "push", "--quiet", "origin", "HEAD:refs/heads/main"); err != nil {
		return err
	}
	if j.tree, err = process.Git(ctx, work, "rev-parse", "HEAD:tiny"); err != nil {
		return err
	}
	if j.nextTree, err = process.Git(ctx, work, "rev-parse", "HEAD:successor"); err != nil {
		return err
	}
	if err := kit.Poll(ctx, time.Minute, func() error {
		a, err := j.Do(ctx, http.MethodGet, "/jibe/v1/packages", nil)
		if err == nil && !bytes.Contains(a.Body, []byte(nextVnfdID)) {
			err = fmt.Errorf("the package isn't known: %s", a.Body)
		}
		return err
	}); err != nil {
		return err
	}
	if _, err := process.Git(ctx, j.Data, "clone", "--quiet", "--no-local", j.Desired(), j.clone); err != nil {
		return err
	}
	for name, text := range vims {
		if err := j.write("vims/"+name+".yaml", text); err != nil {
			return err
		}
	}
	if err := commit(ctx, j.clone, "Add VIMs"); err != nil {
		return err
	}
	_, err = j.push(ctx)
	return err
}

// writeSuccessor writes the next version of the package: another id, another image.
func writeSuccessor(dir string, from fs.FS) error {
	was, err := fs.ReadFile(from, manifest)
	if err != nil {
		return err
	}
	is := bytes.ReplaceAll(was, []byte(image), []byte(nextImage))
	changes := strings.NewReplacer(vnfdID, nextVnfdID, image, nextImage,
		fmt.Sprintf("%x", sha256.Sum256(was)), fmt.Sprintf("%x", sha256.Sum256(is)))
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(changes.Replace(string(content))), 0o644)
	})
}

func (j *jibe) write(name, text string) error {
	name = filepath.Join(j.clone, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

func commit(ctx context.Context, dir, subject string, paths ...string) error {
	if len(paths) == 0 {
		paths = []string{"--all"}
	}
	if _, err := process.Git(ctx, dir, append([]string{"add"}, paths...)...); err != nil {
		return err
	}
	_, err := process.Git(ctx, dir, "commit", "--quiet", "-m", subject)
	return err
}

// push pushes the clone and returns when git did. options are those of the push.
func (j *jibe) push(ctx context.Context, options ...string) (returned time.Time, err error) {
	args := []string{"push", "--quiet"}
	for _, o := range options {
		args = append(args, "--push-option="+o)
	}
	_, err = process.Git(ctx, j.clone, append(args, "origin", "HEAD:refs/heads/main")...)
	return time.Now(), err
}

// follow makes the clone what the repository's branch is.
func (j *jibe) follow(ctx context.Context) error {
	if _, err := process.Git(ctx, j.clone, "fetch", "--quiet", "origin"); err != nil {
		return err
	}
	_, err := process.Git(ctx, j.clone, "reset", "--quiet", "--hard", "origin/main")
	return err
}

// vnf is the text of a vnf.yaml.
func (j *jibe) vnf(id, state, more string) string {
	return fmt.Sprintf("id: %s\nname: bench\nvnfdId: %s\npackage: %s\nstate: %s\nflavour: simple\n%s", id, vnfdID, j.tree, state, more)
}

// fill adds the instances from number first up to but not n in one commit, past the
// hook, as no person could push them in reasonable time.
func (j *jibe) fill(ctx context.Context, first, n int, state string) error {
	return j.add(ctx, "fill", first, n, func(_ int, id string) string { return j.vnf(id, state, "vim: sim\n") })
}

// add is fill for instances of any kind; text makes their vnf.yaml.
func (j *jibe) add(ctx context.Context, kind string, first, n int, text func(i int, id string) string) error {
	if err := j.addUnseen(ctx, kind, first, n, text); err != nil {
		return err
	}
	return j.follow(ctx)
}

// addUnseen is add without the clone, whose work tree would take longer than the rest
// where there are very many.
func (j *jibe) addUnseen(ctx context.Context, kind string, first, n int, text func(i int, id string) string) error {
	var in bytes.Buffer
	in.WriteString("commit refs/heads/main\ncommitter A Person <person@example.org> 1767323046 +0000\ndata 4\nmany\nfrom refs/heads/main^0\n")
	for i := first; i < n; i++ {
		id := instanceID(kind, i)
		file := text(i, id)
		fmt.Fprintf(&in, "M 100644 inline %s/%s\ndata %d\n%s\n", desired.APIDir(id), desired.InstanceFile, len(file), file)
	}
	return fastImport(ctx, j.Desired(), &in)
}

func fastImport(ctx context.Context, dir string, in *bytes.Buffer) error {
	cmd := exec.CommandContext(ctx, "git", "--git-dir="+dir, "fast-import", "--quiet")
	cmd.Stdin, cmd.Env = in, process.Environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git fast-import: %w\n%s", err, out)
	}
	return nil
}

// counts are what the server's metrics say.
type counts struct {
	completed, failed int // operations that entered such a state
	passes, queue     int
	resident          int // bytes
}

func (j *jibe) counts(ctx context.Context) (c counts, err error) {
	a, err := j.Do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return c, err
	}
	lines := bufio.NewScanner(bytes.NewReader(a.Body))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			continue
		}
		switch metric, _, _ := strings.Cut(name, "{"); metric {
		case "jibe_reconcile_duration_seconds_count":
			c.passes += int(n)
		case "jibe_queue_length":
			c.queue = int(n)
		case "process_resident_memory_bytes":
			c.resident = int(n)
		case "jibe_lcm_operation_transitions_total":
			switch {
			case strings.Contains(name, `state="COMPLETED"`):
				c.completed += int(n)
			case strings.Contains(name, `state="FAILED`), strings.Contains(name, `state="ROLLED_BACK"`):
				c.failed += int(n)
			}
		}
	}
	return c, lines.Err()
}

// scrapePause is how often the metrics are asked: each answer looks at all records,
// which more of them would make a load of its own. Where there are so many that an answer
// takes long, the pause is several times as long.
const (
	scrapePause = 300 * time.Millisecond
	scrapeShare = 5
)

// scrape asks for the metrics until they say what is waited for.
func (j *jibe) scrape(ctx context.Context, limit time.Duration, look func(counts) error) error {
	deadline := time.Now().Add(limit)
	for {
		asked := time.Now()
		c, err := j.counts(ctx)
		if err != nil {
			return err
		}
		took := time.Since(asked)
		if c.failed > 0 {
			return fmt.Errorf("%d operations failed; the server's log:\n%s", c.failed, j.Log())
		}
		if err = look(c); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("still so after %s: %w", limit, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(scrapePause, scrapeShare*took)):
		}
	}
}

// completed waits until n operations have been completed since the server started.
func (j *jibe) completed(ctx context.Context, n int, limit time.Duration) error {
	return j.scrape(ctx, limit, func(c counts) error {
		if c.completed < n {
			return fmt.Errorf("%d of %d operations completed, %d instances wait", c.completed, n, c.queue)
		}
		return nil
	})
}

// ended waits until an operation is COMPLETED and returns when it was.
func (j *jibe) ended(ctx context.Context, operation string) (time.Time, error) {
	var record struct {
		State   string    `json:"operationState"`
		Entered time.Time `json:"stateEnteredTime"`
	}
	err := kit.Poll(ctx, 10*time.Minute, func() error {
		a, err := j.Do(ctx, http.MethodGet, process.Operations+"/"+path.Base(operation), nil)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(a.Body, &record); err == nil && record.State == "COMPLETED" {
			return nil
		}
		err = fmt.Errorf("operation %s: %s; the server's log:\n%s", operation, a.Body, j.Log())
		if record.State == "FAILED_TEMP" || record.State == "ROLLED_BACK" {
			return kit.Final(err)
		}
		return err
	})
	return record.Entered, err
}

// quiet waits until nothing is left to do: for a second no instance was looked at.
func (j *jibe) quiet(ctx context.Context, limit time.Duration) error {
	last, since := -1, time.Now()
	return j.scrape(ctx, limit, func(c counts) error {
		if c.passes != last || c.queue > 0 {
			last, since = c.passes, time.Now()
		}
		if time.Since(since) < time.Second {
			return fmt.Errorf("%d instances wait", c.queue)
		}
		return nil
	})
}

// known waits until the server has this many instances, and is quiet.
func (j *jibe) known(ctx context.Context, n int, limit time.Duration) error {
	err := kit.Poll(ctx, limit, func() error {
		var all []struct{}
		if err := j.Get(ctx, "/jibe/v1/instances", &all); err != nil {
			return err
		}
		if len(all) < n {
			return fmt.Errorf("the server knows %d of %d instances", len(all), n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return j.quiet(ctx, limit)
}
