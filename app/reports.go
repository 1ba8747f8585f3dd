package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/admission/plantext"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/markdown"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/internal/reference"
	"github.com/jibe-vnfm/jibe/report"
	"github.com/jibe-vnfm/jibe/ui"
)

// ForgeOptions say which forge is told what becomes of commits and pull requests; the zero value is
// none.
type ForgeOptions struct {
	// Kind is gitea, github or gitlab; "" is known by the host where that is github.com or gitlab.com.
	Kind string
	// URL is the forge's, as people open it; "" is https and the host of the remote.
	URL string
	// Repository is its path there, OWNER/NAME; "" is that of the remote.
	Repository string
	// Token is a reference (file:PATH or env:NAME) to an access token; "" tells no forge anything.
	Token string
	// Rate is how many requests it is sent a second at most; 0 is [DefaultForgeRate].
	Rate float64
}

// DefaultForgeRate is below what forges allow: GitHub takes 5,000 an hour of a user, the pipelines'
// among them.
const DefaultForgeRate = 1.0

// slowest is the least rate: an answer of several pages is waited for no longer than a request may take.
const slowest = 0.1

// forgeTimeout bounds a connection to the forge.
const forgeTimeout = 30 * time.Second

// mostPlanned bounds how many instances of a pull request are planned by itself.
const mostPlanned = 2000

// planTime bounds one plan.
const planTime = 10 * time.Minute

// forgeClient makes the client of the forge, nil where none is to be told. perSecond is how many
// requests it may make.
func forgeClient(o Options, guard *egress.Guard) (forge.Client, error) {
	f := o.Forge
	if f.Token == "" {
		if f.Kind+f.URL+f.Repository != "" {
			return nil, errors.New("--forge-token: the forge is told nothing without a token: give it as file:PATH or env:NAME, or leave the other flags of the forge out")
		}
		return nil, nil
	}
	if o.Remote == "" {
		return nil, errors.New("--forge-token: there is no --remote whose commits a forge could be told of: give it, or leave the token out")
	}
	token, err := reference.Read("--forge-token", f.Token)
	if err != nil {
		return nil, err
	}
	rate := cmp.Or(f.Rate, DefaultForgeRate)
	if rate < slowest || rate > 1000 {
		return nil, fmt.Errorf("--forge-rate %g: want requests a second, %g to 1000", f.Rate, slowest)
	}
	s := forge.Settings{Kind: forge.Kind(f.Kind), Token: token, Egress: guard}
	if s.URL, s.Repository, err = onForge(o.Remote, f); err != nil {
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
func onForge(remote string, f ForgeOptions) (at, repository string, err error) {
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

// newReporter makes the reporter; it is nil where no forge is told.
func (s *Server) newReporter() *report.Reporter {
	if s.forge == nil {
		return nil
	}
	page := func(kind string) func(string) string {
		return func(id string) string {
			if s.Page.Off {
				return ""
			}
			return strings.TrimSuffix(s.BaseURL, "/") + ui.Root + kind + url.PathEscape(id)
		}
	}
	return report.New(report.Config{
		Client: s.forge, Repo: s.repo, Oplog: s.oplog, Store: s.replica.Records, Branch: cmp.Or(s.Branch, "main"),
		Refused: func(instance string) bool { return len(s.problems.of(instance)) > 0 },
		Plan:    s.planBranch,
		Rollout: func(ctx context.Context, name string) (report.Rollout, error) {
			st, _, err := s.rollouts.One(ctx, name)
			if errors.Is(err, automation.ErrNoRollout) {
				err = report.ErrNoRollout
			}
			return reportedRollout(st), err
		},
		OperationLink: page("/operations/"), CommitLink: page("/git/commits/"), RolloutLink: page("/rollouts/"),
		Poll: s.Poll, Log: s.Log,
	})
}

// reportedRollout is what the forge is told of where a rollout stands. What a VIM says of a failure is not for
// whoever may read the forge.
func reportedRollout(st automation.RolloutStatus) report.Rollout {
	c := st.Counts
	r := report.Rollout{Phase: string(st.Phase), State: forge.Pending, NotObeyed: st.Problem != "",
		Wave: st.Wave, Waves: st.Waves, Selected: c.Selected, Done: c.Completed + c.Already, Failures: c.Failed}
	switch st.Phase {
	case rollout.Done:
		r.State, r.Ended = forge.Success, true
	case rollout.RolledBack, rollout.Aborted:
		r.State, r.Ended = forge.Failure, true
	case rollout.Halted, rollout.RollingBack, rollout.Aborting:
		r.State = forge.Failure
	case rollout.Running:
		if st.Wave == 0 {
			r.Phase = "not begun yet"
		}
	}
	for _, x := range st.Failed {
		r.Failed = append(r.Failed, x.Dir)
	}
	return r
}

// planBranch plans a branch of the forge's as it would be once merged, as "jibe plan --head" does.
// Whoever may push a branch has it planned: what it says of VIMs, peers and package sources is
// never called before somebody has merged it.
func (s *Server) planBranch(ctx context.Context, branch string) (report.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	tip, err := s.repo.FetchBranch(ctx, branch)
	if err != nil {
		return report.Plan{}, err
	}
	made := report.Plan{Commit: tip, Base: s.repo.Head()}
	d, err := s.repo.DraftOf(ctx, tip)
	if errors.Is(err, gitrepo.ErrConflict) {
		made.Anything = true
		made.Text = "### Jibe: this can't be merged\n\n" + markdown.Escape(err.Error())
		return made, nil
	} else if err != nil {
		return report.Plan{}, err
	}
	defer d.Close()
	made.Base = d.Update.Old
	var unplanned string
	v, err := admission.CheckPush(ctx, d.Reader, d.Update.Ref, []gitrepo.RefUpdate{d.Update}, nil, func(u gitrepo.RefUpdate) (*admission.Verdict, error) {
		p, err := admission.FromUpdate(ctx, d.Reader, u)
		if err != nil {
			return nil, err
		}
		if unplanned, err = s.unplanned(ctx, p); err != nil || unplanned != "" {
			return &admission.Verdict{}, err
		}
		made.Anything = len(p.Rollouts) > 0
		for _, file := range slices.Sorted(maps.Keys(p.Rollouts)) {
			made.Targets = append(made.Targets, report.RolloutTarget(file))
		}
		for _, c := range p.Instances {
			made.Targets = append(made.Targets, report.Target{Instance: c.Instance, Dir: c.Dir})
		}
		return s.reviewer.Review(ctx, p, true)
	})
	if err != nil {
		return report.Plan{}, err
	}
	if unplanned != "" {
		made.Text = "### Jibe: this isn't planned by itself\n\n" + markdown.Escape(unplanned) +
			" Somebody with the role planner can look at it: `jibe plan --head BRANCH`."
		return made, nil
	}
	var b bytes.Buffer
	err = plantext.Markdown(&b, *v, admission.GroupPreviews(v.Previews))
	made.Text = b.String()
	return made, err
}

// unplanned is why a proposal isn't planned without a person who may have that done, "" where it is.
func (s *Server) unplanned(ctx context.Context, p *admission.Proposal) (string, error) {
	if p.Settings != nil {
		return "It changes settings (vims/, repositories.yaml or what stands beside them), and a plan would call what they name.", nil
	}
	if len(p.Instances) > mostPlanned {
		return fmt.Sprintf("It changes %d instances, more than are planned by themselves (%d).", len(p.Instances), mostPlanned), nil
	}
	for _, c := range p.Instances {
		if c.File == "" {
			continue
		}
		after, err := desired.ParseInstance(path.Join(c.Dir, desired.InstanceFile), []byte(c.File))
		if err != nil || len(after.VIMConnections) == 0 {
			continue //nolint:nilerr // the review says why it can't be read
		}
		var now map[string]desired.VIMConnection
		if head, ok := s.repo.Lookup(cmp.Or(after.ID, c.Instance)); ok {
			in, err := s.repo.Read(ctx, head)
			if err != nil {
				return "", err
			}
			now = in.VIMConnections
		}
		if !maps.EqualFunc(now, after.VIMConnections, func(a, b desired.VIMConnection) bool { return reflect.DeepEqual(a, b) }) {
			return "It changes the VIM connections of " + c.Dir + ", and a plan would call what they name.", nil
		}
	}
	return "", nil
}
