package gitrepo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// apartFor is for how long notes and pins aren't pushed together with commits any more where the
// remote refuses that, as its hooks may: one of the refs is refused, and so are all.
const apartFor = 10 * time.Minute

// rest is what the remote gets beside the branch: the notes and the pins of packages that it
// doesn't have yet. They travel with a batch's commits, in one push, of which each ref is taken or
// refused by itself: what is refused of the rest doesn't fail the commits, and is tried again.
type rest struct {
	notes string // the commit of the notes
	pins  string // all pins, as git lists them
	specs []string
}

func (w rest) none() bool { return len(w.specs) == 0 }

// restState is what is known of the remote's notes and pins.
type restState struct {
	mu          sync.Mutex
	notes, pins string    // what it has, as rest has it
	apart       time.Time // until then they are pushed alone
}

// restToPush returns what the remote doesn't have yet, and nothing where that can't be said: the
// next push does it. Alone says that no commits are pushed with it.
func (r *Repo) restToPush(ctx context.Context, alone bool) rest {
	s := &r.rest
	s.mu.Lock()
	hasNotes, hasPins, apart := s.notes, s.pins, s.apart
	s.mu.Unlock()
	var w rest
	if !alone && time.Now().Before(apart) {
		return w
	}
	if notes, err := git.ReadRef(r.opt.Dir, objects.NotesRef); err == nil && notes != "" && notes != hasNotes {
		w.notes = notes
		w.specs = append(w.specs, notes+":"+objects.NotesRef)
	}
	pins, err := r.read.Git.Run(ctx, "for-each-ref", "--format=%(refname)", strings.TrimSuffix(pinRefs, "/*"))
	if err == nil && pins != "" && pins != hasPins {
		w.pins = pins
		w.specs = append(w.specs, pinRefs+":"+pinRefs)
	}
	return w
}

// restOfRound is what a batch takes along that has begun anew n times. One that was overtaken goes
// with as little as possible, for the remote has to look at each ref; the rest waits for the next.
// Where pushes are kept apart, that would be too long.
func (r *Repo) restOfRound(ctx context.Context, n int) rest {
	if r.opt.Remote == "" || n > 0 && r.opt.PushInterval == 0 {
		return rest{}
	}
	return r.restToPush(ctx, false)
}

// restPushed notes what a push with the rest has brought the remote. out is what git says of it,
// where not all was taken.
func (r *Repo) restPushed(w rest, out string, err error) {
	notes, pins, refused := err == nil, true, false
	if err != nil {
		for name, is := range refReports(out) {
			switch name {
			case r.read.Ref():
				continue // what became of the commits is known
			case objects.NotesRef:
				notes = is.taken() // else others have written some, which are joined before the next push
			default:
				pins = pins && is.taken()
			}
			refused = refused || is.byRemote() && !is.overtaken()
		}
	}
	if refused {
		r.restApart(err)
	}
	r.rest.mu.Lock()
	defer r.rest.mu.Unlock()
	if w.notes != "" && notes {
		r.rest.notes = w.notes
	}
	if w.pins != "" && pins {
		r.rest.pins = w.pins
	}
}

// restApart has the next commits pushed without the rest.
func (r *Repo) restApart(err error) {
	r.log.Warn("the remote refused some of a push: commits are pushed without notes and pins for some time", "for", apartFor, "error", err)
	r.rest.mu.Lock()
	defer r.rest.mu.Unlock()
	r.rest.apart = time.Now().Add(apartFor)
}

// pushRest pushes what no commits have taken along, best effort: the next poll tries again.
func (r *Repo) pushRest(ctx context.Context) {
	if r.restToPush(ctx, true).none() {
		return
	}
	if k, ok := r.pace.idle(ctx); ok {
		r.pushRestBy(ctx, k)
	}
}

// pushRestBy is pushRest for who has a permit, which it ends. It returns whether somebody else's notes came first.
func (r *Repo) pushRestBy(ctx context.Context, k permit) (overtaken bool) {
	ctx, cancel := context.WithTimeout(ctx, r.opt.remoteTimeout)
	defer cancel()
	if err := r.joinRemoteNotes(ctx); err != nil {
		r.log.Warn("notes of others not joined", "ref", objects.NotesRef, "error", err)
	}
	w := r.restToPush(ctx, true)
	if w.none() {
		k.end(false)
		return false
	}
	defer k.end(true)
	out, err := r.read.Git.Run(ctx, append([]string{"push", "--quiet", "--porcelain", "--no-verify", "--", r.opt.Remote}, w.specs...)...)
	notes := reportOf(out, objects.NotesRef)
	overtaken = err != nil && (notes.byGit() || notes.overtaken())
	switch {
	case overtaken:
		r.log.Info("notes of another replica came first: ours are joined with them, and pushed again", "ref", objects.NotesRef)
	case err != nil:
		r.log.Warn("notes, or pins of packages, not pushed: only this mirror has them until a later push takes them along", "error", err)
	}
	r.restPushed(w, out, err)
	return overtaken
}

// shareTries bounds how often notes are shared again that others were faster than.
const shareTries = 5

// ShareNotes has the remote get all notes, best effort, as soon as a push may be made, also those that wait for
// commits that would take them along: another replica is about to read them.
func (r *Repo) ShareNotes(ctx context.Context) {
	r.flushNotes(ctx, true)
	if r.opt.Remote == "" {
		return
	}
	for range shareTries {
		if r.restToPush(ctx, true).notes == "" {
			return
		}
		k, err := r.pace.wait(ctx)
		if err != nil || !r.pushRestBy(ctx, k) {
			return
		}
	}
	r.log.Warn("notes not shared, as those of others came first each time: a history that is rebuilt now may lack operations of this replica; a later push takes them along",
		"ref", objects.NotesRef, "tries", shareTries)
}

// gatherNotes writes the notes that wait, joined with the remote's, so that the next push takes
// them along.
func (r *Repo) gatherNotes(ctx context.Context) {
	r.flushNotes(ctx, false)
	ctx, cancel := context.WithTimeout(ctx, r.opt.remoteTimeout)
	defer cancel()
	if err := r.joinRemoteNotes(ctx); err != nil {
		r.log.Warn("notes of others not joined", "ref", objects.NotesRef, "error", err)
	}
}

// joinRemoteNotes makes notes that the remote lacks the union of its and ours, which it takes.
func (r *Repo) joinRemoteNotes(ctx context.Context) error {
	ours, err := git.ReadRef(r.opt.Dir, objects.NotesRef)
	if err != nil || ours == "" {
		return err
	}
	r.rest.mu.Lock()
	has := r.rest.notes == ours
	r.rest.mu.Unlock()
	if has {
		return nil
	}
	theirs, err := r.remoteRef(ctx, objects.NotesRef)
	if err != nil || theirs == "" || theirs == ours {
		return err
	}
	if joined, err := r.has(ctx, theirs, ours); err != nil || joined {
		return err
	}
	return r.joinNotes(ctx)
}

// joinNotes makes the union of the remote's notes and ours.
func (r *Repo) joinNotes(ctx context.Context) error {
	if _, err := r.fetch(ctx, objects.NotesRef, fetchedNotes, r.opt.remoteTimeout); err != nil {
		return err
	}
	r.move.Lock()
	defer r.move.Unlock()
	name, mail, _ := strings.Cut(git.Ident(r.opt.Author, r.opt.Author), " <")
	if _, err := r.read.Git.Run(ctx, "-c", "user.name="+name, "-c", "user.email="+strings.TrimSuffix(mail, ">"),
		"notes", "--ref="+objects.NotesRef, "merge", "--quiet", "--strategy=union", fetchedNotes); err != nil {
		return fmt.Errorf("join notes: %w", err)
	}
	return nil
}
