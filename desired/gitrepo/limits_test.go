package gitrepo

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/forges"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAPushThatTheRemoteLimitsIsMadeOnceAndWhenItIsTold(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	f := forges.New(t, forges.GitHub, forges.Limits{Pushes: forges.Rate{N: 2, Within: 3 * time.Second, Exhausts: true}})
	f.Serve(t, nil)
	r := openRepo(t, Options{Remote: f.Remote, PollInterval: time.Hour})
	var mu sync.Mutex
	var acked []string
	var all sync.WaitGroup
	// On a slow machine it may take some time until three were made.
	until, end := time.Now().Add(8*time.Second), time.Now().Add(kit.Patience)
	goesOn := func() bool {
		now := time.Now()
		return now.Before(until) || now.Before(end) && f.Counts().Refused["pushes"] == 0
	}
	for w := range 4 {
		all.Go(func() {
			for i := 0; goesOn(); i++ {
				op := fmt.Sprintf("%d-%d", w, i)
				if _, err := scale(t.Context(), r, w, op); err != nil {
					t.Errorf("%s: %v", op, err)
					return
				}
				mu.Lock()
				acked = append(acked, op)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	onceEach(t, history(t, f.Dir), acked)
	is := f.Counts()
	t.Logf("%d writes; %+v", len(acked), is)
	if n := is.Refused["pushes"]; n == 0 || n > 8 {
		t.Errorf("%d of %d pushes were refused", n, is.Pushes)
	}
}

func TestWhatAForgeSaysOfALimitIsReadAndNothingElse(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]time.Duration{
		"10:00:00.1 http.c:1 <= Recv header: HTTP/1.1 429 Too Many Requests\n10:00:00.1 http.c:1 <= Recv header: Retry-After: 7\n": 7 * time.Second,
		"<= Recv header: HTTP/2 503\n<= Recv header: retry-after: 9999999\n":                                                       maxTold,
		"<= Recv header: HTTP/1.1 429 Too Many Requests\n":                                                                         0,
		"<= Recv header: HTTP/1.1 200 OK\n<= Recv header: Retry-After: 7\n":                                                        0,
		"<= Recv header: HTTP/1.1 429 Too Many Requests\n<= Recv header: Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\n":             0,
		"": 0,
	} {
		file := filepath.Join(t.TempDir(), "answers")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := told(file); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestALimitOfBranchesFoldersAndSizesIsToldToWhoAsksAndKeepsNobodyElse(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	f := forges.New(t, forges.GitHub, forges.Limits{Tree: forges.Tree{Branches: 2, File: 4000, Entries: 256, Depth: 6}})
	f.Serve(t, nil)
	r := openRepo(t, Options{Remote: f.Remote, PollInterval: time.Hour})
	id := testID(1)
	mustWrite(t, r, id, shardDir(id), 1)
	propose := func(branch string) error {
		_, err := r.Propose(t.Context(), branch, desired.Write{Instance: id, Subject: "s", Change: setLevel(id, 5)})
		return err
	}
	if err := propose("one"); err != nil {
		t.Fatal(err)
	}
	if err := propose("two"); err == nil || !strings.Contains(err.Error(), "rejected") && !strings.Contains(err.Error(), "limit") {
		t.Errorf("a branch too many: %v", err)
	}
	_, err := r.Write(t.Context(), desired.Write{Instance: id, Subject: "s", Change: func(_ desired.Revision, old desired.Files) (desired.Files, error) {
		return desired.Files{"vnf.yaml": old["vnf.yaml"], "large": bytes.Repeat([]byte("x"), 5000)}, nil
	}})
	if err == nil {
		t.Error("a file that is too large was taken")
	}
	var all sync.WaitGroup
	for n := 2; n < 30; n++ {
		all.Go(func() { // at once, which takes few pushes
			id := testID(n)
			if _, err := r.Write(t.Context(), desired.Write{Instance: id, Dir: desired.APIDir(id), Subject: "s", Change: setLevel(id, 1)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	mustWrite(t, r, id, "", 3)
	most, refused := f.Seen(t)
	if fmt.Sprint(refused) != "[branches file]" || most.Entries > 30 || most.Depth > 4 {
		t.Errorf("refused %v, the most was %+v", refused, most)
	}
}
