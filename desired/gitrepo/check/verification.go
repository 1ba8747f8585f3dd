package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/signed"
)

// ErrUnverified is returned for commits that nobody has signed whose key the host trusts.
var ErrUnverified = errors.New("not signed as --verify-desired demands")

// Verification says whose commits are obeyed: those that are signed by a key in a file of the host,
// and Jibe's own, which it signs itself. nil obeys all.
type Verification struct {
	File string
	own  *signed.Key // nil trusts no commit of Jibe's, as for a push
}

// NewVerification reads trusted keys, lines of allowed signers and OpenPGP keys, from a file. It is
// read again each time that commits are verified, so that a key can be taken away at any time. seed
// makes the key of this installation's own commits, 32 bytes that always are the same.
func NewVerification(file string, seed []byte) (*Verification, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	own, err := signed.NewKey(seed)
	if err != nil {
		return nil, err
	}
	v := &Verification{File: file, own: own}
	_, err = v.keys()
	return v, err
}

// Own is the line by which another installation's file of keys trusts the commits of this one.
func (v *Verification) Own() string { return v.own.Allowed("jibe") }

func (v *Verification) keys() (*signed.Keys, error) {
	data, err := os.ReadFile(v.File)
	if err != nil {
		return nil, fmt.Errorf("trusted keys: %w", err)
	}
	keys, err := signed.ParseKeys(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.File, err)
	}
	if v.own == nil {
		return keys, nil
	}
	own, err := signed.ParseKeys(v.Own())
	if err != nil {
		return nil, err
	}
	return keys.And(own), nil
}

// Sign signs a commit of Jibe's own, where commits are verified.
func (v *Verification) Sign(commit []byte) []byte {
	if v == nil {
		return commit
	}
	data, err := v.own.Commit(commit)
	if err != nil {
		panic(err) // it was made by this process, and a key in memory doesn't fail
	}
	return data
}

// verifiedAtOnce is how many commits are read at once.
const verifiedAtOnce = 500

// Verify refuses the commits that come on top of head, "" for none, up to hash, unless each on the
// line of first parents is signed. What a merge brings in is vouched for by who signed the merge.
// Where there is no head, hash alone is looked at: its signature covers all that it holds. It
// returns the signers, each with the first of their commits.
func (r *Checker) Verify(ctx context.Context, v *Verification, head, hash string) (by []CommitSigner, err error) {
	if v == nil {
		return nil, nil
	}
	keys, err := v.keys()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	commits := []string{hash}
	if head != "" {
		out, err := r.Git.Run(ctx, "rev-list", "--first-parent", hash, "^"+head, "--")
		if err != nil {
			return nil, fmt.Errorf("verify commits: %w", err)
		}
		commits = strings.Fields(out)
	}
	now := time.Now()
	seen := map[string]bool{}
	for len(commits) > 0 {
		n := min(len(commits), verifiedAtOnce)
		some := commits[:n]
		commits = commits[n:]
		err := r.Objects.Scan(ctx, git.KindCommit, some, func(i int, data []byte, err error) error {
			if err != nil {
				return r.Damaged("commit "+some[i], err)
			}
			signer, err := keys.Commit(data, now)
			if err != nil {
				c, _ := git.ParseCommit(data)
				return fmt.Errorf("%w: commit %s, which says that it is by %.100q: %w", ErrUnverified, some[i], c.Author, err)
			}
			if !seen[signer.Key] {
				seen[signer.Key] = true
				by = append(by, CommitSigner{Commit: some[i], Key: signer.Key, Names: signer.Names()})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return by, nil
}

// CommitSigner is who has signed commits of a push.
type CommitSigner struct {
	Commit string `json:"commit"` // one of those that the key has signed
	Key    string `json:"key"`    // its fingerprint
	// Names are what the file of trusted keys calls the key's owner.
	Names []string `json:"names"`
}

// CheckSigned returns the reasons for which a push of the desired branch is refused where commits
// must be signed by a key in the file, and else who has signed. An error means that the push
// couldn't be checked, and must be refused too.
func (r *Checker) CheckSigned(ctx context.Context, updates []RefUpdate, file string) (out []*desired.Problem, by []CommitSigner, err error) {
	for _, u := range updates {
		if u.Ref != r.Ref() || u.New == "" {
			continue
		}
		signers, err := r.Verify(ctx, &Verification{File: file}, u.Old, u.New)
		by = append(by, signers...)
		if errors.Is(err, ErrUnverified) {
			out = append(out, &desired.Problem{File: u.Ref, Message: err.Error(), Remedy: "sign the commits (git commit -S, or git rebase -S), with a key that the host trusts"})
		} else if err != nil {
			return nil, nil, err
		}
	}
	return out, by, nil
}
