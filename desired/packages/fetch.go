package packages

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

const (
	// fetchTime is what a fetch may take; a big first one needs most of it.
	fetchTime = 10 * time.Minute
	// localTime is what a command on the repository itself may take.
	localTime = time.Minute
)

// streamed has git pass large files on as they come, in place of holding them in memory.
const streamed = "core.bigFileThreshold=4m"

// newRunner runs git on the desired repository, whose object store the packages share.
// Fetches of several upstreams, pins and the desired repository's own writes meet there,
// so that each waits for the others' locks.
func newRunner(dir string) git.Runner {
	config := []string{"core.packedRefsTimeout=10000", "core.filesRefLockTimeout=10000", streamed}
	for _, id := range ofContent {
		config = append(config, "fetch.fsck."+id+"=warn")
	}
	return git.Runner{Dir: dir, Foreign: true, Config: config}
}

// ofContent are git's names for what is wrong with files and folders, in contrast to commits and tags (git-fsck(1)). A fetch
// takes them: otherwise one package, in whichever version, would hide all others of its repository. Nothing is ever checked
// out, and the catalogue refuses the package that has them.
var ofContent = []string{
	"emptyName", "fullPathname", "hasDot", "hasDotdot", "hasDotgit", "largePathname", "nullSha1", "duplicateEntries", "treeNotSorted",
	"gitmodulesBlob", "gitmodulesLarge", "gitmodulesMissing", "gitmodulesName", "gitmodulesPath", "gitmodulesSymlink", "gitmodulesUpdate", "gitmodulesUrl",
	"gitattributesBlob", "gitattributesLarge", "gitattributesLineLength", "gitattributesMissing",
}

// fetchRefs brings refspec from the repository at url, and removes what upstream
// removed.
func (c *Catalogue) fetchRefs(ctx context.Context, url, refspec string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	runner := c.git
	// No redirect leads to another protocol, which anybody on the way might read and change.
	runner.Env = append(slices.Clip(runner.Env), "GIT_ALLOW_PROTOCOL="+protocol(url))
	for try := 1; ; try++ {
		_, err := runner.Run(ctx, "fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
			"--no-recurse-submodules", "--refmap=", "--", url, refspec)
		if try == fetchTries || !metAnother(err) {
			return err
		}
	}
}

// fetchTries is how often a fetch is begun that meets another in its middle.
const fetchTries = 5

// metAnother says whether a fetch failed for a ref of a proposal: git compares what came with all
// refs, and has listed its objects before another fetch brought the one that such a ref names.
func metAnother(err error) bool {
	var failed *git.Error
	return errors.As(err, &failed) && strings.Contains(failed.Stderr, "bad object "+proposed)
}

// protocol is git's name of the way to the URL.
func protocol(url string) string {
	scheme, _, ok := strings.Cut(url, "://")
	switch {
	case ok:
		return scheme
	case strings.Contains(url, ":"):
		return "ssh"
	}
	return "file"
}

// refs returns the refs below prefix that lead to a commit.
func (c *Catalogue) refs(ctx context.Context, prefix string) ([]git.Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, localTime)
	defer cancel()
	refs, err := c.git.Refs(ctx, prefix)
	if err == nil || ctx.Err() != nil {
		return refs, err
	}
	// git describes no ref at all where one leads to a damaged object.
	sound, failed := c.git.RefsOfDamaged(ctx, prefix)
	if failed != nil {
		return nil, err
	}
	return sound, nil
}

// refNames returns the names of the refs below prefix.
func (c *Catalogue) refNames(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, localTime)
	defer cancel()
	return c.git.RefNames(ctx, prefix)
}

func (c *Catalogue) deleteRefs(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, localTime)
	defer cancel()
	return c.git.DeleteRefs(ctx, names)
}

// setRef makes name point at the object; durable when it returns.
func (c *Catalogue) setRef(ctx context.Context, name, object string) error {
	ctx, cancel := context.WithTimeout(ctx, localTime)
	defer cancel()
	return c.git.SetRef(ctx, name, object)
}

// location is what git fetches from.
func (c *Catalogue) location(r desired.Repository) string {
	if strings.Contains(r.URL, ":") || filepath.IsAbs(r.URL) {
		return r.URL
	}
	return filepath.Join(c.packages, filepath.FromSlash(r.URL))
}

const (
	upstream = "refs/jibe/upstream/"
	proposed = "refs/jibe/proposed/" // then a name of the process, then one of the proposal
	pins     = "refs/jibe/packages/"
)

// refspec says what of the repository is fetched, and to below which prefix.
func refspec(r desired.Repository, prefix string) string {
	to := prefix + r.Name
	switch {
	case r.Branch != "":
		return fmt.Sprintf("+refs/heads/%s:%s/heads/%s", r.Branch, to, r.Branch)
	case r.Tags == "":
		return fmt.Sprintf("+HEAD:%s/HEAD", to)
	case strings.Count(r.Tags, "*") == 1 && !strings.ContainsAny(r.Tags, `?[]\^~: `) && !strings.Contains(r.Tags, ".."):
		return fmt.Sprintf("+refs/tags/%s:%s/tags/%s", r.Tags, to, r.Tags)
	}
	// Git knows no other patterns: the rest is left out when reading.
	return fmt.Sprintf("+refs/tags/*:%s/tags/*", to)
}

// wanted says whether a fetched ref, such as "tags/v1.2", is one that the
// repository's entry asks for, and its short name.
func wanted(r desired.Repository, ref string) (string, bool) {
	kind, name, _ := strings.Cut(ref, "/")
	switch {
	case r.Branch != "":
		return name, kind == "heads" && name == r.Branch
	case r.Tags == "":
		return kind, ref == "HEAD"
	}
	ok, err := path.Match(r.Tags, name)
	return name, kind == "tags" && err == nil && ok
}
