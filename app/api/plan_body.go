package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/auth"
)

// MostPlanMemory bounds what all plans hold at once, in bytes. One of 100,000 instances of usual size fits.
const MostPlanMemory = 512 << 20

// Bounds of the parts of a proposal, in bytes as they are sent.
const (
	mostFileSent     = 8 << 20 // a file of 1 MiB in which each character is escaped
	mostSettingsSent = 16 << 20
	mostTouchedSent  = 32 << 20
)

// beginPlan waits for the caller's turn, and returns the context in which a review counts.
func (s *API) beginPlan(ctx context.Context, who auth.Identity) (context.Context, *admission.Hold, error) {
	hold, err := s.Plans.Begin(ctx, who.Issuer+"\x00"+who.Name)
	if err != nil {
		return nil, nil, err
	}
	return admission.WithHold(ctx, hold), hold, nil
}

// partReader bounds what is read for one part of a body.
type partReader struct {
	io.Reader
	left int64
	most int64
}

// errPartTooLarge is returned for a part of a body that is larger than it may be.
type errPartTooLarge struct{ most int64 }

func (e *errPartTooLarge) Error() string {
	return fmt.Sprintf("a part of the proposal (a file, or the settings) is larger than %d bytes", e.most)
}

func (r *partReader) next(most int64) { r.left, r.most = most, most }

// Read implements [io.Reader].
func (r *partReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, &errPartTooLarge{most: r.most}
	}
	n, err := r.Reader.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// planBody reads a proposal part by part, so that what it unfolds to is counted before it is held.
type planBody struct {
	*json.Decoder
	from *partReader
	hold *admission.Hold
}

// readPlan reads the body of a request that is to be planned; where it can't, it answers.
func readPlan(w http.ResponseWriter, r *http.Request, hold *admission.Hold) (*admission.Proposal, bool) {
	from := &partReader{Reader: http.MaxBytesReader(w, r.Body, admission.MostSent)}
	b := planBody{Decoder: json.NewDecoder(from), from: from, hold: hold}
	b.DisallowUnknownFields()

	p, err := b.proposal()
	if err != nil {
		respondUnplanned(w, err)
		return nil, false
	}
	return p, true
}

// respondUnplanned answers for a body that can't be read, and a plan that can't be made now.
func respondUnplanned(w http.ResponseWriter, err error) {
	if part := (*errPartTooLarge)(nil); errors.As(err, &part) {
		answer.Problem(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	answer.Unplanned(w, err)
}

func (b planBody) proposal() (*admission.Proposal, error) {
	p := &admission.Proposal{}
	seen := map[string]bool{}
	err := b.each('{', func() error {
		b.from.next(mostFileSent)
		token, err := b.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if seen[key] {
			return fmt.Errorf("%q stands twice in the proposal", key)
		}
		seen[key] = true

		switch key {
		case "settings":
			return b.part(mostSettingsSent, &p.Settings)
		case "touched":
			return b.part(mostTouchedSent, &p.Touched)
		case "effect":
			return b.part(mostFileSent, &p.Effect)
		case "instances":
			return b.instances(p)
		case "rollouts":
			return b.rollouts(p)
		}
		return fmt.Errorf("json: unknown field %q", key)
	})
	return p, err
}

// each reads an object or an array, or a null, that begins with open; one reads a member.
func (b planBody) each(open json.Delim, one func() error) error {
	b.from.next(mostFileSent)
	token, err := b.Token()
	switch {
	case err != nil:
		return err
	case token == nil:
		return nil
	case token != open:
		return fmt.Errorf("the proposal has %v where %v belongs", token, open)
	}

	for b.More() {
		if err := one(); err != nil {
			return err
		}
	}
	_, err = b.Token()
	return err
}

func (b planBody) instances(p *admission.Proposal) error {
	return b.each('[', func() error {
		var c admission.Candidate
		b.from.next(mostFileSent)
		if err := b.Decode(&c); err != nil {
			return err
		}
		p.Instances = append(p.Instances, c)

		return b.hold.TakeCandidate(c)
	})
}

func (b planBody) rollouts(p *admission.Proposal) error {
	return b.each('{', func() error {
		b.from.next(mostFileSent)
		name, err := b.Token()
		if err != nil {
			return err
		}
		c := admission.Candidate{Dir: name.(string)} // keys of objects are strings
		if err := b.Decode(&c.File); err != nil {
			return err
		}
		if p.Rollouts == nil {
			p.Rollouts = map[string]string{}
		}
		p.Rollouts[c.Dir] = c.File

		return b.hold.TakeCandidate(c)
	})
}

// part counts what a member unfolds to before it is unfolded.
func (b planBody) part(most int64, into any) error {
	var raw json.RawMessage
	b.from.next(most)
	if err := b.Decode(&raw); err != nil {
		return err
	}
	const perObject = 1 << 10 // an empty VIM
	objects := int64(0)
	for _, c := range raw {
		if c == '{' {
			objects++
		}
	}
	if err := errors.Join(b.hold.Take(objects*perObject), b.hold.TakeFile(string(raw))); err != nil {
		return err
	}

	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
