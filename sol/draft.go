package sol

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// Draft is the commit that a request would make: all of it but the trailer that names the
// operation, whose id is chosen when the request is made.
type Draft struct {
	Instance string
	Type     lcm.Type
	// At is the instance's directory as the commit found it.
	At            desired.Revision
	Subject, Body string
	Trailers      []desired.Trailer
	// By is the author, as git writes people.
	By string
	// Old and Files are the directory's content before and after the commit.
	Old, Files desired.Files
	// override is the reason for which the operation begins outside of its windows, "" where it doesn't.
	override string
	// beside leaves alone what waits at head, nil where nothing does.
	beside *desired.Beside
}

// Text is the content of vnf.yaml after the commit, "" where there would be none.
func (d *Draft) Text() string { return string(d.Files[desired.InstanceFile]) }

// Digest identifies the commit: two drafts with the same one lead from the same directory to the same
// files, with the same message and author.
func (d *Draft) Digest() string {
	b, err := json.Marshal([]any{d.Instance, d.At.Dir, d.At.Tree, d.Subject, d.Body, d.Trailers, d.By, d.Files})
	if err != nil {
		panic(err) // texts and bytes can always be written
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Write is the draft as a commit.
func (d *Draft) Write() desired.Write {
	return desired.Write{Instance: d.Instance, Dir: d.At.Dir, Subject: d.Subject, Body: d.Body, Trailers: d.Trailers, By: d.By, Beside: d.beside,
		Change: func(at desired.Revision, _ desired.Files) (desired.Files, error) {
			if at.Tree != d.At.Tree {
				return nil, ErrMoved
			}
			return d.Files, nil
		}}
}

// ErrMoved is returned for a write that isn't the one which was shown: the instance's directory, or
// what the commit is made of, has changed meanwhile. Nothing was written.
var ErrMoved = errors.New("what the commit would be has changed since it was shown")

// awaited is what somebody wants of a request beside its answer.
type awaited struct {
	// only has the request end with its draft, before anything is written.
	only bool
	// digest is that of the only draft that may be committed, "" for any.
	digest string
	// made is the draft.
	made *Draft
}

type awaitedKey struct{}

// drafted tells who waits for it what the request will commit. done says that the request ends here.
func drafted(ctx context.Context, d *Draft) (done bool, err error) {
	w, ok := ctx.Value(awaitedKey{}).(*awaited)
	if !ok {
		return false, nil
	}
	w.made = d
	if w.digest != "" && w.digest != d.Digest() {
		return false, moved("%v: look at it again", ErrMoved)
	}
	return w.only, nil
}

// movedError is the answer to a request whose commit isn't the one which was shown.
type movedError struct{ refused rest.InvalidError }

func (e *movedError) Error() string { return e.refused.Detail }

func moved(format string, args ...any) error {
	return &movedError{rest.InvalidError{Status: http.StatusConflict, Detail: fmt.Sprintf(format, args...)}}
}

// Unwrap has the error be both what it means and how it is answered.
func (e *movedError) Unwrap() []error { return []error{ErrMoved, &e.refused} }

// draft is what the operation will commit.
func (a *api) draft(ctx context.Context, k known, op lcm.Operation, note string, old, files desired.Files) *Draft {
	return &Draft{Instance: k.id, Type: op.Type, At: k.head.Revision, Subject: fmt.Sprintf("%s %s", op.Type, k.head.Dir), Body: note,
		Trailers: trailers("", string(op.Type), op.RequestedBy), By: Author(rest.Caller(ctx)), Old: old, Files: files}
}

// File is the path of the draft's vnf.yaml in the desired repository.
func (d *Draft) File() string { return path.Join(d.At.Dir, desired.InstanceFile) }
