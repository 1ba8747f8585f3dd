package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// scalePushes is how many pushes of one file are measured at each size.
	scalePushes = 5
	// standingEach is one of how many instances runs.
	standingEach = 100
)

// laidOut takes the figures of starts and of pushes of one file, in a repository that was
// laid out while no server ran. What runs begins anew with each process, as the simulator
// does.
func (s *size) laidOut(ctx context.Context, l layout) (err error) {
	name := fmt.Sprintf("sizes-%d-%s", s.n, strings.ReplaceAll(l.name, " ", "-"))
	if s.server, err = s.start(ctx, name, map[string]string{"sim": simVIM}); err != nil {
		return err
	}
	if err := s.server.Stop(); err != nil {
		return err
	}
	if err := s.layOut(ctx, l); err != nil {
		return err
	}
	took, err := s.restart()
	if err != nil {
		return err
	}
	s.took(expected("first start -> serves"), took)
	if _, err := s.lookedAt(ctx, "serves -> every instance looked at, the first time"); err != nil {
		return err
	}
	if err := s.memory(figure{}, mostly("  most resident until then")); err != nil {
		return err
	}
	if err := s.server.Stop(); err != nil {
		return err
	}
	read, err := gitReads(ctx, s.server.Desired(), "main")
	if err != nil {
		return err
	}
	s.took(expected("limit: git reads all files of the branch"), read)
	if took, err = s.restart(); err != nil {
		return err
	}
	s.took(figure{"restart, warm -> serves", seconds, growing, startLimit}, took)
	looked, err := s.lookedAt(ctx, "serves -> every instance looked at")
	if err != nil {
		return err
	}
	if took += looked; l.word == layouts()[0].word {
		s.headline(headline{"start", fmt.Sprintf("%d instances: restart until each is looked at", s.n), short(took),
			"git reads all files of the branch: " + short(read), ratio(took.Seconds(), read.Seconds())})
	}
	if err := s.memory(figure{}, mostly("  most resident until then, after the restart")); err != nil {
		return err
	}
	s.try(ctx, "pushes of one file", func(ctx context.Context) error { return s.pushOne(ctx, l) })
	s.try(ctx, "writes", s.writes)
	if err := s.memory(resting("resident at rest"), mostly("most resident of all")); err != nil {
		return err
	}
	if err := s.disk(); err != nil {
		return err
	}
	return s.server.Stop()
}

// startLimit is what a start may take.
func startLimit(n int) float64 {
	switch {
	case n <= 50_000:
		return 5
	case n <= 100_000:
		return 10
	}
	return 0
}

// lookedAt waits until all instances were looked at, which it takes, and nothing is left to do.
func (s *size) lookedAt(ctx context.Context, name string) (took time.Duration, err error) {
	begin := time.Now()
	if err := s.awaitAll(ctx, s.n, passes); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	took = time.Since(begin)
	s.took(figure{name, seconds, growing, only(50_000, 20)}, took)
	return took, s.server.quiet(ctx, 5*time.Minute)
}

// layOut commits all instances at once, past the hook, and clones the repository without
// its files, which a person of one site needn't have.
func (s *size) layOut(ctx context.Context, l layout) error {
	j := s.server
	files := map[string]string{}
	for i := range s.n {
		id, state := instanceID("fill", i), "notInstantiated"
		if i%standingEach == 0 {
			state = "instantiated"
		}
		files[l.dir(i, id)+"/"+desired.InstanceFile] = j.vnf(id, state, "vim: sim\n")
	}
	if err := process.Fill(ctx, j.Desired(), "Many", files); err != nil {
		return err
	}
	if s.commits > 0 {
		begin := time.Now()
		if err := s.history(ctx, l); err != nil {
			return err
		}
		s.set(s.column, figure{name: "limit: git fast-import of the history", unit: perSecond}, float64(s.commits)/time.Since(begin).Seconds())
	}
	j.clone += "-bare.git"
	_, err := process.Git(ctx, j.Data, "clone", "--quiet", "--bare", "--no-local", j.Desired(), j.clone)
	return err
}

// history makes as many commits as were asked for, each of one file.
func (s *size) history(ctx context.Context, l layout) error {
	cmd := exec.CommandContext(ctx, "git", "--git-dir="+s.server.Desired(), "fast-import", "--quiet")
	cmd.Env = process.Environment()
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	in := bufio.NewWriterSize(pipe, 1<<20)
	s.stream(in, l)
	// Where git has gone away, Wait says why.
	_ = in.Flush()
	_ = pipe.Close()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("git fast-import of the history: %w\n%s", err, &stderr)
	}
	return nil
}

func (s *size) stream(in io.Writer, l layout) {
	from := "from refs/heads/main^0\n"
	for c := range s.commits {
		i := c % s.n
		if i%standingEach == 0 {
			i = (i + 1) % s.n // what runs isn't changed
		}
		id := instanceID("fill", i)
		text := s.server.vnf(id, "notInstantiated", fmt.Sprintf("vim: sim\ndescription: change %d\n", c))
		fmt.Fprintf(in, "commit refs/heads/main\ncommitter A Person <person@example.org> %d +0000\ndata 6\nchange\n%sM 100644 inline %s/%s\ndata %d\n%s\n",
			1767323046+c, from, l.dir(i, id), desired.InstanceFile, len(text), text)
		from = ""
	}
}

// pushOne takes what a push of one file costs, beside one to a repository without a server.
func (s *size) pushOne(ctx context.Context, l layout) error {
	plain := s.server.Data + "-plain.git"
	if _, err := process.Git(ctx, s.server.Data, "clone", "--quiet", "--bare", s.server.Desired(), plain); err != nil {
		return err
	}
	if _, err := process.Git(ctx, plain, "config", "core.fsync", "all"); err != nil {
		return err
	}
	var pushes, bare, planned, ends times
	w, err := s.server.dial()
	if err != nil {
		return err
	}
	defer w.close()
	for i := range min(scalePushes, s.n/standingEach) {
		commit, id, err := s.server.scaleOne(ctx, l, i*standingEach)
		if err != nil {
			return err
		}
		begin := time.Now()
		if _, err := process.Git(ctx, s.server.clone, "push", "--quiet", plain, "main:main"); err != nil {
			return err
		}
		bare = append(bare, time.Since(begin))
		begin = time.Now()
		if _, err := process.Git(ctx, s.server.clone, "push", "--quiet", filepath.Clean(s.server.Desired()), "main:main"); err != nil {
			return err
		}
		pushes = append(pushes, time.Since(begin))
		o, err := s.server.pushed(ctx, w, reconciler.OperationID(commit, id))
		if err != nil {
			return err
		}
		planned, ends = append(planned, o.Started.Sub(begin)), append(ends, o.Entered.Sub(begin))
	}
	s.took(fixed("limit: git push of one file to a plain repository"), bare.median())
	s.took(fixed("git push of one file, judged by the hook"), pushes.median())
	s.took(figure{"  judged, noticed, operation begun: beyond git's own time", seconds, steady, within(50 * time.Millisecond)}, max(0, planned.median()-bare.median()))
	s.took(fixed("  begin of that push -> operation COMPLETED"), ends.median())
	return nil
}

// pushed waits for the operation of a push, which begins a moment later.
func (j *jibe) pushed(ctx context.Context, w *wire, id string) (o outcome, err error) {
	if _, err := j.ended(ctx, id); err != nil {
		return o, err
	}
	return w.completed(ctx, process.Operations+"/"+id, askPause, endWait)
}

// scaleOne commits another level of an instance that runs, in the clone.
func (j *jibe) scaleOne(ctx context.Context, l layout, i int) (commit, id string, err error) {
	id = instanceID("fill", i)
	text := j.vnf(id, "instantiated", "vim: sim\nlevels: {web: 2}\n")
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/main\ncommitter A Person <person@example.org> %d +0000\ndata 5\nscale\nfrom refs/heads/main^0\nM 100644 inline %s/%s\ndata %d\n%s\n",
		time.Now().Unix(), l.dir(i, id), desired.InstanceFile, len(text), text)
	if err := fastImport(ctx, j.clone, &in); err != nil {
		return "", "", err
	}
	commit, err = process.Git(ctx, j.clone, "rev-parse", "main")
	return commit, id, err
}
