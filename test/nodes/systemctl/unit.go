package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unitDirs are where unit files stand, the first one wins.
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system"}

// unit is a service's unit file with what was dropped in.
type unit struct {
	file string
	// settings are the values of each "Section.Key", in their order.
	settings map[string][]string
}

func load(name string) (*unit, error) {
	u := &unit{settings: map[string][]string{}}
	for _, dir := range unitDirs {
		file := filepath.Join(dir, name+".service")
		if _, err := os.Stat(file); err == nil {
			u.file = file
			break
		}
	}
	if u.file == "" {
		return nil, fmt.Errorf("unit %s.service could not be found", name)
	}
	files := []string{u.file}
	for _, dir := range slices.Backward(unitDirs) {
		more, err := filepath.Glob(filepath.Join(dir, name+".service.d", "*.conf"))
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	for _, file := range files {
		if err := u.read(file); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func (u *unit) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	section := ""
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("%s: %q is no setting", file, line)
		}
		key, value = section+"."+strings.TrimSpace(key), strings.TrimSpace(value)
		if value == "" {
			delete(u.settings, key) // forgets those before
		} else {
			u.settings[key] = append(u.settings[key], value)
		}
	}
	return nil
}

// value is the last one of a setting, "" without one.
func (u *unit) value(section, key string) string {
	all := u.settings[section+"."+key]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// environment is what the service's commands get, beside where programs are.
func (u *unit) environment() ([]string, error) {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	for _, line := range u.settings["Service.Environment"] {
		env = append(env, words(line)...)
	}
	for _, file := range u.settings["Service.EnvironmentFile"] {
		name, optional := strings.CutPrefix(file, "-")
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) && optional {
			continue
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			key, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), "=")
			if ok && !strings.HasPrefix(key, "#") {
				env = append(env, key+"="+strings.Join(words(value), " "))
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return env, nil
}

// command is the words of a line, with variables of env filled in. Where it may fail,
// optional is true.
func command(line string, env []string) (argv []string, optional bool) {
	value := func(name string) string {
		for _, e := range slices.Backward(env) {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
	trimmed := strings.TrimLeft(line, "-@:+!")
	optional = strings.Contains(line[:len(line)-len(trimmed)], "-")
	for _, w := range words(trimmed) {
		// A variable that stands alone is as many words as it has.
		if name, ok := strings.CutPrefix(w, "$"); ok && !strings.ContainsAny(name, "{$/") {
			argv = append(argv, strings.Fields(value(name))...)
			continue
		}
		argv = append(argv, os.Expand(w, value))
	}
	return argv, optional
}

// words splits as unit files do: at spaces that stand in no quotes.
func words(line string) []string {
	var all []string
	var word strings.Builder
	var quote rune
	in := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, in = c, true
		case quote == 0 && (c == ' ' || c == '\t'):
			if in {
				all = append(all, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(c)
			in = true
		}
	}
	if in {
		all = append(all, word.String())
	}
	return all
}
