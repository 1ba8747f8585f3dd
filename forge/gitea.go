package forge

import (
	"context"
	"errors"
	"slices"

	"code.gitea.io/sdk/gitea"
)

// giteaPage is how many are asked for at once. A server may list fewer.
const giteaPage = 50

// giteaClient is [Client] for Gitea and Forgejo.
type giteaClient struct{ place }

// api returns the SDK's client: its context is that of a client, and not of a call.
func (g giteaClient) api(ctx context.Context) (*gitea.Client, error) {
	return gitea.NewClient(g.url.String(), gitea.SetHTTPClient(g.http), gitea.SetToken(g.token), gitea.SetContext(ctx),
		gitea.SetUserAgent("jibe"), gitea.SetGiteaVersion("")) // "" is: don't ask for it before each call
}

// Check implements [Client].
func (g giteaClient) Check(ctx context.Context) error {
	api, err := g.api(ctx)
	if err == nil {
		_, _, err = api.GetMyUserInfo()
	}
	var repo *gitea.Repository
	if err == nil {
		repo, _, err = api.GetRepo(g.owner, g.name)
	}
	if err == nil && repo.Permissions != nil && !repo.Permissions.Push {
		return g.readOnly("the permission to write")
	}
	return g.said("look", err)
}

// SetStatus implements [Client].
func (g giteaClient) SetStatus(ctx context.Context, commit string, s Status) error {
	s = s.trimmed()
	api, err := g.api(ctx)
	if err != nil {
		return g.said("status", err)
	}
	latest, _, err := api.ListStatuses(g.owner, g.name, commit, gitea.ListStatusesOption{
		ListOptions: gitea.ListOptions{PageSize: giteaPage},
	})
	if err != nil {
		return g.said("statuses of commit "+commit, err)
	}
	newest := new(gitea.Status) // of those of one second, the order of a list says nothing
	for _, l := range latest {
		if l.Context == s.Context && l.ID > newest.ID {
			newest = l
		}
	}
	if (Status{newest.Context, State(newest.State), newest.Description, newest.TargetURL}) == s {
		return nil
	}
	_, _, err = api.CreateStatus(g.owner, g.name, commit, gitea.CreateStatusOption{
		State: gitea.StatusState(s.State), TargetURL: s.Link, Description: s.Description, Context: s.Context,
	})
	return g.said("status of commit "+commit, err)
}

// SetComment implements [Client].
func (g giteaClient) SetComment(ctx context.Context, number int64, name, text string) error {
	api, err := g.api(ctx)
	if err != nil {
		return g.said("comment", err)
	}
	me, _, err := api.GetMyUserInfo()
	if err != nil {
		return g.said("own name for a comment", err)
	}
	text = marked(name, text)
	comments, _, err := api.ListIssueComments(g.owner, g.name, number, gitea.ListIssueCommentOptions{}) // all: it knows no pages
	if err != nil {
		// Of one that isn't there, Gitea says that it has failed.
		if _, _, not := api.GetPullRequest(g.owner, g.name, number); errors.Is(not, ErrNotFound) {
			err = not
		}
		return g.said("comments on a pull request", err)
	}
	for _, c := range comments {
		if c.Poster == nil || c.Poster.ID != me.ID || !isMarked(name, c.Body) {
			continue
		}
		if !sameText(c.Body, text) {
			_, _, err = api.EditIssueComment(g.owner, g.name, c.ID, gitea.EditIssueCommentOption{Body: text})
		}
		return g.said("comment on a pull request", err)
	}
	_, _, err = api.CreateIssueComment(g.owner, g.name, number, gitea.CreateIssueCommentOption{Body: text})
	return g.said("comment on a pull request", err)
}

// Opened implements [Client].
func (g giteaClient) Opened(ctx context.Context, base string) (all []PullRequest, err error) {
	api, err := g.api(ctx)
	if err != nil {
		return nil, g.said("pull requests", err)
	}
	for page := 1; ; page++ {
		pulls, _, err := api.ListRepoPullRequests(g.owner, g.name, gitea.ListPullRequestsOptions{
			ListOptions: gitea.ListOptions{Page: page, PageSize: giteaPage}, State: gitea.StateOpen, Sort: "oldest",
		})
		if err != nil {
			return nil, g.said("pull requests", err)
		}
		if len(pulls) == 0 { // how long a page is at most is a setting of the server
			return all, nil
		}
		for _, p := range pulls {
			if p.Head != nil && p.Base != nil && p.Head.RepoID == p.Base.RepoID && p.Base.Ref == base {
				all = append(all, giteaPull(p))
			}
		}
	}
}

func giteaPull(p *gitea.PullRequest) PullRequest {
	return PullRequest{Number: p.Index, Branch: p.Head.Ref, Base: p.Base.Ref, Commit: p.Head.Sha, Link: p.HTMLURL}
}

// Proposed implements [Client].
func (g giteaClient) Proposed(ctx context.Context, branch, base string) (PullRequest, bool, error) {
	api, err := g.api(ctx)
	if err != nil {
		return PullRequest{}, false, g.said("pull request", err)
	}
	p, _, err := api.GetPullRequestByBaseHead(g.owner, g.name, base, branch)
	if err = g.said("pull request of "+branch, err); errors.Is(err, ErrNotFound) {
		return PullRequest{}, false, g.Check(ctx) // the repository may be what isn't there
	}
	if err != nil {
		return PullRequest{}, false, err
	}
	if p.Head == nil || p.Base == nil {
		return PullRequest{Number: p.Index, Branch: branch, Base: base, Link: p.HTMLURL}, true, nil
	}
	is := giteaPull(p)
	is.Branch = branch // once the branch is gone, it is told by another name
	return is, true, nil
}

// Outcome implements [Client].
func (g giteaClient) Outcome(ctx context.Context, number int64) (o Outcome, err error) {
	api, err := g.api(ctx)
	var p *gitea.PullRequest
	if err == nil {
		p, _, err = api.GetPullRequest(g.owner, g.name, number)
	}
	if err != nil {
		return o, g.said("pull request", err)
	}
	o.Open = p.State == gitea.StateOpen
	if p.HasMerged && p.MergedCommitID != nil {
		o.Merged = *p.MergedCommitID
	}
	return o, nil
}

// Open implements [Client].
func (g giteaClient) Open(ctx context.Context, p Proposal) (PullRequest, error) {
	if is, found, err := find(ctx, g, p.Branch, p.Base); found || err != nil {
		return is, err
	}
	api, err := g.api(ctx)
	if err != nil {
		return PullRequest{}, g.said("pull request", err)
	}
	made, _, err := api.CreatePullRequest(g.owner, g.name, gitea.CreatePullRequestOption{Head: p.Branch, Base: p.Base, Title: p.Title, Body: p.Text})
	if err != nil {
		return PullRequest{}, g.said("pull request of "+p.Branch, err)
	}
	return giteaPull(made), nil
}

// Close implements [Client].
func (g giteaClient) Close(ctx context.Context, branch, base string) error {
	is, found, err := find(ctx, g, branch, base)
	if !found || err != nil {
		return err
	}
	api, err := g.api(ctx)
	if err != nil {
		return g.said("pull request", err)
	}
	closed := gitea.StateClosed
	_, _, err = api.EditPullRequest(g.owner, g.name, is.Number, gitea.EditPullRequestOption{State: &closed})
	return g.said("close the pull request of "+branch, err)
}

// find returns the pull request that is open for two branches.
func find(ctx context.Context, c Client, branch, base string) (PullRequest, bool, error) {
	all, err := c.Opened(ctx, base)
	if err != nil {
		return PullRequest{}, false, err
	}
	if i := slices.IndexFunc(all, func(p PullRequest) bool { return p.Branch == branch }); i >= 0 {
		return all[i], true, nil
	}
	return PullRequest{}, false, nil
}
