package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/natural"
)

// instancesShown is how many instances a table shows by default.
const instancesShown = 500

func instancesView() view {
	return view{
		use: "instances", short: "VNF instances",
		long: "VNF instances by folder and name, as git has them. FOLDER/NAME is what every command takes for an instance, as it takes\n" +
			"the id, the beginning of an id, or a name that only one has. NOTE says what is out of the ordinary.",
		example: "  jibe get instances                                  all of them\n" +
			"  jibe get instances --folder site-a --state failing  what waits for a person at one site\n" +
			"  jibe get instances --package upf:1.0 -o name        who runs a version, for a script\n" +
			"  jibe get instances -o wide                          with ids",
		showExample: "  jibe get instance site-a/upf-1\n  jibe get instance 3f2a --watch",
		one:         instancesPath + "/%s",
		flags:       []string{"folder", "state", "package", "limit"},
		states:      strings.ToLower(strings.Join(instanceStates(), ", ")),
		find:        (*client).find,
		list:        (*client).instances,
		name:        where,
		columns: []column{
			{title: "ID", wide: true, cell: func(o object, _ *sheet) string { return text(o, "id") }},
			{title: "FOLDER", cell: func(o object, _ *sheet) string { return cmp.Or(folderOf(o), "-") }},
			{title: "NAME", cell: func(o object, _ *sheet) string { return nameOf(o) }},
			{title: "STATE", state: true, cell: func(o object, _ *sheet) string { return text(o, "instantiationState") }},
			{title: "PRODUCT", cell: func(o object, _ *sheet) string { return text(o, "vnfProductName") }},
			{title: "VERSION", cell: func(o object, _ *sheet) string { return text(o, "vnfdVersion") }},
			{title: "VNFD", wide: true, cell: func(o object, _ *sheet) string { return text(o, "vnfdId") }},
			{title: "LEVELS", cell: func(o object, _ *sheet) string { return scaleLevels(o) }},
			{title: "VNFCS", cell: func(o object, _ *sheet) string { return vnfcs(o) }},
			{title: "NOTE", cell: func(o object, _ *sheet) string { return note(o) }},
		},
	}
}

// instanceStates are the values of --state: those of instantiationState, and what is out of the
// ordinary.
func instanceStates() []string {
	return []string{"INSTANTIATED", "NOT_INSTANTIATED", "FAILING", "DRIFTING", "NOT_OBEYED", "HELD", "SUSPENDED"}
}

// stands says whether an instance is in one of the states.
func stands(o object, state string) bool {
	switch state {
	case "FAILING":
		return dig(dig(o, "jibe"), "failed") != nil
	case "DRIFTING":
		return len(drifted(o)) > 0
	case "NOT_OBEYED":
		return len(problemsOf(o)) > 0
	case "HELD":
		return heldBy(o) != ""
	case "SUSPENDED":
		on, _ := dig(o, "jibe")["suspended"].(bool)
		return on
	}
	return text(o, "instantiationState") == state
}

// vnfdID is what a vnfdId looks like.
var vnfdID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// expressions are what of the selection the server decides.
func (q *selection) ofInstances() ([]string, error) {
	if err := known("state", q.states(), instanceStates()); err != nil {
		return nil, err
	}
	var all []string
	if dir := q.dir(); dir != "" {
		all = append(all, expression("cont", "jibe/directory", "instances/"+dir))
	}
	if want := q.states(); len(want) == 1 {
		switch want[0] {
		case "INSTANTIATED", "NOT_INSTANTIATED":
			all = append(all, expression("eq", "instantiationState", want[0]))
		case "SUSPENDED":
			all = append(all, expression("eq", "jibe/suspended", "true"))
		}
	}
	product, version, versioned := strings.Cut(q.pkg, ":")
	switch {
	case q.pkg == "":
	case vnfdID.MatchString(q.pkg):
		all = append(all, expression("eq", "vnfdId", q.pkg))
	case product == "" || versioned && version == "":
		return nil, fmt.Errorf("--package %q: want a vnfdId, PRODUCT or PRODUCT:VERSION", q.pkg)
	case versioned:
		all = append(all, expression("eq", "vnfProductName", product), expression("eq", "vnfdVersion", version))
	default:
		all = append(all, expression("eq", "vnfProductName", product))
	}
	return all, nil
}

// listed are the instances that are wanted, briefly, by folder and name.
func (c *client) listed(ctx context.Context, q *selection) ([]object, error) {
	expressions, err := q.ofInstances()
	if err != nil {
		return nil, err
	}
	list, err := c.listWhere(ctx, instancesPath, briefly, expressions...)
	if err != nil {
		return nil, err
	}
	want := q.states()
	list = slices.DeleteFunc(list, func(o object) bool {
		in := func(state string) bool { return stands(o, state) }
		return !q.within(directory(o)) || want != nil && !slices.ContainsFunc(want, in)
	})
	slices.SortStableFunc(list, func(a, b object) int {
		return cmp.Or(natural.Compare(folderOf(a), folderOf(b)), natural.Compare(nameOf(a), nameOf(b)), strings.Compare(text(a, "id"), text(b, "id")))
	})
	return list, nil
}

// instances implements [view.list]: first all that are wanted, briefly, then what is shown of
// those for which there is room.
func (c *client) instances(ctx context.Context, q *selection, output string) (*page, error) {
	list, err := c.listed(ctx, q)
	if err != nil {
		return nil, err
	}
	p := pageOf(list, q.most(output, instancesShown))
	selector := "all_fields"
	switch output {
	case "name":
		return p, nil
	case "table", "wide":
		selector = briefly + ",instantiatedVnfInfo"
	}
	return p, p.fill(ctx, c, instancesPath, selector)
}
