package secret

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Survey says which references of a desired repository stand where new ones would be refused.
type Survey struct {
	Counts
	// OfVIMs are files of instances that name what a file under vims/ or peers.yaml names, and Outside those that name
	// what their project doesn't have.
	OfVIMs, Outside []string
}

// maxSurveyed is the most that a file may have to be looked into, in bytes.
const maxSurveyed = 4 << 20

// Look surveys a commit or branch of the desired repository, whose settings are those.
func Look(ctx context.Context, k *Keeper, repo git.Runner, at string, settings *desired.Settings) (s Survey, err error) {
	entries, err := (&scan{}).list(ctx, repo, "ls-tree", "-r", "-z", "--full-tree", at)
	if err != nil {
		return s, err
	}
	entries = slices.DeleteFunc(entries, func(e version) bool {
		base := path.Base(e.path)
		return !(strings.HasPrefix(e.path, "instances/") && (base == desired.InstanceFile || base == desired.GrantedFile)) && path.Dir(e.path) != desired.VIMDir && e.path != desired.PeersFile
	})
	objects := git.NewObjects(repo, git.Limits{Blob: maxSurveyed, Tree: maxSurveyed, Commit: maxSurveyed}, 1<<20)
	defer objects.Close()
	foreign := settings.References()
	const batch = 1000
	for part := range slices.Chunk(entries, batch) {
		names := make([]string, len(part))
		for i, e := range part {
			names[i] = e.blob
		}
		if err := objects.Scan(ctx, git.KindBlob, names, func(i int, data []byte, err error) error {
			if err != nil {
				return nil //nolint:nilerr // what can't be read is told elsewhere
			}
			s.look(k, settings, foreign, part[i].path, data)
			return nil
		}); err != nil {
			return s, err
		}
	}
	return s, nil
}

// look adds one file.
func (s *Survey) look(k *Keeper, settings *desired.Settings, foreign []desired.Reference, file string, data []byte) {
	places := NewPlaces(settings)
	if places.Add(file, data) != nil {
		return // as above; a file alone has no value for two places but in one of its own
	}
	c := places.Count(k, data)
	s.Unscoped += c.Unscoped
	s.Misplaced += c.Misplaced
	s.Unreadable += c.Unreadable
	if path.Base(file) != desired.InstanceFile {
		return
	}
	in, err := desired.ParseInstance(file, data)
	if err != nil {
		return
	}
	project := settings.ProjectOf(in.Dir)
	for _, r := range in.References() {
		if r.IsEncrypted() {
			continue
		}
		switch {
		case slices.ContainsFunc(foreign, func(f desired.Reference) bool { return SameSource(f.Ref, r.Ref) }):
			s.OfVIMs = append(s.OfVIMs, file)
		case !project.MayName(r.Ref):
			s.Outside = append(s.Outside, file)
		}
	}
	s.OfVIMs, s.Outside = slices.Compact(s.OfVIMs), slices.Compact(s.Outside)
}
