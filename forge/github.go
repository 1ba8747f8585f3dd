package forge

import (
	"context"
	"net/url"

	"github.com/google/go-github/v93/github"
)

// githubPage is the most that GitHub lists at once.
const githubPage = 100

// githubClient is [Client] for GitHub and GitHub Enterprise Server.
type githubClient struct {
	place
	api *github.Client
}

func newGitHub(at place) (Client, error) {
	// What is limited is said by an answer alone; the client's own memory of it would outlast it.
	options := []github.ClientOptionsFunc{github.WithHTTPClient(at.http), github.WithAuthToken(at.token), github.WithUserAgent("jibe"), github.WithDisableRateLimitCheck()}
	if at.url.Host != "github.com" { // whose API has a name of its own
		base := (&url.URL{Scheme: at.url.Scheme, Host: at.url.Host, Path: at.url.Path + "/"}).String()
		options = append(options, github.WithEnterpriseURLs(base, base))
	}
	api, err := github.NewClient(options...)
	if err != nil {
		return nil, at.said("client", err)
	}
	return githubClient{at, api}, nil
}

// Check implements [Client].
func (g githubClient) Check(ctx context.Context) error {
	_, _, err := g.api.Users.Get(ctx, "")
	var repo *github.Repository
	if err == nil {
		repo, _, err = g.api.Repositories.Get(ctx, g.owner, g.name)
	}
	if err == nil && repo.Permissions != nil && !repo.Permissions.GetPush() {
		return g.readOnly("the role Write")
	}
	return g.said("look", err)
}

// SetStatus implements [Client].
func (g githubClient) SetStatus(ctx context.Context, commit string, s Status) error {
	s = s.trimmed()
	latest, _, err := g.api.Repositories.ListStatuses(ctx, g.owner, g.name, commit, &github.ListOptions{PerPage: githubPage})
	if err != nil {
		return g.said("statuses of commit "+commit, err)
	}
	newest := new(github.RepoStatus)
	for _, l := range latest {
		if l.GetContext() == s.Context && l.GetID() > newest.GetID() {
			newest = l
		}
	}
	if (Status{newest.GetContext(), State(newest.GetState()), newest.GetDescription(), newest.GetTargetURL()}) == s {
		return nil
	}
	status := github.RepoStatus{State: (*string)(&s.State), Context: &s.Context, Description: &s.Description}
	if s.Link != "" {
		status.TargetURL = &s.Link
	}
	_, _, err = g.api.Repositories.CreateStatus(ctx, g.owner, g.name, commit, status)
	return g.said("status of commit "+commit, err)
}

// SetComment implements [Client]. Comments on the whole of a pull request are those of its issue.
func (g githubClient) SetComment(ctx context.Context, number int64, name, text string) error {
	me, _, err := g.api.Users.Get(ctx, "")
	if err != nil {
		return g.said("own name for a comment", err)
	}
	text = marked(name, text)
	for page := 1; page != 0; {
		comments, answer, err := g.api.Issues.ListComments(ctx, g.owner, g.name, int(number), &github.IssueListCommentsOptions{
			ListOptions: github.ListOptions{Page: page, PerPage: githubPage},
		})
		if err != nil {
			return g.said("comments on a pull request", err)
		}
		for _, c := range comments {
			if c.GetUser().GetID() != me.GetID() || !isMarked(name, c.GetBody()) {
				continue
			}
			if !sameText(c.GetBody(), text) {
				_, _, err = g.api.Issues.UpdateComment(ctx, g.owner, g.name, c.GetID(), github.IssueCommentRequest{Body: text})
			}
			return g.said("comment on a pull request", err)
		}
		page = answer.NextPage
	}
	_, _, err = g.api.Issues.CreateComment(ctx, g.owner, g.name, int(number), github.IssueCommentRequest{Body: text})
	return g.said("comment on a pull request", err)
}

// Opened implements [Client].
func (g githubClient) Opened(ctx context.Context, base string) ([]PullRequest, error) {
	return g.list(ctx, github.PullRequestListOptions{State: "open", Base: base})
}

func (g githubClient) list(ctx context.Context, o github.PullRequestListOptions) (all []PullRequest, err error) {
	o.PerPage = githubPage
	for o.Page = 1; o.Page != 0; {
		pulls, answer, err := g.api.PullRequests.List(ctx, g.owner, g.name, &o)
		if err != nil {
			return nil, g.said("pull requests", err)
		}
		for _, p := range pulls {
			if p.GetHead().GetRepo().GetID() == p.GetBase().GetRepo().GetID() { // none of a fork
				all = append(all, githubPull(p))
			}
		}
		o.Page = answer.NextPage
	}
	return all, nil
}

func githubPull(p *github.PullRequest) PullRequest {
	return PullRequest{Number: int64(p.GetNumber()), Branch: p.GetHead().GetRef(), Base: p.GetBase().GetRef(), Commit: p.GetHead().GetSHA(), Link: p.GetHTMLURL()}
}

// Proposed implements [Client].
func (g githubClient) Proposed(ctx context.Context, branch, base string) (PullRequest, bool, error) {
	return g.first(ctx, github.PullRequestListOptions{State: "all", Base: base, Head: g.owner + ":" + branch})
}

// Outcome implements [Client].
func (g githubClient) Outcome(ctx context.Context, number int64) (o Outcome, err error) {
	p, _, err := g.api.PullRequests.Get(ctx, g.owner, g.name, int(number))
	if err != nil {
		return o, g.said("pull request", err)
	}
	o.Open = p.GetState() == "open"
	if p.GetMerged() { // before, it is what a merge would be
		o.Merged = p.GetMergeCommitSHA()
	}
	return o, nil
}

// of returns the pull request that is open for two branches.
func (g githubClient) of(ctx context.Context, branch, base string) (PullRequest, bool, error) {
	return g.first(ctx, github.PullRequestListOptions{State: "open", Base: base, Head: g.owner + ":" + branch})
}

func (g githubClient) first(ctx context.Context, o github.PullRequestListOptions) (PullRequest, bool, error) {
	all, err := g.list(ctx, o)
	if err != nil || len(all) == 0 {
		return PullRequest{}, false, err
	}
	return all[0], true, nil
}

// Open implements [Client].
func (g githubClient) Open(ctx context.Context, p Proposal) (PullRequest, error) {
	if is, found, err := g.of(ctx, p.Branch, p.Base); found || err != nil {
		return is, err
	}
	made, _, err := g.api.PullRequests.Create(ctx, g.owner, g.name, github.CreatePullRequest{Head: p.Branch, Base: p.Base, Title: &p.Title, Body: &p.Text})
	if err != nil {
		return PullRequest{}, g.said("pull request of "+p.Branch, err)
	}
	return githubPull(made), nil
}

// Close implements [Client].
func (g githubClient) Close(ctx context.Context, branch, base string) error {
	is, found, err := g.of(ctx, branch, base)
	if !found || err != nil {
		return err
	}
	state := "closed"
	_, _, err = g.api.PullRequests.Edit(ctx, g.owner, g.name, int(is.Number), &github.PullRequest{State: &state})
	return g.said("close the pull request of "+branch, err)
}
