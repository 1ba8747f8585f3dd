// Package forgesync is what passes between the process and the forge that has its desired repository: reports of what
// becomes of commits, plans of pull requests, pull requests for requests, and deliveries of its webhook.
package forgesync

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/internal/reference"
	"github.com/jibe-vnfm/jibe/report"
)

// Options say which forge is told what becomes of commits and pull requests; the zero value is
// none.
type Options struct {
	// Kind is gitea, github or gitlab; "" is known by the host where that is github.com or gitlab.com.
	Kind string
	// URL is the forge's, as people open it; "" is https and the host of the remote.
	URL string
	// Repository is its path there, OWNER/NAME; "" is that of the remote.
	Repository string
	// Token is a reference (file:PATH or env:NAME) to an access token; "" tells no forge anything.
	Token string
	// Rate is how many requests it is sent a second at most; 0 is [DefaultRate].
	Rate float64
}

// DefaultRate is below what forges allow: GitHub takes 5,000 an hour of a user, the pipelines'
// among them.
const DefaultRate = 1.0

// slowest is the least rate: an answer of several pages is waited for no longer than a request may take.
const slowest = 0.1

// forgeTimeout bounds a connection to the forge.
const forgeTimeout = 30 * time.Second

// Client makes the client of the forge, nil where none is to be told. perSecond is how many
// requests it may make.
func (f Options) Client(remote string, guard *egress.Guard) (forge.Client, error) {
	if f.Token == "" {
		if f.Kind+f.URL+f.Repository != "" {
			return nil, errors.New("--forge-token: the forge is told nothing without a token: give it as file:PATH or env:NAME, or leave the other flags of the forge out")
		}
		return nil, nil
	}
	if remote == "" {
		return nil, errors.New("--forge-token: there is no --remote whose commits a forge could be told of: give it, or leave the token out")
	}
	token, err := reference.Read("--forge-token", f.Token)
	if err != nil {
		return nil, err
	}
	rate := cmp.Or(f.Rate, DefaultRate)
	if rate < slowest || rate > 1000 {
		return nil, fmt.Errorf("--forge-rate %g: want requests a second, %g to 1000", f.Rate, slowest)
	}
	s := forge.Settings{Kind: forge.Kind(f.Kind), Token: token, Egress: guard}
	if s.URL, s.Repository, err = onForge(remote, f); err != nil {
		return nil, err
	}
	if s.Kind == "" {
		at, err := url.Parse(s.URL)
		if err == nil {
			s.Kind = map[string]forge.Kind{"github.com": forge.GitHub, "gitlab.com": forge.GitLab}[at.Hostname()]
		}
		if s.Kind == "" {
			return nil, fmt.Errorf("--forge: it isn't known which forge is at %s: want %s, %s or %s", s.URL, forge.Gitea, forge.GitHub, forge.GitLab)
		}
	}
	transport, err := peer.NewTransport(guard, peer.TLS{}, forgeTimeout)
	if err != nil {
		return nil, err
	}
	s.Transport = report.Paced(transport, rate)
	client, err := forge.New(s)
	if err != nil {
		return nil, fmt.Errorf("--forge-token: %w", err)
	}
	return client, nil
}

// scpLike is how git also writes a repository that it reaches by ssh.
var scpLike = regexp.MustCompile(`^(?:[^@/]+@)?([^:/]+):(.+)$`)

// onForge is where the forge of a remote is, and which of its repositories that is.
func onForge(remote string, f Options) (at, repository string, err error) {
	host, in := "", ""
	if u, err := url.Parse(remote); err == nil && u.Scheme != "" && u.Host != "" {
		host, in = "https://"+u.Hostname(), u.Path
		if u.Scheme == "http" || u.Scheme == "https" {
			host = u.Scheme + "://" + u.Host
		}
	} else if m := scpLike.FindStringSubmatch(remote); m != nil && !strings.Contains(remote, "://") {
		host, in = "https://"+m[1], m[2]
	}
	at = strings.TrimSuffix(cmp.Or(f.URL, host), "/")
	if at == "" {
		return "", "", errors.New("--forge-url: it can't be told by --remote where the forge is: give its URL, as people open it")
	}
	if u, err := url.Parse(at); err == nil {
		in = strings.TrimPrefix(in, u.Path) // a forge below a path of its host
	}
	repository = cmp.Or(f.Repository, strings.TrimSuffix(strings.Trim(in, "/"), ".git"))
	if !strings.Contains(repository, "/") {
		return "", "", errors.New("--forge-repository: it can't be told by --remote which repository of the forge it is: give it as OWNER/NAME")
	}
	return at, repository, nil
}
