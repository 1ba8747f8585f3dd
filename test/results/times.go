package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The table stands between these lines of a page.
const (
	begin = "<!-- make test-times writes this table -->"
	end   = "<!-- end of the table -->"
)

// module is what all packages' paths begin with.
const module = "github.com/jibe-vnfm/jibe/"

// leastShown is the time from which a package has a line of its own.
const leastShown = 5 * time.Second

// column is one run of the table.
type column struct {
	name string
	runs *runs
}

// times writes the table of a page. Each run is NAME=JSON[,JSON].
func times(page string, args []string) error {
	columns := make([]column, 0, len(args))
	for _, arg := range args {
		name, files, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q isn't NAME=JSON[,JSON]", arg)
		}

		r, err := read(strings.Split(files, ",")...)
		if err != nil {
			return err
		}

		for _, path := range r.sortedPackages() {
			if r.packages[path].cached {
				return fmt.Errorf("%s: the result of %s is from the cache: run the tests with GOTESTFLAGS=-count=1", name, path)
			}
		}

		columns = append(columns, column{name, r})
	}

	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}

	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q, between which the table stands", page, begin, end)
	}

	return os.WriteFile(page, []byte(before+begin+"\n"+table(columns)+end+after), 0o644)
}

// table lists the packages that take long in any of the runs, the longest first, and sums up the others.
func table(columns []column) string {
	rows := map[string][]time.Duration{}
	for i, c := range columns {
		for path, p := range c.runs.packages {
			name := strings.TrimPrefix(path, module)
			if rows[name] == nil {
				rows[name] = make([]time.Duration, len(columns))
			}
			rows[name][i] = p.elapsed
		}
	}

	sums, others := make([]time.Duration, len(columns)), make([]time.Duration, len(columns))
	var names []string
	for name, row := range rows {
		long := slices.Max(row) >= leastShown
		if long {
			names = append(names, name)
		}

		for i, d := range row {
			sums[i] += d
			if !long {
				others[i] += d
			}
		}
	}

	slices.SortFunc(names, func(a, b string) int {
		if c := slices.Max(rows[b]) - slices.Max(rows[a]); c != 0 {
			return int(min(max(c, -1), 1))
		}

		return strings.Compare(a, b)
	})

	var b strings.Builder
	b.WriteString("| package |")
	for _, c := range columns {
		fmt.Fprintf(&b, " `%s` |", c.name)
	}

	b.WriteString("\n|---|" + strings.Repeat("--:|", len(columns)) + "\n")
	for _, name := range names {
		b.WriteString(line("`"+name+"`", rows[name]))
	}

	b.WriteString(line(fmt.Sprintf("%d others", len(rows)-len(names)), others))
	b.WriteString(line("all, which overlap", sums))

	return b.String()
}

// line is one row of the table, in seconds.
func line(name string, row []time.Duration) string {
	text := "| " + name + " |"
	for _, d := range row {
		text += fmt.Sprintf(" %.1f |", d.Seconds())
	}

	return text + "\n"
}
