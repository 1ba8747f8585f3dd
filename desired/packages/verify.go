package packages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/signed"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// ErrUnverified is returned for a package that isn't signed as its repository must be, or that
// nobody vouches for. It is shown, and nothing is made of it.
var ErrUnverified = errors.New("the package isn't verified")

// HostVerification is what the host demands of package repositories, by name, whatever
// repositories.yaml says: a commit alone can't weaken it. nil demands nothing.
type HostVerification struct {
	files map[string]string // by name of the repository; "*" is each one that has none
	mu    sync.Mutex
	last  map[string]desired.Verification
}

// LoadHostVerification reads what is demanded from files by name of the repository, or "*" for
// those that have none. A file holds lines of allowed signers, OpenPGP keys, and certificates in
// PEM for the signatures of manifests; what it has none of isn't demanded. It is read again at
// each fetch.
func LoadHostVerification(files map[string]string) (*HostVerification, error) {
	if len(files) == 0 {
		return nil, nil
	}
	h := &HostVerification{files: files}
	return h, h.read()
}

// read reads the files. Where one can't be read, all count as they last did.
func (h *HostVerification) read() error {
	if h == nil {
		return nil
	}
	next := map[string]desired.Verification{}
	for name, file := range h.files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("keys for package repository %s: %w", name, err)
		}
		v, err := parseHost(string(data))
		if err != nil {
			return fmt.Errorf("keys for package repository %s: %s: %w", name, file, err)
		}
		next[name] = v
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = next
	return nil
}

// parseHost takes the certificates out of a text of keys.
func parseHost(text string) (v desired.Verification, err error) {
	const begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
	for {
		before, rest, ok := strings.Cut(text, begin)
		if !ok {
			break
		}
		body, after, ok := strings.Cut(rest, end)
		if !ok {
			return v, errors.New("a certificate has no end")
		}
		v.CSAR += begin + body + end + "\n"
		text = before + after
	}
	if v.CSAR != "" {
		if _, err := desired.ParseCertificates(v.CSAR); err != nil {
			return v, err
		}
		if !slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool { l = strings.TrimSpace(l); return l != "" && l[0] != '#' }) {
			return v, nil
		}
	}
	v.Signers = text
	_, err = signed.ParseKeys(text)
	return v, err
}

// of is what is demanded of the repository: the host's word, and where it says nothing, that of
// repositories.yaml.
func (h *HostVerification) of(r desired.Repository) desired.Verification {
	v := r.Verify
	if h == nil {
		return v
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	pin, ok := h.last[r.Name]
	if !ok {
		pin = h.last["*"]
	}
	v.Signers, v.CSAR = cmp.Or(pin.Signers, v.Signers), cmp.Or(pin.CSAR, v.CSAR)
	return v
}

// SetHostVerification makes the host's demands count. It is called before anything is read.
func (c *Catalogue) SetHostVerification(h *HostVerification) { c.host = h }

// demand is a [desired.Verification] that is ready to be used.
type demand struct {
	desired.Verification
	keys  *signed.Keys
	roots *x509.CertPool
	id    string // equal for equal demands; "" demands nothing
}

func newDemand(v desired.Verification) (d demand, err error) {
	if v == (desired.Verification{}) {
		return demand{}, nil
	}
	d.Verification = v
	if v.Signers != "" {
		if d.keys, err = signed.ParseKeys(v.Signers); err != nil {
			return d, err
		}
	}
	if v.CSAR != "" {
		certs, err := desired.ParseCertificates(v.CSAR)
		if err != nil {
			return d, err
		}
		d.roots = x509.NewCertPool()
		for _, c := range certs {
			d.roots.AddCert(c)
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %t %q", v.Signers, v.Tags, v.CSAR))
	d.id = hex.EncodeToString(sum[:])
	return d, nil
}

// proofAge is for how long a signature that was found good, or a package that wasn't, isn't
// looked at again: certificates end. A key's own end is seen at the next fetch.
const proofAge = 10 * time.Minute

// proofs remember what was verified. The zero value knows nothing.
type proofs struct{ byKey sync.Map }

// proof is what came of a look.
type proof struct {
	err   error
	until time.Time
}

// of returns what the look says, or said before.
func (p *proofs) of(key string, now time.Time, look func() (until time.Time, err error)) error {
	if known, ok := p.byKey.Load(key); ok && now.Before(known.(proof).until) {
		return known.(proof).err
	}
	end, err := look()
	if errors.Is(err, errStore) {
		return err
	}
	until := now.Add(proofAge)
	if !end.IsZero() && end.Before(until) {
		until = end
	}
	p.byKey.Store(key, proof{err, until})
	return err
}

// version checks the signature of a version: that of its tag, or of its commit where the tag has
// none. A tag whose signature is wrong isn't saved by a good commit.
func (b *builder) version(d demand, v version) error {
	if d.keys == nil {
		return nil
	}
	key := d.id + " " + v.name + " " + v.tag + " " + v.commit
	return b.proofs.of(key, b.now, func() (time.Time, error) {
		if v.tag != "" {
			_, raw, err := b.store.get(v.tag, git.KindTag)
			if err != nil {
				return time.Time{}, err
			}
			by, at, err := d.keys.Tag(raw, v.name, b.now)
			switch {
			case err == nil && at != v.commit:
				return time.Time{}, fmt.Errorf("%w: the tag names the commit %s and leads to %s", ErrUnverified, at, v.commit)
			case err == nil:
				return by.Until, nil
			case d.Tags || !errors.Is(err, signed.ErrNoSignature):
				return time.Time{}, unverified(err)
			}
		} else if d.Tags {
			return time.Time{}, fmt.Errorf("%w: its tag isn't an annotated one, which could be signed (git tag -s)", ErrUnverified)
		}
		_, raw, err := b.store.get(v.commit, git.KindCommit)
		if err != nil {
			return time.Time{}, err
		}
		by, err := d.keys.Commit(raw, b.now)
		return by.Until, unverified(err)
	})
}

// manifest checks the signature of a package's manifest, which must have the checksum of each of
// its files.
func (b *builder) manifest(d demand, tree string) error {
	if d.roots == nil {
		return nil
	}
	return b.proofs.of(d.id+" "+tree, b.now, func() (time.Time, error) {
		p, _, err := load(b.store, tree)
		if err != nil {
			return time.Time{}, err
		}
		trust := csar.Trust{Roots: d.roots, Required: true, Now: func() time.Time { return b.now }}
		var signer string
		lost := reading(b.store.ctx, p, func(p *vnfd.Package) { signer, err = trust.VerifyManifest(p.Files) })
		switch {
		case lost != nil:
			err = lost
		case err == nil && signer == "":
			err = errors.New("its manifest isn't signed, as verify: csar: demands")
		case err == nil:
			err = verifyArtifacts(b.store.ctx, p)
		}
		return time.Time{}, unverified(err)
	})
}

// remedyUnverified is what to do about a package that isn't verified.
const remedyUnverified = "sign its version as its repository must be, with a key that is trusted, and push that there"

// hide makes a package that isn't signed as it must be one that is only shown.
func (b *builder) hide(p Unusable, why error, s summary) {
	p.Err = why
	b.next.problems = append(b.next.problems, p)
	b.next.unverified[p.Tree] = p
	if b.next.hidden[p.VnfdID] == nil {
		b.next.hidden[p.VnfdID] = &Entry{Repository: p.Repository, Ref: p.Ref, Path: p.Path, Tree: p.Tree, VnfdID: p.VnfdID, Version: p.Version, About: s.about}
	}
}

func unverified(err error) error {
	if err == nil || errors.Is(err, errStore) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnverified, err)
}

// remember notes what can be used now.
func (o *offers) remember(ix *index) {
	for tree, e := range ix.trees {
		o.byTree.Store(tree, offer{e.Repository, ix.demands[e.Repository]})
	}
}

// offers remember which trees could be used, and why. The zero value knows none.
type offers struct{ byTree sync.Map }

// offer is the reason: a repository, and what was demanded of it.
type offer struct{ repository, demand string }

// vouched says whether anybody vouches for the tree now, or did for what is only about to run: a
// repository whose demand it met and that demands the same still, or, where nothing is demanded
// anywhere, one that had it once. What is merely in the store may have been brought there by a
// push.
func (c *Catalogue) vouched(ctx context.Context, ix *index, tree string) error {
	if ix.trees[tree] != nil {
		return nil
	}
	if p, ok := ix.unverified[tree]; ok {
		return p
	}
	if known, ok := c.offered.byTree.Load(tree); ok {
		o := known.(offer)
		if !ix.demanding || o.demand != "" && ix.demands[o.repository] == o.demand {
			return nil
		}
	}
	if ix.demanding {
		return fmt.Errorf("%w: no repository has it now, and so nobody vouches for it", ErrUnverified)
	}
	if _, ok := c.pinned.Load(tree); ok {
		return nil
	}
	refs, err := c.refNames(ctx, pins+tree)
	if err != nil {
		return fmt.Errorf("package %s: %w", tree, err)
	}
	if len(refs) == 0 {
		return fmt.Errorf("%w: no repository has it, and it never ran here", ErrUnverified)
	}
	return nil
}
