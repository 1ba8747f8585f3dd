package egress_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

type answering struct{ body io.Reader }

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(a.body)}, nil
}

// zeros are a body without end.
type zeros struct{ read int }

func (z *zeros) Read(p []byte) (int, error) {
	z.read += len(p)
	return len(p), nil
}

func TestOfAnAnswerNoMoreIsReadThanItsBound(t *testing.T) {
	t.Parallel()
	bound := egress.AnswerBound{Most: 10, Value: 8, IsStream: func(r *http.Request) bool { return r.URL.Query().Has("watch") }}
	read := func(uri string, body io.Reader) (string, error) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, uri, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := bound.Bound(answering{body}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}

	const list, watch = "http://vim/pods", "http://vim/pods?watch=true"
	for name, c := range map[string]struct {
		uri, body, want string
		tooLong         bool
	}{
		"an answer that just fits":       {list, "0123456789", "0123456789", false},
		"one byte more":                  {list, "0123456789a", "", true},
		"a stream that goes on":          {watch, "{1}\n{2}\n{3}\n{4}\n{5}\n", "{1}\n{2}\n{3}\n{4}\n{5}\n", false},
		"a stream without line breaks":   {watch, "{1}{2}{3}{[4]}{5}", "{1}{2}{3}{[4]}{5}", false},
		"an event that just fits":        {watch, "{ 3456 }{ 3456 }", "{ 3456 }{ 3456 }", false},
		"an event that is longer":        {watch, "{1}{ 34567 }", "", true},
		"brackets in text":               {watch, `{"}}\"}"}`, "", true},
		"an event for ever, nested":      {watch, strings.Repeat("[", 30), "", true},
		"an event for ever, of lines":    {watch, "{1}\n{" + strings.Repeat("\n", 30), "", true},
		"what is no event, for ever":     {watch, strings.Repeat("1 ", 30), "", true},
		"a stream that ends in a middle": {watch, "{1}{2", "{1}{2", false},
	} {
		for how, body := range map[string]io.Reader{"": strings.NewReader(c.body), " by bytes": iotest.OneByteReader(strings.NewReader(c.body)), " at once with its end": iotest.DataErrReader(bytes.NewReader([]byte(c.body)))} {
			got, err := read(c.uri, body)
			if c.tooLong != errors.Is(err, egress.ErrTooLong) || !c.tooLong && (err != nil || got != c.want) {
				t.Errorf("%s%s: %q, %v; want %q", name, how, got, err, c.want)
			}
		}
	}

	for _, uri := range []string{list, watch} {
		endless := &zeros{}
		if _, err := read(uri, endless); !errors.Is(err, egress.ErrTooLong) || endless.read > 2000 {
			t.Errorf("%s: %v after %d bytes", uri, err, endless.read)
		}
	}
}
