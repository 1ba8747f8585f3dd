package secret

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAKMSThatNeverAnswersIsGivenTenSeconds(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte("token"), 0o600); err != nil {
			t.Fatal(err)
		}
		lock, err := newTransit(LockOptions{KMS: "https://kms.example/transit/jibe", TokenFile: file})
		if err != nil {
			t.Fatal(err)
		}
		lock.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})

		began := time.Now()
		_, err = lock.Wrap(make([]byte, fileKeySize))
		if !errors.Is(err, ErrLocked) || time.Since(began) != kmsTime {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
