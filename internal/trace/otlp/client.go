package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// tries is how often one batch is sent, and firstPause the pause after the first, which doubles.
	tries      = 4
	firstPause = 500 * time.Millisecond
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// tracesPath is where collectors take spans (OTLP/HTTP).
	tracesPath = "/v1/traces"
)

// client is an [otlptrace.Client]. The SDK's own for HTTP brings all of gRPC, for the message around
// the spans.
type client struct {
	life     context.Context
	http     *http.Client
	endpoint string
	headers  http.Header
}

// newClient returns a client whose requests end with life.
func newClient(life context.Context, endpoint string, o Options) *client {
	return &client{life: life, endpoint: endpoint, headers: o.Headers, http: &http.Client{
		Transport: o.Transport, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Start implements [otlptrace.Client].
func (c *client) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (c *client) Stop(context.Context) error { return nil }

// UploadTraces implements [otlptrace.Client]. It sends a batch, and again if the collector may take
// it later. TracesData is an ExportTraceServiceRequest on the wire, and knows nothing of gRPC.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()

	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		again, err := c.post(ctx, body)
		if err == nil || !again || try == tries {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// post makes one request. again says that the same one may succeed later.
func (c *client) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	for name, values := range c.headers {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "jibe")

	resp, err := c.http.Do(req)
	if err != nil {
		var target *url.Error
		if errors.As(err, &target) {
			err = target.Err // the log has the URL already
		}
		return true, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again

	switch code := resp.StatusCode; {
	case code < 300:
		return false, nil
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return true, fmt.Errorf("it answered with %d", code)
	default:
		return false, fmt.Errorf("it answered with %d", code)
	}
}
