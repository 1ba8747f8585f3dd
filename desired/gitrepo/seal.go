package gitrepo

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/signed"
)

// sealTrailer begins the last line of Jibe's own commits. It shows to who has the
// installation's key that Jibe wrote the commit, with all that it says.
const sealTrailer = "Jibe-Seal: "

// seal authenticates parts by the installation's key.
func (r *Repo) seal(parts ...string) string {
	h := hmac.New(sha256.New, r.opt.Key)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// encode makes the commit of a write, sealed where there is a key. Others are merged by it.
func (r *Repo) encode(tree, parent string, w desired.Write, others ...string) []byte {
	text := message.Of(w)
	if len(r.opt.Key) > 0 && len(w.Trailers) == 0 {
		text += "\n" // before the trailers
	}
	data := git.EncodeCommit(tree, parent, w.By, r.opt.Author, r.opt.Now(), text, others...)
	if len(r.opt.Key) > 0 {
		data = append(data, sealTrailer+r.seal("commit", string(data))+"\n"...) // a message is the end of a commit
	}
	return data
}

// Sealed says whether Jibe made the commit, with this installation's key: whoever else writes
// the same words into a message can't seal them.
func (r *Repo) Sealed(ctx context.Context, commit string) (bool, error) {
	data, err := r.read.Objects.Get(ctx, git.KindCommit, commit)
	if err != nil {
		return false, r.read.Damaged("commit "+commit, err)
	}
	return r.sealed(data), nil
}

// own is [Repo.Sealed] where there is a key. Without one no commit can be told from another.
func (r *Repo) own(ctx context.Context, commit string) (bool, error) {
	if len(r.opt.Key) == 0 {
		return true, nil
	}
	return r.Sealed(ctx, commit)
}

func (r *Repo) sealed(data []byte) bool {
	data = signed.Unsigned(data) // the signature is made of what is sealed already
	i := bytes.LastIndex(data, []byte("\n"+sealTrailer))
	if i < 0 || len(r.opt.Key) == 0 {
		return false
	}
	said, want := data[i+1:], sealTrailer+r.seal("commit", string(data[:i+1]))+"\n"
	return hmac.Equal(said, []byte(want))
}

// claimsSeal says whether a commit looks like one of Jibe's. Anybody can have it look so: it is for
// who has no key and only looks.
func claimsSeal(commit []byte) bool {
	_, trailers := message.Said(signed.Unsigned(commit))
	return trailers[strings.TrimSuffix(sealTrailer, ": ")] != ""
}
