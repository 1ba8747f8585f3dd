// Command dashboards writes Jibe's Grafana dashboards, each of which is a value in this
// package, to the files that the chart ships. It owns their content and nothing else: it
// reaches no Grafana and no Prometheus, and the tests in test/prometheus are what holds the
// files to a running Jibe. The alerts are a file of the chart, rules/jibe.yaml.
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

func main() {
	out := flag.String("o", "charts/jibe", "`folder` below which dashboards/*.json are written")
	check := flag.Bool("check", false, "write nothing, and fail where the files differ from what would be written")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	files, err := Files()
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

// Files are all files by their paths below the chart: always the same bytes.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, d := range all() {
		text, err := d.json()
		if err != nil {
			return nil, fmt.Errorf("dashboard %s: %w", d.UID, err)
		}
		files["dashboards/"+d.UID+".json"] = text
	}
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

// generated are the files that stand in the folder of this command, by their paths below dir.
func generated(dir string) ([]string, error) {
	var list []string
	found, err := filepath.Glob(filepath.Join(dir, "dashboards", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range found {
		list = append(list, "dashboards/"+filepath.Base(path))
	}
	return list, nil
}
