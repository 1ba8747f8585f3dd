package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// notSources are folders whose texts no user of a server reads.
var notSources = []string{"test", "tools", "packaging", "examples", "shared", "dashboards/testdata", ".git", "node_modules"}

// sourceTexts calls fn for each text in the sources but the help of commands, with the parts of
// a concatenation put together.
func sourceTexts(t *testing.T, fn func(at, text string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, file)
		if d.IsDir() && (slices.Contains(notSources, rel) || d.Name() == "testdata" || rel != "." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr: // of cobra.Command
				key, _ := n.Key.(*ast.Ident)
				return key == nil || !slices.Contains([]string{"Use", "Short", "Long", "Example"}, key.Name)
			case *ast.ImportSpec:
				return false
			case *ast.BinaryExpr:
				if text, ok := folded(n); ok {
					fn(rel+":"+strconv.Itoa(set.Position(n.Pos()).Line), text)
					return false
				}
			case *ast.BasicLit:
				if text, ok := folded(n); ok {
					fn(rel+":"+strconv.Itoa(set.Position(n.Pos()).Line), text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// folded is the text of a literal, or of a sum in which what isn't a literal stands as "%v".
func folded(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		x, okX := folded(e.X)
		y, okY := folded(e.Y)
		if !okX {
			x = "%v"
		}
		if !okY {
			y = "%v"
		}
		return x + y, okX || okY
	}
	return "", false
}

var (
	jibeCall = regexp.MustCompile("(^|[\\s(\"'`“:$])jibe ([a-z][a-z-]*)")
	gitCall  = regexp.MustCompile("(^|[\\s(\"'`“:])git ((?:(?:-C |--git-dir=)\\S+ )?)(add|checkout|clone|commit|fetch|fsck|init|lfs|log|mv|pull|push|rebase|repack|tag|update-ref)((?: --?[a-z][a-z-]*)*)([^a-z-]|$)")
	flagWord = regexp.MustCompile(`(?:^|[\s(])(--?[a-z][a-z-]*)`)
	sentence = regexp.MustCompile(`[.;?\n]|\bjibe |\bgit |, or |=%`)
)

// calls are the commands that a text names: those of jibe by their names and flags, those of git
// with the options that follow. prose are texts "jibe word" that are no command of jibe.
func calls(root *cobra.Command, text string) (found []string, prose []string) {
	for _, m := range jibeCall.FindAllStringSubmatchIndex(text, -1) {
		rest := text[m[4]:]
		words := strings.FieldsFunc(rest, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
		cmd := root
		for _, w := range words {
			next := child(cmd, w)
			if next == nil {
				break
			}
			cmd = next
		}
		if cmd == root {
			prose = append(prose, "jibe "+words[0])
			continue
		}
		call := cmd.CommandPath()
		if at := sentence.FindStringIndex(rest); at != nil {
			rest = rest[:at[0]]
		}
		for _, f := range flagWord.FindAllStringSubmatch(rest, -1) {
			call += " " + f[1]
		}
		found = append(found, call)
	}
	for _, m := range gitCall.FindAllStringSubmatch(text, -1) {
		if m[5] != ":" { // else it is an error of git itself
			found = append(found, "git "+m[3]+m[4])
		}
	}
	return found, prose
}

// child is the command below another by its name or an alias, nil where there is none.
func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// unparsed is why the command line of jibe doesn't take a call, "" where it does.
func unparsed(root *cobra.Command, call string) string {
	words := strings.Fields(call)[1:]
	cmd := root
	for len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		cmd, words = child(cmd, words[0]), words[1:]
	}
	for _, w := range words {
		name := strings.TrimLeft(w, "-")
		if len(name) == 1 && cmd.Flags().ShorthandLookup(name) == nil && cmd.InheritedFlags().ShorthandLookup(name) == nil ||
			len(name) > 1 && cmd.Flag(name) == nil && name != "help" {
			return cmd.CommandPath() + " has no flag " + w
		}
	}
	if cmd.HasSubCommands() && !cmd.Runnable() && !strings.HasSuffix(call, cmd.Name()) {
		return cmd.CommandPath() + " is no command of its own"
	}
	return ""
}

// guides calls fn for the lines of the guides' code: blocks, and what stands between backquotes.
func guides(t *testing.T, fn func(at, code string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	span := regexp.MustCompile("`([^`]+)`")
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, file)
		if d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "adr") {
			return fs.SkipDir
		}
		if filepath.Ext(file) != ".md" || d.Name() == "CHANGELOG.md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		block := false
		for i, line := range strings.Split(string(text), "\n") {
			at := rel + ":" + strconv.Itoa(i+1)
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				block = !block
			case block || strings.HasPrefix(line, "    "):
				code, _, _ := strings.Cut(line, " #")
				fn(at, code)
			default:
				for _, m := range span.FindAllStringSubmatch(line, -1) {
					fn(at, m[1])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var quotation = regexp.MustCompile(`'[^']*'|"[^"]*"`)

// ofWord leaves of what is quoted only what means nothing to a shell.
func ofWord(r rune) rune {
	if strings.ContainsRune(" |&;(<>-$", r) {
		return -1
	}
	return r
}

// atPrompt are the parts of a line of code that begin with jibe, with what is quoted as one word.
func atPrompt(code string) []string {
	var parts []string
	for _, part := range strings.FieldsFunc(quotation.ReplaceAllStringFunc(code, func(q string) string { return strings.Map(ofWord, q[1:len(q)-1]) }), func(r rune) bool { return strings.ContainsRune("|&;(", r) }) {
		part = strings.TrimPrefix(strings.TrimSpace(part), "$ ")
		if rest, ok := strings.CutPrefix(part, "sudo -u "); ok {
			_, part, _ = strings.Cut(rest, " ")
		}
		if strings.HasPrefix(part, "jibe ") {
			parts = append(parts, part)
		}
	}
	return parts
}

// Whoever follows a guide or a runbook types what it says.
func TestEveryCommandThatGuidesNameIsOne(t *testing.T) {
	root := newRoot()
	n := 0
	guides(t, func(at, code string) {
		for _, part := range atPrompt(code) {
			found, prose := calls(root, part)
			for _, c := range found {
				n++
				if why := unparsed(root, c); why != "" {
					t.Errorf("%s: %q: %s", at, code, why)
				}
			}
			for _, p := range prose {
				t.Errorf("%s: %q: %s is no command", at, code, p)
			}
			if why := untaken(part); why != "" {
				t.Errorf("%s: %q: %s", at, code, why)
			}
		}
	})
	if n < 300 {
		t.Errorf("only %d commands were looked at", n)
	}
}

// untaken is why jibe doesn't take the whole line, "" where it does, or where the line only
// names a command.
func untaken(line string) string {
	args := exampleArgs(line)
	if args == nil || strings.ContainsAny(line, "…[") || !strings.Contains(line, " -") && len(args) < 3 || args[0] == "COMMAND" {
		return ""
	}
	if args[len(args)-1] == "\\" {
		args = args[:len(args)-1] // it goes on in the next line
	}
	cmd, rest, err := newRoot().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil && (errors.Is(err, pflag.ErrHelp) || strings.HasPrefix(err.Error(), "flag needs an argument")) {
		return "" // it names the flag
	}
	if err == nil && len(cmd.Flags().Args()) > 0 { // else it may only name the command and its flags
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
