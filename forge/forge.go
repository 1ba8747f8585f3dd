// Package forge says on a forge (Gitea, GitHub, GitLab) what becomes of commits and pull requests
// of the desired repository: by the status of a commit, by one comment on a pull request, and by
// pull requests that it opens and closes.
//
// It never reads or writes commits: those go by git. It keeps nothing: what it said before is
// found again on the forge, so that everything may be said twice. It never repeats a request and
// never waits between two of them: when to try again is the caller's to decide, by [ErrLimited],
// [ErrAway] and [After].
package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

// State is that of a commit, or of what was asked to be checked of it.
type State string

// The states that all three forges have.
const (
	Pending State = "pending"
	Success State = "success"
	Failure State = "failure"
)

// Status is what one reporter says of one commit.
type Status struct {
	// Context names the reporter: a commit has one status of each. A branch's protection may
	// require that it is success.
	Context string
	State   State
	// Description is one line for people; what is longer than a forge takes is cut.
	Description string
	// Link is the URL of a page with more about it, "" for none.
	Link string
}

// PullRequest is one that is open (GitLab: a merge request).
type PullRequest struct {
	// Number is the one that people know it by (GitLab: the iid).
	Number int64
	// Branch is what is proposed, a branch of the same repository; Base is where it would go.
	Branch, Base string
	// Commit is where Branch was when the forge was asked.
	Commit string
	// Link is the URL of its page.
	Link string
}

// Proposal is a pull request to be opened.
type Proposal struct {
	// Branch is a branch of the repository, which was pushed already; Base is where it is to go.
	Branch, Base string
	Title, Text  string
}

// Outcome is what became of a pull request.
type Outcome struct {
	Open bool
	// Merged is the commit that brought it into its base, "" where none has: the merge, or the last
	// of the commits that were made anew.
	Merged string
}

// Client speaks to one repository on one forge. It is safe for concurrent use. An error is one of
// those below where it has been decided what that means, and holds no credentials.
type Client interface {
	// Check says whether the forge is there, and whether the token's user may read the repository and
	// write to it, as far as the forge tells: [ErrDenied] where it may only read.
	Check(ctx context.Context) error
	// SetStatus MUST leave the commit with this status in its context, and MUST NOT add another
	// where it has that already: forges keep every one, and limit how many.
	SetStatus(ctx context.Context, commit string, s Status) error
	// SetComment MUST leave the pull request with exactly one comment of Jibe's own under this
	// name, whose text is text (Markdown): the one that is there is edited. Comments of others are
	// never touched, whatever they look like. The text is cut where the forge takes less.
	SetComment(ctx context.Context, number int64, name, text string) error
	// Opened returns the open pull requests into base whose branch is one of the repository's own.
	Opened(ctx context.Context, base string) ([]PullRequest, error)
	// Proposed returns the pull request that there is, or was, for the two branches, whatever became of it;
	// any of them where there were several. found is false where there never was one.
	Proposed(ctx context.Context, branch, base string) (is PullRequest, found bool, err error)
	// Outcome says what became of a pull request.
	Outcome(ctx context.Context, number int64) (Outcome, error)
	// Open opens a pull request, or returns the one that is open for the same two branches.
	Open(ctx context.Context, p Proposal) (PullRequest, error)
	// Close closes the pull request that is open for the two branches, if any. It doesn't merge,
	// and leaves the branch.
	Close(ctx context.Context, branch, base string) error
}

// Kind is which forge it is.
type Kind string

// The forges that there are clients for. Forgejo has Gitea's API.
const (
	Gitea  Kind = "gitea"
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
)

// Settings say which repository of which forge, and who Jibe is there.
type Settings struct {
	Kind Kind
	// URL is the forge's, as people open it: https://git.example.org.
	URL string
	// Repository is its path there: OWNER/NAME; groups of GitLab may lie within each other.
	Repository string
	// Token is an access token, in clear. It is sent to the forge alone.
	Token string
	// Transport connects (peer.NewTransport makes one whose addresses are guarded).
	Transport http.RoundTripper
	// Egress says whether the token may be sent in clear; nil is the strictest guard.
	Egress *egress.Guard
}

// requestTimeout bounds one request to a forge, with its answer.
const requestTimeout = 30 * time.Second

// New returns a client. Nothing is called yet.
func New(s Settings) (Client, error) {
	base, err := url.Parse(strings.TrimSuffix(s.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, errors.New("forge: its URL isn't one of https (it may not be told here: it may hold a password)")
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("forge %s: its URL must not hold credentials, a query or a fragment", base.Host)
	}
	if err := s.Egress.MayCarryCredentials(base); err != nil {
		return nil, fmt.Errorf("forge %s: %w", base.Host, err)
	}
	cut := strings.LastIndexByte(s.Repository, '/')
	if cut <= 0 || cut == len(s.Repository)-1 || s.Repository[0] == '/' {
		return nil, fmt.Errorf("forge %s: the repository %q isn't named as OWNER/NAME", base.Host, s.Repository)
	}
	owner, name := s.Repository[:cut], s.Repository[cut+1:]
	if s.Kind != GitLab && strings.Contains(owner, "/") {
		return nil, fmt.Errorf("forge %s: the repository %q has more than one owner", base.Host, s.Repository)
	}
	if s.Token == "" {
		return nil, fmt.Errorf("forge %s: there is no token for it", base.Host)
	}
	if s.Transport == nil {
		return nil, errors.New("forge: no transport was given")
	}
	at := place{url: base, owner: owner, name: name, path: s.Repository, token: s.Token, http: &http.Client{
		Transport: &answers{next: s.Transport, now: time.Now},
		Timeout:   requestTimeout,
		// A token must not go elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	switch s.Kind {
	case Gitea:
		return giteaClient{at}, nil
	case GitHub:
		return newGitHub(at)
	case GitLab:
		return newGitLab(at)
	}
	return nil, fmt.Errorf("forge %s: %q is none that Jibe knows: %s, %s or %s", base.Host, s.Kind, Gitea, GitHub, GitLab)
}

// place is the repository, and how it is reached.
type place struct {
	url               *url.URL
	owner, name, path string
	token             string
	http              *http.Client
}

// said names what was asked in an error of a forge.
func (p place) said(what string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) { // without what the clients have put around it
		err = e
	}
	return fmt.Errorf("%s of %s on %s: %w", what, p.path, p.url.Host, err)
}

// readOnly is the error of a check where the token's user may not write.
func (p place) readOnly(needed string) error {
	return p.said("look", fmt.Errorf("%w: its user may read the repository and not write to it (give it %s)", ErrDenied, needed))
}

// What forges take. The smallest counts for all, so that the same is read everywhere.
const (
	maxDescription = 140    // characters; GitHub
	maxComment     = 65_536 // characters; GitHub refuses more
)

// mark begins a comment of Jibe's; forges don't show it. It names which one of them it is.
func mark(name string) string { return "<!-- jibe: " + name + " -->\n" }

// marked is a comment's text as it is sent.
func marked(name, text string) string {
	const rest = "\n\n… the rest is too long for a comment; `jibe plan` shows all of it."
	m := mark(name)
	return m + cut(text, maxComment-utf8.RuneCountInString(m), rest)
}

// isMarked says whether a comment's text is one that marked made. Some forges give line ends
// another form.
func isMarked(name, text string) bool {
	return strings.HasPrefix(text, strings.TrimSuffix(mark(name), "\n"))
}

// sameText compares texts as forges keep them.
func sameText(a, b string) bool {
	plain := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return plain(a) == plain(b)
}

// cut shortens a text to at most so many characters, the last of which are then rest.
func cut(text string, most int, rest string) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	keep := most - utf8.RuneCountInString(rest)
	at := 0
	for i := range text {
		if keep == 0 {
			at = i
			break
		}
		keep--
	}
	if line := strings.LastIndexByte(text[:at], '\n'); line > at/2 && strings.Contains(rest, "\n") {
		at = line // tables are left at the end of a row
	}
	return text[:at] + rest
}

// trimmed is the status as all forges take it.
func (s Status) trimmed() Status {
	s.Description = cut(strings.Join(strings.Fields(s.Description), " "), maxDescription, "…")
	return s
}
