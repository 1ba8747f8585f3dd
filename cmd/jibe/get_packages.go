package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/natural"
)

func packagesView() view {
	at := func(key string) func(o object, _ *sheet) string {
		return func(o object, _ *sheet) string { return text(o, key) }
	}
	return view{
		use: "packages", short: "VNF packages that the repositories hold",
		long: "VNF packages that the repositories hold, with what can't be used of them, and those that were uploaded. VNFD is what a\n" +
			"vnf.yaml and a request name a package by.",
		example: "  jibe get packages\n" +
			"  jibe get packages --package upf -o name   # vnfdIds\n" +
			"  jibe get packages --state error",
		flags: []string{"package", "state"}, states: "created, uploading, processing, error, enabled, disabled, problem",
		list: func(c *client, ctx context.Context, q *selection, _ string) (*page, error) {
			list, err := c.list(ctx, "/jibe/v1/packages")
			name, version, versioned := strings.Cut(q.pkg, ":")
			list = slices.DeleteFunc(list, func(o object) bool {
				if versioned && text(o, "version") != version {
					return true
				}
				if q.pkg != "" && text(o, "vnfdId") != q.pkg && !strings.Contains(text(o, "path"), name) {
					return true
				}
				broken := text(o, "problem") != "" && q.in("problem")
				return q.state != "" && !broken && !q.in(cmp.Or(text(o, "state"), "-")) && !q.in(packageState(o))
			})
			slices.SortStableFunc(list, func(a, b object) int {
				return cmp.Or(natural.Compare(text(a, "repository"), text(b, "repository")), natural.Compare(text(a, "path"), text(b, "path")), natural.Compare(text(a, "ref"), text(b, "ref")))
			})
			return &page{list: list}, err
		},
		name: func(o object) string { return cmp.Or(text(o, "vnfdId"), text(o, "id")) },
		columns: []column{
			{title: "VNFD", cell: at("vnfdId")},
			{title: "VERSION", cell: at("version")},
			{title: "REPOSITORY", cell: at("repository")},
			{title: "REF", cell: at("ref")},
			{title: "PATH", cell: at("path")},
			{title: "TREE", wide: true, cell: at("tree")},
			{title: "STATE", state: true, cell: func(o object, _ *sheet) string { return packageState(o) }},
			{title: "PACKAGE", wide: true, cell: at("id")},
			{title: "PROBLEM", cell: func(o object, _ *sheet) string { return clip(text(o, "problem")) }},
		},
	}
}
