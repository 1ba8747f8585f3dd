package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// newProjects is the command that shows the projects of the desired repository, and what their
// instances use of their quotas.
func newProjects() *cobra.Command {
	var c client
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "projects",
		Short: "Projects: their folders, and what their instances use of their quotas",
		Long: "Projects of the desired repository (projects/<name>.yaml): the folders of instances that each claims, and how many\n" +
			"instances and VNFCs it has of those that its quotas allow. What no project claims is of the project default.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return repeat(cmd.Context(), watch, cmd.OutOrStdout(), func(w io.Writer) error {
				list := []reconciler.ProjectUse{}
				if _, err := c.do(cmd.Context(), http.MethodGet, "/jibe/v1/projects", nil, &list); err != nil {
					return err
				}
				return show(w, output, list, func() { projectTable(w, list) })
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	return cmd
}

// projectTable prints one line a project.
func projectTable(w io.Writer, list []reconciler.ProjectUse) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tFOLDERS\tINSTANCES\tVNFCS\tPOD SECURITY\tACCOUNT")
	for _, p := range list {
		folders := cmp.Or(strings.Join(p.Instances, ", "), "-")
		if p.Name == desired.DefaultProject {
			folders = "(all others)"
		}
		account := "-"
		if !p.Impersonate.IsZero() {
			account = p.Impersonate.Namespace + "/" + p.Impersonate.Name
		}
		fmt.Fprintln(t, strings.Join([]string{p.Name, folders, ofQuota(p.InstancesUsed, p.Quotas.Instances), ofQuota(p.VNFCsUsed, p.Quotas.VNFCs), p.PodSecurity, account}, "\t"))
	}
	t.Flush()
}

// ofQuota is what is used, with the quota where there is one.
func ofQuota(used, quota int) string {
	if quota == 0 {
		return strconv.Itoa(used)
	}
	return fmt.Sprintf("%d/%d", used, quota)
}
