package forge

import (
	"cmp"
	"context"
	"log/slog"

	gitlab "gitlab.com/gitlab-org/api/client-go"
	"golang.org/x/time/rate"
)

// gitlabPage is the most that GitLab lists at once.
const gitlabPage = 100

// gitlabClient is [Client] for GitLab.
type gitlabClient struct {
	place
	api *gitlab.Client
}

func newGitLab(at place) (Client, error) {
	api, err := gitlab.NewClient(at.token, gitlab.WithBaseURL(at.url.String()), gitlab.WithHTTPClient(at.http), gitlab.WithUserAgent("jibe"),
		gitlab.WithoutRetries(), // the caller's
		// A limiter of the client's own would first ask for the limits, and then let a caller wait
		// who isn't to be delayed.
		gitlab.WithCustomLimiter(rate.NewLimiter(rate.Inf, 0)), gitlab.WithURLWarningLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, at.said("client", err)
	}
	return gitlabClient{at, api}, nil
}

// Check implements [Client].
func (g gitlabClient) Check(ctx context.Context) error {
	_, _, err := g.api.Users.CurrentUser(gitlab.WithContext(ctx))
	var project *gitlab.Project
	if err == nil {
		project, _, err = g.api.Projects.GetProject(g.path, nil, gitlab.WithContext(ctx))
	}
	if err == nil && project.Permissions != nil {
		has, told := gitlab.NoPermissions, false // a server's administrator is told neither
		if p := project.Permissions.ProjectAccess; p != nil {
			has, told = p.AccessLevel, true
		}
		if p := project.Permissions.GroupAccess; p != nil {
			has, told = max(has, p.AccessLevel), true
		}
		if told && has < gitlab.DeveloperPermissions {
			return g.readOnly("the role Developer")
		}
	}
	return g.said("look", err)
}

// SetStatus implements [Client]. GitLab refuses to set a status to the state that it has.
func (g gitlabClient) SetStatus(ctx context.Context, commit string, s Status) error {
	s = s.trimmed()
	latest, _, err := g.api.Commits.GetCommitStatuses(g.path, commit, &gitlab.GetCommitStatusesOptions{
		ListOptions: gitlab.ListOptions{PerPage: gitlabPage}, Name: &s.Context,
	}, gitlab.WithContext(ctx))
	if err != nil {
		return g.said("statuses of commit "+commit, err)
	}
	newest := new(gitlab.CommitStatus)
	for _, l := range latest {
		if l.Name == s.Context && l.ID > newest.ID {
			newest = l
		}
	}
	state := gitlabState(s.State)
	if newest.Status == string(state) { // its words can't be changed by themselves
		return nil
	}
	o := &gitlab.SetCommitStatusOptions{State: state, Name: &s.Context, Description: &s.Description}
	if s.Link != "" {
		o.TargetURL = &s.Link
	}
	_, _, err = g.api.Commits.SetCommitStatus(g.path, commit, o, gitlab.WithContext(ctx))
	return g.said("status of commit "+commit, err)
}

func gitlabState(s State) gitlab.BuildStateValue {
	switch s {
	case Success:
		return gitlab.Success
	case Failure:
		return gitlab.Failed
	}
	return gitlab.Pending
}

// SetComment implements [Client].
func (g gitlabClient) SetComment(ctx context.Context, number int64, name, text string) error {
	me, _, err := g.api.Users.CurrentUser(gitlab.WithContext(ctx))
	if err != nil {
		return g.said("own name for a comment", err)
	}
	text = marked(name, text)
	oldest := "asc"
	for page := int64(1); page != 0; {
		notes, answer, err := g.api.Notes.ListMergeRequestNotes(g.path, number, &gitlab.ListMergeRequestNotesOptions{
			ListOptions: gitlab.ListOptions{Page: page, PerPage: gitlabPage}, Sort: &oldest,
		}, gitlab.WithContext(ctx))
		if err != nil {
			return g.said("comments on a merge request", err)
		}
		for _, n := range notes {
			if n.System || n.Author.ID != me.ID || !isMarked(name, n.Body) {
				continue
			}
			if !sameText(n.Body, text) {
				_, _, err = g.api.Notes.UpdateMergeRequestNote(g.path, number, n.ID, &gitlab.UpdateMergeRequestNoteOptions{Body: &text}, gitlab.WithContext(ctx))
			}
			return g.said("comment on a merge request", err)
		}
		page = answer.NextPage
	}
	_, _, err = g.api.Notes.CreateMergeRequestNote(g.path, number, &gitlab.CreateMergeRequestNoteOptions{Body: &text}, gitlab.WithContext(ctx))
	return g.said("comment on a merge request", err)
}

// Opened implements [Client].
func (g gitlabClient) Opened(ctx context.Context, base string) ([]PullRequest, error) {
	return g.list(ctx, "opened", gitlab.ListProjectMergeRequestsOptions{TargetBranch: &base})
}

func (g gitlabClient) list(ctx context.Context, state string, o gitlab.ListProjectMergeRequestsOptions) (all []PullRequest, err error) {
	oldest := "asc"
	o.State, o.Sort, o.PerPage = &state, &oldest, gitlabPage
	for o.Page = 1; o.Page != 0; {
		requests, answer, err := g.api.MergeRequests.ListProjectMergeRequests(g.path, &o, gitlab.WithContext(ctx))
		if err != nil {
			return nil, g.said("merge requests", err)
		}
		for _, r := range requests {
			if r.SourceProjectID == r.TargetProjectID { // none of a fork
				all = append(all, gitlabPull(r))
			}
		}
		o.Page = answer.NextPage
	}
	return all, nil
}

func gitlabPull(r *gitlab.BasicMergeRequest) PullRequest {
	return PullRequest{Number: r.IID, Branch: r.SourceBranch, Base: r.TargetBranch, Commit: r.SHA, Link: r.WebURL}
}

// Proposed implements [Client].
func (g gitlabClient) Proposed(ctx context.Context, branch, base string) (PullRequest, bool, error) {
	return g.first(ctx, "all", branch, base)
}

// Outcome implements [Client].
func (g gitlabClient) Outcome(ctx context.Context, number int64) (o Outcome, err error) {
	r, _, err := g.api.MergeRequests.GetMergeRequest(g.path, number, nil, gitlab.WithContext(ctx))
	if err != nil {
		return o, g.said("merge request", err)
	}
	o.Open = r.State == "opened" || r.State == "locked" // locked is while it is being merged
	if r.State == "merged" {
		o.Merged = cmp.Or(r.MergeCommitSHA, r.SquashCommitSHA, r.SHA) // without a merge commit, it is what was merged
	}
	return o, nil
}

// of returns the merge request that is open for two branches.
func (g gitlabClient) of(ctx context.Context, branch, base string) (PullRequest, bool, error) {
	return g.first(ctx, "opened", branch, base)
}

func (g gitlabClient) first(ctx context.Context, state, branch, base string) (PullRequest, bool, error) {
	all, err := g.list(ctx, state, gitlab.ListProjectMergeRequestsOptions{SourceBranch: &branch, TargetBranch: &base})
	if err != nil || len(all) == 0 {
		return PullRequest{}, false, err
	}
	return all[0], true, nil
}

// Open implements [Client].
func (g gitlabClient) Open(ctx context.Context, p Proposal) (PullRequest, error) {
	if is, found, err := g.of(ctx, p.Branch, p.Base); found || err != nil {
		return is, err
	}
	made, _, err := g.api.MergeRequests.CreateMergeRequest(g.path, &gitlab.CreateMergeRequestOptions{
		Title: &p.Title, Description: &p.Text, SourceBranch: &p.Branch, TargetBranch: &p.Base,
	}, gitlab.WithContext(ctx))
	if err != nil {
		return PullRequest{}, g.said("merge request of "+p.Branch, err)
	}
	return gitlabPull(&made.BasicMergeRequest), nil
}

// Close implements [Client].
func (g gitlabClient) Close(ctx context.Context, branch, base string) error {
	is, found, err := g.of(ctx, branch, base)
	if !found || err != nil {
		return err
	}
	event := "close"
	_, _, err = g.api.MergeRequests.UpdateMergeRequest(g.path, is.Number, &gitlab.UpdateMergeRequestOptions{StateEvent: &event}, gitlab.WithContext(ctx))
	return g.said("close the merge request of "+branch, err)
}
