// Package licences collects the licences of all that is compiled into Jibe, from the module
// cache: each module's files of licence, copyright and notice that cover the packages in use. A
// module without one, or with one that isn't known here, is an error: somebody then has to read it.
package licences

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Module is a module of which packages are compiled in, with what it says of its licence.
type Module struct {
	Path, Version string
	Licences      []string // SPDX identifiers, sorted
	Files         []File
}

// File is a file of licence, copyright or notice.
type File struct {
	Name string // relative to the module's folder
	Text string
}

// Standard is the path under which Go's standard library is listed.
const Standard = "std"

var names = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([-._].*)?$`)

// Of reads the licences of all that ./cmd/jibe in root is compiled of for an architecture of Linux.
func Of(ctx context.Context, root, arch string) ([]Module, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,Module,Standard", "./cmd/jibe")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=-mod=readonly", "GOWORK=off")
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, problem.Bytes())
	}
	type pkg struct {
		Dir      string
		Standard bool
		Module   *struct {
			Path, Version, Dir string
			Main               bool
			Replace            *struct{ Path, Version, Dir string }
		}
	}
	found := map[string]*Module{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		dir := p.Module.Dir
		if p.Module.Replace != nil {
			dir = p.Module.Replace.Dir
		}
		m, ok := found[p.Module.Path]
		if !ok {
			m = &Module{Path: p.Module.Path, Version: p.Module.Version}
			found[m.Path] = m
		}
		// What covers a package is nearest to it; what stands at the root covers all.
		if err := m.read(dir, dir); err != nil {
			return nil, err
		}
		for at := p.Dir; at != dir && strings.HasPrefix(at, dir); at = filepath.Dir(at) {
			if err := m.read(dir, at); err != nil {
				return nil, err
			}
		}
	}
	std, err := standard(ctx)
	if err != nil {
		return nil, err
	}
	modules := []Module{std}
	var unknown []error
	for _, m := range found {
		if err := m.classify(); err != nil {
			unknown = append(unknown, err)
		}
		modules = append(modules, *m)
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return modules, errors.Join(unknown...)
}

func standard(ctx context.Context) (Module, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOVERSION").Output()
	f := strings.Fields(string(out))
	if err != nil || len(f) != 2 {
		return Module{}, fmt.Errorf("go env: %w: %q", err, out)
	}
	m := Module{Path: Standard, Version: strings.TrimPrefix(f[1], "go")}
	if err := m.read(f[0], f[0]); err != nil {
		return m, err
	}
	return m, m.classify()
}

// read adds the files of licence in the folder at, which is in the module's folder dir.
func (m *Module) read(dir, at string) error {
	entries, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !names.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		rel, err := filepath.Rel(dir, filepath.Join(at, e.Name()))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == rel }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(at, e.Name()))
		if err != nil {
			return err
		}
		m.Files = append(m.Files, File{Name: filepath.ToSlash(rel), Text: strings.TrimRight(string(text), "\n") + "\n"})
	}
	return nil
}

// phrases tell a licence by a sentence that no other one has.
var phrases = []struct{ spdx, phrase string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose with or without fee"},
	{"Unlicense", "this is free and unencumbered software released into the public domain"},
	{"CC0-1.0", "cc0 1.0 universal"},
	{"BSD", "redistribution and use in source and binary forms"},
}

func (m *Module) classify() error {
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range m.Files {
		for _, id := range identify(f.Text) {
			if !slices.Contains(m.Licences, id) {
				m.Licences = append(m.Licences, id)
			}
		}
	}
	slices.Sort(m.Licences)
	if len(m.Files) == 0 {
		return fmt.Errorf("%s %s has no file of licence: read on what terms it is given, or do without it", m.Path, m.Version)
	}
	if len(m.Licences) == 0 {
		return fmt.Errorf("%s %s: the licence in %s isn't one that is known to be acceptable: read it, and add it to packaging/internal/licences, or do without the module", m.Path, m.Version, m.Files[0].Name)
	}
	return nil
}

var spaces = regexp.MustCompile(`[\s,*#/;]+`)

func flat(text string) string { return spaces.ReplaceAllString(strings.ToLower(text), " ") }

// identify returns the SPDX identifiers of the licences whose text this is.
func identify(text string) []string {
	text = flat(text)
	var ids []string
	for _, p := range phrases {
		if !strings.Contains(text, flat(p.phrase)) {
			continue
		}
		id := p.spdx
		if id == "BSD" {
			id = "BSD-2-Clause"
			if strings.Contains(text, "neither the name") || strings.Contains(text, "may not be used to endorse") || strings.Contains(text, "names of its contributors") {
				id = "BSD-3-Clause"
			}
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Text is the file that goes with a release: each module with its licences in full. A text that
// several modules share word for word stands there once.
func Text(modules []Module) []byte {
	var b bytes.Buffer
	b.WriteString("Jibe is compiled of the modules below, and of Go's standard library. Each is given on the\nterms of its own licence, which follows in full.\n\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "  %s %s: %s\n", m.Path, m.Version, strings.Join(m.Licences, ", "))
	}
	type text struct {
		of   []string
		text string
	}
	var texts []*text
	for _, m := range modules {
		for _, f := range m.Files {
			of := m.Path + " " + m.Version + ", " + f.Name
			if i := slices.IndexFunc(texts, func(t *text) bool { return t.text == f.Text }); i >= 0 {
				texts[i].of = append(texts[i].of, of)
			} else {
				texts = append(texts, &text{of: []string{of}, text: f.Text})
			}
		}
	}
	for _, t := range texts {
		b.WriteString("\n" + strings.Repeat("=", 80) + "\n" + strings.Join(t.of, "\n") + "\n" + strings.Repeat("-", 80) + "\n\n" + t.text)
	}
	return b.Bytes()
}
