// Command dashboards writes Jibe's Grafana dashboards and Prometheus alert rules, each
// of which is a value in this package, to the files that the chart ships. It owns their
// content and nothing else: it reaches no Grafana and no Prometheus, and the tests in
// test/prometheus are what holds the files to a running Jibe.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// docs is where people read the runbooks; a test may name another place.
const docs = "https://github.com/jibe-vnfm/jibe/blob/main/docs/runbooks"

func main() {
	out := flag.String("o", "charts/jibe", "`folder` below which dashboards/*.json and rules/*.yaml are written")
	runbooks := flag.String("runbooks", docs, "`URL` of the folder of the runbooks, for runbook_url")
	hurry := flag.Int("hurry", 1, "divide by this `number` every time that an alert waits for or looks back: for tests, which can't wait for a day")
	check := flag.Bool("check", false, "write nothing, and fail where the files differ from what would be written")
	flag.Parse()
	if flag.NArg() > 0 || *hurry < 1 {
		flag.Usage()
		os.Exit(2)
	}
	files, err := Files(*runbooks, *hurry)
	if err == nil && *check {
		err = current(*out, files)
	} else if err == nil {
		err = write(*out, files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// Files are all files by their paths below the chart: the same bytes for the same
// arguments. runbooks is the URL of the runbooks' folder; hurry divides the times of the
// alerts.
func Files(runbooks string, hurry int) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, d := range all() {
		text, err := d.json()
		if err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", d.UID, err)
		}
		files["dashboards/"+d.UID+".json"] = text
	}
	text, err := rules(runbooks, pace(hurry))
	if err != nil {
		return nil, err
	}
	files["rules/jibe.yaml"] = text
	return files, nil
}

// write replaces the generated files, and removes those that nothing generates any more.
func write(dir string, files map[string][]byte) error {
	old, err := generated(dir)
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, still := files[name]; !still {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// current returns an error that names each file that isn't what would be written.
func current(dir string, files map[string][]byte) error {
	old, err := generated(dir)
	if err != nil {
		return err
	}
	var stale []string
	for _, name := range old {
		if _, still := files[name]; !still {
			stale = append(stale, name+" (nothing generates it)")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			stale = append(stale, name+" (missing)")
		case err != nil:
			return err
		case string(text) != string(files[name]):
			stale = append(stale, name)
		}
	}
	if len(stale) > 0 {
		return fmt.Errorf("not as generated below %s: %s: run go run ./dashboards", dir, strings.Join(stale, ", "))
	}
	return nil
}

// generated are the files that stand in the folders of this command, by their paths below
// dir.
func generated(dir string) ([]string, error) {
	var list []string
	for _, pattern := range []string{"dashboards/*.json", "rules/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return nil, err
			}
			list = append(list, filepath.ToSlash(name))
		}
	}
	return list, nil
}
