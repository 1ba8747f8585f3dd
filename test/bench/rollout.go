package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/lab"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// rolloutLimit is how long a rollout may take, in parts of what its limits alone would take.
	rolloutLimit = 1.25
	// rolloutUnits is how long units of the simulator take to become ready, and to go, during a rollout: a rolling
	// upgrade takes twice that.
	rolloutUnits = 2 * time.Second
	// rolloutPatience bounds the wait for a rollout's end.
	rolloutPatience = 15 * time.Minute
	// rolloutPart is which part of all may be under way at once.
	rolloutPart  = 10
	rolloutAlone = 3 // upgrades that are measured with nothing beside them
)

// rollout measures one that upgrades many sites of the simulator, where all that it should take is the upgrades'
// own time: as many rounds of it as waves and atOnce make. Its server is always this tree's.
func (b *bench) rollout(ctx context.Context) error {
	s, err := b.spawnLab(filepath.Join(b.tmp, "rollout"))
	if err != nil {
		return err
	}
	j, err := furnish(ctx, s, map[string]string{"sim": simVIM})
	if err != nil {
		return err
	}
	defer j.Kill()
	all := b.rolled + rolloutAlone
	if err := j.fill(ctx, 0, all, "instantiated"); err != nil {
		return err
	}
	if err := j.completed(ctx, all, rolloutPatience); err != nil {
		return err
	}
	if err := lab.At(j.Data).SetLatency(ctx, rolloutUnits); err != nil {
		return err
	}
	var alone times
	for i := range rolloutAlone {
		took, err := j.upgradeAlone(ctx, i)
		if err != nil {
			return fmt.Errorf("upgrade of one instance: %w", err)
		}
		alone = append(alone, took)
	}
	if err := j.follow(ctx); err != nil {
		return err
	}
	before, err := j.commits(ctx)
	if err != nil {
		return err
	}
	atOnce := max(1, b.rolled/rolloutPart)
	file := desired.RolloutFile("all")
	if err := j.write(file, fmt.Sprintf("select: {folders: [instances/**]}\nto: {vnfdId: %s}\norder: [{percent: 1}, {percent: 25}, {percent: 100}]\natOnce: %d\n", nextVnfdID, atOnce)); err != nil {
		return err
	}
	if err := commit(ctx, j.clone, "Roll the next version out", file); err != nil {
		return err
	}
	start := time.Now()
	if _, err := j.push(ctx); err != nil {
		return err
	}
	end, err := j.rolledOut(ctx)
	if err != nil {
		return fmt.Errorf("%w; the server's log:\n%s", err, j.Log())
	}
	after, err := j.commits(ctx)
	if err != nil {
		return err
	}
	if end.Counts.Completed != b.rolled {
		return fmt.Errorf("of %d instances these were upgraded: %+v", b.rolled, end.Counts)
	}
	rounds := 0
	for _, w := range end.PerWave {
		rounds += (w.Counts.Completed + atOnce - 1) / atOnce
	}
	took, least := end.Ended.Sub(start), time.Duration(rounds)*alone.median()
	b.latency("an upgrade alone, from its operation's start to its end", alone, 0, fmt.Sprintf("units of the simulator take %s to come and to go", short(rolloutUnits)))
	b.value("bare minimum of the rollout", short(least), true, "", fmt.Sprintf("%d rounds of that: %d sites in %d waves, %d at once", rounds, b.rolled, len(end.PerWave), atOnce))
	b.value("git push of the rollout -> its end", short(took), float64(took) <= rolloutLimit*float64(least), fmt.Sprintf("<= %.2fx", rolloutLimit),
		fmt.Sprintf("%s of the minimum; %d commits", ratio(float64(took), float64(least)), after-before))
	b.headline(headline{"rollout", fmt.Sprintf("%d sites in %d waves, %d at once: push -> end", b.rolled, len(end.PerWave), atOnce), short(took),
		"as many upgrades after each other as that allows: " + short(least), ratio(float64(took), float64(least))})
	return j.Stop()
}

// upgradeAlone upgrades one instance by a push, and returns how long its operation took.
func (j *jibe) upgradeAlone(ctx context.Context, i int) (time.Duration, error) {
	if err := j.follow(ctx); err != nil {
		return 0, err
	}
	id := instanceID("fill", i)
	name := desired.APIDir(id) + "/" + desired.InstanceFile
	text := strings.NewReplacer(vnfdID, nextVnfdID, j.tree, j.nextTree).Replace(j.vnf(id, "instantiated", "vim: sim\n"))
	if err := j.write(name, text); err != nil {
		return 0, err
	}
	if err := commit(ctx, j.clone, "Upgrade one", name); err != nil {
		return 0, err
	}
	if _, err := j.push(ctx); err != nil {
		return 0, err
	}
	var took time.Duration
	err := kit.Poll(ctx, rolloutPatience, func() error {
		var list []struct {
			State   string    `json:"operationState"`
			Started time.Time `json:"startTime"`
			Entered time.Time `json:"stateEnteredTime"`
		}
		a, err := j.Do(ctx, http.MethodGet, process.Operations+"?filter=(eq,vnfInstanceId,"+id+")", nil)
		if err == nil {
			err = json.Unmarshal(a.Body, &list)
		}
		if err != nil {
			return err
		}
		for _, op := range list {
			if op.State == "COMPLETED" {
				took = max(took, op.Entered.Sub(op.Started))
			}
		}
		if len(list) < 2 || took < rolloutUnits {
			return fmt.Errorf("its operations are %+v", list)
		}
		return nil
	})
	return took, err
}

// commits is how many the desired branch has.
func (j *jibe) commits(ctx context.Context) (n int, err error) {
	text, err := process.Git(ctx, j.Desired(), "rev-list", "--count", "main")
	if err == nil {
		_, err = fmt.Sscan(text, &n)
	}
	return n, err
}

// rolledOut waits for the end of the rollout. It asks seldom: each answer looks at all instances.
func (j *jibe) rolledOut(ctx context.Context) (automation.RolloutStatus, error) {
	for end := time.Now().Add(rolloutPatience); ; {
		select {
		case <-ctx.Done():
			return automation.RolloutStatus{}, ctx.Err()
		case <-time.After(time.Second):
		}
		var list []automation.RolloutStatus
		if err := j.Get(ctx, "/jibe/v1/rollouts", &list); err != nil {
			return automation.RolloutStatus{}, err
		}
		switch {
		case len(list) == 1 && list[0].Phase == rollout.Done:
			return list[0], nil
		case len(list) != 1 || list[0].Phase == rollout.Halted || time.Now().After(end):
			return automation.RolloutStatus{}, fmt.Errorf("the rollout didn't come to its end: %+v", list)
		}
	}
}
