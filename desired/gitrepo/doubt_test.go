package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// scale writes an operation's commit.
func scale(ctx context.Context, r *Repo, n int, op string) (desired.Revision, error) {
	return r.Write(ctx, desired.Write{
		Instance: testID(n), Dir: shardDir(testID(n)), Subject: op,
		Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: op}},
		// Not idempotent: a batch that is built twice shows.
		Change: func(_ desired.Revision, old desired.Files) (desired.Files, error) {
			text := old["vnf.yaml"]
			if text == nil {
				text = vnfFile(testID(n), 1)
			}
			return desired.Files{"vnf.yaml": append(bytes.Clone(text), "# "+op+"\n"...)}, nil
		},
	})
}

func TestAPushWhoseAnswerIsLostLandsExactlyOnce(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for _, c := range []struct {
		name   string
		mishap func(f *httpForge) func(w http.ResponseWriter, take func() *httptest.ResponseRecorder)
	}{
		{"it is taken, and answered with an error", func(*httpForge) func(http.ResponseWriter, func() *httptest.ResponseRecorder) {
			return func(w http.ResponseWriter, take func() *httptest.ResponseRecorder) {
				take()
				http.Error(w, "bad gateway", http.StatusBadGateway)
			}
		}},
		{"it is taken, and the connection is cut", func(*httpForge) func(http.ResponseWriter, func() *httptest.ResponseRecorder) {
			return func(w http.ResponseWriter, take func() *httptest.ResponseRecorder) { take(); cut(w) }
		}},
		{"it is taken, and nothing is answered", func(f *httpForge) func(http.ResponseWriter, func() *httptest.ResponseRecorder) {
			return func(w http.ResponseWriter, take func() *httptest.ResponseRecorder) { take(); <-f.ends }
		}},
		{"it isn't taken, and the connection is cut", func(*httpForge) func(http.ResponseWriter, func() *httptest.ResponseRecorder) {
			return func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) { cut(w) }
		}},
		{"it is taken when the writer has gone on", func(f *httpForge) func(http.ResponseWriter, func() *httptest.ResponseRecorder) {
			return func(w http.ResponseWriter, take func() *httptest.ResponseRecorder) {
				before, _ := tryGit(f.dir, "rev-parse", "main")
				f.work.Go(func() {
					kit.Until(t, "the branch moves", func() bool {
						now, err := tryGit(f.dir, "rev-parse", "main")
						return err == nil && now != before
					})
					if answer := take(); !strings.Contains(answer.Body.String(), "ng refs/heads/main") {
						t.Errorf("the late push was answered with %q", answer.Body)
					}
				})
				http.Error(w, "gateway timeout", http.StatusGatewayTimeout)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newHTTPForge(t)
			r := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour, remoteTimeout: 10 * time.Second})
			var acked []string
			for i := range 5 {
				if i == 2 {
					f.next(c.mishap(f))
				}
				op := fmt.Sprint("op-", i)
				rev, err := scale(t.Context(), r, 1, op)
				if err != nil {
					t.Fatalf("%s: %v", op, err)
				}
				acked = append(acked, op)
				if got := tipOf(t, f.dir); got != rev.Commit || r.Head() != rev.Commit {
					t.Errorf("%s: the remote is at %s, the mirror at %s, want %s", op, got, r.Head(), rev.Commit)
				}
			}
			f.work.Wait()
			onceEach(t, history(t, f.dir), acked)
			if err := r.Health(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAPushThatTheRemoteRefusesIsRefusedAtOnce(t *testing.T) {
	t.Parallel()

	f := newHTTPForge(t)
	r := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	head := r.Head()
	hook := filepath.Join(f.dir, "hooks", "pre-receive")
	put(t, f.dir, "hooks/pre-receive", []byte("#!/bin/sh\necho no >&2\nexit 1\n"))
	if err := os.Chmod(hook, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := scale(t.Context(), r, 1, "refused")
	var doubt *doubtError
	if !errors.Is(err, desired.ErrUnavailable) || errors.As(err, &doubt) || r.Head() != head || f.pushes != 2 {
		t.Errorf("write = %v, head %s, %d pushes", err, r.Head(), f.pushes)
	}
	if err := r.Health(); err == nil || !strings.Contains(err.Error(), "the remote refuses Jibe's commits") || r.RefusesPushes() == nil {
		t.Errorf("the health is %v", err)
	}
	if ps := r.Problems(); len(ps) != 1 || !strings.Contains(ps[0].Message, "refuses Jibe's commits") || !strings.Contains(ps[0].Remedy, "protected branch") {
		t.Errorf("the problems are %v", ps)
	}
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	if _, err := scale(t.Context(), r, 1, "taken"); err != nil {
		t.Fatal(err)
	}
	onceEach(t, history(t, f.dir), []string{"taken"})
	if err := r.Health(); err != nil || len(r.Problems()) > 0 {
		t.Errorf("the remote takes commits again: %v, %v", err, r.Problems())
	}
}

func TestAPushInDoubtWhileTheRemoteIsAwayIsAnsweredWhenItIsBack(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for _, taken := range []bool{true, false} {
		t.Run(fmt.Sprint("taken: ", taken), func(t *testing.T) {
			f := newHTTPForge(t)
			r := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour})
			mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
			f.next(func(w http.ResponseWriter, take func() *httptest.ResponseRecorder) {
				if taken {
					take()
				}
				if err := os.Rename(f.dir, f.dir+".away"); err != nil {
					t.Error(err)
				}
				cut(w)
			})
			answered := make(chan error, 1)
			go func() {
				_, err := scale(t.Context(), r, 1, "in-doubt")
				answered <- err
			}()
			kit.Until(t, "the doubt is seen", func() bool { return r.Health() != nil })
			// What nobody knows isn't denied, and others aren't kept.
			if _, err := r.FindTrailer(t.Context(), "", desired.TrailerOperation, "in-doubt"); !errors.Is(err, desired.ErrUnavailable) {
				t.Errorf("FindTrailer = %v", err)
			}
			if err := r.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := scale(ctx, r, 2, "withdrawn"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a write behind it: %v", err)
			}
			if err := os.Rename(f.dir+".away", f.dir); err != nil {
				t.Fatal(err)
			}
			if err := <-answered; err != nil {
				t.Errorf("the write in doubt: %v", err)
			}
			onceEach(t, history(t, f.dir), []string{"in-doubt"})
		})
	}
}

func TestAPushThatAFormerProcessLeftInDoubtIsTakenOrCanNotArriveAnyMore(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for _, taken := range []bool{true, false} {
		t.Run(fmt.Sprint("taken: ", taken), func(t *testing.T) {
			f := newHTTPForge(t)
			dir := filepath.Join(t.TempDir(), "desired.git")
			r := openRepo(t, Options{Dir: dir, Remote: f.url, PollInterval: time.Hour})
			mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
			var late func() *httptest.ResponseRecorder
			f.next(func(w http.ResponseWriter, take func() *httptest.ResponseRecorder) {
				if late = take; taken {
					take()
				}
				if err := os.Rename(f.dir, f.dir+".away"); err != nil {
					t.Error(err)
				}
				cut(w)
			})
			left := make(chan error, 1)
			go func() {
				_, err := scale(t.Context(), r, 1, "left")
				left <- err
			}()
			kit.Until(t, "the doubt is seen", func() bool { return r.Health() != nil })
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-left; !errors.Is(err, desired.ErrUnavailable) {
				t.Fatalf("write = %v", err)
			}
			next := openRepo(t, Options{Dir: dir, Remote: f.url, PollInterval: time.Hour})
			if _, err := next.FindTrailer(t.Context(), "", desired.TrailerOperation, "left"); !errors.Is(err, desired.ErrUnavailable) {
				t.Errorf("while the remote is away, FindTrailer = %v", err)
			}
			if _, err := scale(t.Context(), next, 2, "too-early"); !errors.Is(err, desired.ErrUnavailable) {
				t.Errorf("while the remote is away, a write = %v", err)
			}
			if err := os.Rename(f.dir+".away", f.dir); err != nil {
				t.Fatal(err)
			}
			next.Poke()
			kit.Until(t, "the doubt is settled", func() bool { return next.sent.doubt() == nil })
			commit, err := next.FindTrailer(t.Context(), "", desired.TrailerOperation, "left")
			if taken && (err != nil || commit != next.Head()) || !taken && !errors.Is(err, desired.ErrNotFound) {
				t.Errorf("FindTrailer = %s, %v", commit, err)
			}
			want := []string{"after"}
			if taken {
				want = append(want, "left")
			} else if answer := late(); !strings.Contains(answer.Body.String(), "ng refs/heads/main") {
				t.Errorf("the late push was answered with %q", answer.Body)
			}
			if _, err := scale(t.Context(), next, 1, "after"); err != nil {
				t.Fatal(err)
			}
			onceEach(t, history(t, f.dir), want)
		})
	}
}
