package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// standingEach is one of how many instances runs.
	standingEach = 100
	// startLimit bounds a start until it serves, lookLimit the first look at every instance after it.
	startLimit, lookLimit = 5 * time.Second, 20 * time.Second
	// startPeak is what a server may have resident meanwhile, in bytes.
	startPeak = 1 << 30
)

// starts measures the first start on a repository of many instances, and a restart, beside the time that
// git takes to read all files of the branch.
func (b *bench) starts(ctx context.Context) error {
	j, err := b.start(ctx, "starts", map[string]string{"sim": simVIM})
	if err != nil {
		return err
	}
	defer func() { j.Kill() }() // the one that runs last

	if err := j.Stop(); err != nil {
		return err
	}
	files := map[string]string{}
	for i := range b.instances {
		id, state := instanceID("fill", i), "notInstantiated"
		if i%standingEach == 0 {
			state = "instantiated"
		}
		files[desired.APIDir(id)+"/"+desired.InstanceFile] = j.vnf(id, state, "vim: sim\n")
	}
	if err := process.Fill(ctx, j.Desired(), "Many", files); err != nil {
		return err
	}

	if _, err := b.started(ctx, j, "first start"); err != nil {
		return err
	}
	if err := j.Stop(); err != nil {
		return err
	}
	read, err := gitReads(ctx, j.Desired(), "main")
	if err != nil {
		return err
	}
	took, err := b.started(ctx, j, "restart")
	if err != nil {
		return err
	}

	b.value("limit: git reads all files of the branch", short(read), true, "", "")
	b.headline(headline{"start", fmt.Sprintf("%d instances: restart until each is looked at", b.instances), short(took),
		"git reads all files of the branch: " + short(read), ratio(took.Seconds(), read.Seconds())})
	return j.Stop()
}

// started starts the server again on its data, and returns how long it took until it had looked at every
// instance.
func (b *bench) started(ctx context.Context, j *jibe, what string) (took time.Duration, err error) {
	begin := time.Now()
	if j.Server, err = b.spawn(j.Data); err != nil {
		return 0, err
	}
	serves := time.Since(begin)
	err = j.scrape(ctx, 10*time.Minute, func(c counts) error {
		if c.passes < b.instances {
			return fmt.Errorf("%d of %d instances were looked at", c.passes, b.instances)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	took = time.Since(begin)
	most, err := peak(j.Pid())
	if err != nil {
		return 0, err
	}

	name := fmt.Sprintf("%d instances: %s", b.instances, what)
	b.value(name+" -> serves", short(serves), serves <= startLimit, "<= "+short(startLimit), "")
	b.value("  serves -> every instance looked at", short(took-serves), took-serves <= lookLimit, "<= "+short(lookLimit), "")
	b.value("  most resident until then", fmt.Sprintf("%d MiB", most>>20), most <= startPeak, fmt.Sprintf("<= %d MiB", startPeak>>20), "")
	return took, j.quiet(ctx, 5*time.Minute)
}
