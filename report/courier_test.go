package report

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

type counted struct{ n int }

func (c *counted) RoundTrip(*http.Request) (*http.Response, error) {
	c.n++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestRequestsAreAtMostSoManyASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{}
		client := &http.Client{Transport: Paced(c, 2)}
		began := time.Now()
		for range burst + 20 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://forge", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
		}
		if took := time.Since(began); took != 10*time.Second || c.n != burst+20 {
			t.Errorf("%d requests took %s, want 10s", c.n, took)
		}
	})
}
