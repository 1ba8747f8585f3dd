package vnfpkgm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

const (
	maxRedirects = 5
	fetchTime    = time.Hour // for an archive as a whole
	answerTime   = 30 * time.Second
)

// fetch brings the archive from its URI to the disk. Errors never quote credentials or an
// answer: a caller must not read other services through Jibe.
func (s *Service) fetch(ctx context.Context, p spool, ask request) error {
	s.mu.Lock()
	s.busy[p.id] = uploading
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, ask.URI, nil)
	if err != nil {
		return rest.Problem(http.StatusBadRequest, "addressInformation is no URI")
	}
	r.Header.Set("Accept", "application/zip, application/octet-stream, */*;q=0.5")
	if ask.UserName != "" || ask.Password != "" {
		password := ""
		if ask.Password != "" {
			if password, err = s.Secrets.Resolve(ask.Password); err != nil {
				return err
			}
		}
		if err := s.Egress.MayCarryCredentials(r.URL); err != nil {
			return rest.Problem(http.StatusUnprocessableEntity, "the archive can't be fetched from %s: %v", r.URL.Scheme+"://"+r.URL.Host, err)
		}
		r.SetBasicAuth(ask.UserName, password) // which http.Client doesn't hand to another host
	}
	client := s.client()
	defer client.CloseIdleConnections()
	from := r.URL.Scheme + "://" + r.URL.Host
	answer, err := client.Do(r)
	if err != nil {
		return s.unreachable(ctx, from, err)
	}
	defer answer.Body.Close()
	most := s.limits().MaxTotal
	switch {
	case answer.StatusCode != http.StatusOK:
		return rest.Problem(http.StatusUnprocessableEntity, "%s answered with the status %d, and not 200", from, answer.StatusCode)
	case answer.ContentLength > most:
		return tooLarge(most)
	}
	body := &watched{in: io.LimitReader(answer.Body, most+1), left: most, stop: time.AfterFunc(stall, cancel)}
	defer body.stop.Stop()
	if err := p.receive(body); err != nil {
		var big *http.MaxBytesError
		switch {
		case errors.As(err, &big):
			return tooLarge(most)
		case errors.Is(err, errBody):
			return s.unreachable(ctx, from, err)
		}
		return err
	}
	return nil
}

// unreachable is the error of an archive that couldn't be fetched. It doesn't say what stood in
// the way, which would tell a caller what there is in the network; the log does.
func (s *Service) unreachable(ctx context.Context, from string, err error) error {
	cause := egress.NoAnswer
	switch {
	case errors.Is(err, errRedirects):
		cause = errRedirects.Error()
	case errors.Is(err, errBody):
		cause = "the connection failed"
	}
	if call, ok := errors.AsType[*url.Error](err); ok {
		err = call.Err // the rest of it has the whole URI
	}
	s.Log.WarnContext(ctx, "an archive can't be fetched", "from", from, "error", err)
	return rest.Problem(http.StatusUnprocessableEntity, "the archive can't be fetched from %s: %s", from, cause)
}

var errRedirects = fmt.Errorf("it redirects more than %d times, or from https to http", maxRedirects)

// client reaches what the guard lets pass, by whatever name or redirect.
func (s *Service) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{Proxy: s.Egress.ProxyFor, DialContext: s.Egress.DialContext(answerTime), TLSHandshakeTimeout: answerTime, ResponseHeaderTimeout: answerTime, DisableCompression: true},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects || r.URL.Scheme != "https" && via[0].URL.Scheme == "https" {
				return errRedirects
			}
			return nil
		},
	}
}

// watched is a body that ends with an error where it is too large, breaks off or stalls.
type watched struct {
	in   io.Reader
	left int64
	stop *time.Timer
}

// Read implements [io.Reader].
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.in.Read(b)
	w.stop.Reset(stall)
	if w.left -= int64(n); w.left < 0 {
		return 0, &http.MaxBytesError{}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = errors.Join(errBody, err)
	}
	return n, err
}
