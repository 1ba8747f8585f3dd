package gitrepo

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// writeUntilKilled is the victim: it writes from several goroutines and prints
// each operation once Write has acknowledged it.
func writeUntilKilled(dir string) int {
	ctx := context.Background()
	r, err := Open(ctx, Options{Dir: dir, RepackAbove: 4})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var mu sync.Mutex
	run := time.Now().UnixNano()
	for n := range 4 {
		go func() {
			for i := 0; ; i++ {
				op := fmt.Sprintf("op-%d-%d-%d", run, n, i)
				id := testID(n)
				_, err := r.Write(ctx, desired.Write{
					Instance: id, Dir: shardDir(id), Subject: op,
					Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: op}},
					Change:   setLevel(id, rand.IntN(1<<30)),
				})
				mu.Lock()
				if err != nil {
					fmt.Fprintln(os.Stderr, op, err)
					os.Exit(1)
				}
				fmt.Println(op)
				mu.Unlock()
			}
		}()
	}
	select {}
}

func TestAKilledWriterLosesNothingThatItAcknowledged(t *testing.T) {
	t.Parallel()

	kills := 8
	if kit.Quick(t) {
		kills = 2
	}
	dir := filepath.Join(t.TempDir(), "desired.git")
	rng := rand.New(rand.NewPCG(1, 2))
	var acked []string
	for range kills {
		cmd := exec.Command(os.Args[0], "write-until-killed", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for want := 1 + rng.IntN(12); want > 0 && lines.Scan(); want-- {
			acked = append(acked, lines.Text())
		}
		if rng.IntN(2) == 0 {
			kit.Pause(t.Context(), time.Duration(rng.IntN(3000))*time.Microsecond) // anywhere in a batch
		}
		_ = cmd.Process.Kill()
		for lines.Scan() { // what it said before it died
			if strings.Count(lines.Text(), "-") == 3 {
				acked = append(acked, lines.Text())
			}
		}
		_ = cmd.Wait()
		if s := said.String(); s != "" {
			t.Fatalf("victim: %s", s)
		}
	}
	r := openRepo(t, Options{Dir: dir})
	in := map[string]int{}
	for _, op := range history(t, dir) {
		in[op]++
	}
	for _, op := range acked {
		if in[op] != 1 {
			t.Errorf("%s was acknowledged and stands %d times in history", op, in[op])
		}
	}
	if len(acked) < kills {
		t.Errorf("only %d writes were acknowledged", len(acked))
	}
	left, _ := filepath.Glob(filepath.Join(objects.OwnDir(dir), git.TmpPrefix+"*"))
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	mustWrite(t, r, testID(0), shardDir(testID(0)), 1)
	sameAsFresh(t, r)
	fsck(t, r)
}
