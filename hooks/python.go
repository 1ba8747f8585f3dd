package hooks

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/plan"
)

// pythonFile is what the text of a Python file tells without running it.
type pythonFile struct {
	// starts says whether the file, run as a program, does anything but define.
	starts certainty
	// classes are those that it defines, and imports the modules (the first part of each
	// name) that it can't do without: imported at its top level, whatever happens.
	classes []pythonClass
	imports []string
	// pickles says that it imports pickle, searches that it changes where modules are found.
	pickles, searches bool
}

// certainty is how sure a look at a text can be.
type certainty int

const (
	no certainty = iota
	perhaps
	yes
)

// pythonClass is a class that a file defines at its top level.
type pythonClass struct {
	name           string
	bases, methods []string
}

// maxScript is how much of a script is looked at, in bytes.
const maxScript = 1 << 20

// lookAt reads what the text of the package's file tells. A file that doesn't exist, or is
// longer than what is looked at, is taken for one that starts by itself: running it says more.
func lookAt(files fs.FS, name string) (pythonFile, error) {
	f, err := files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return pythonFile{starts: yes}, nil
	}
	if err != nil {
		return pythonFile{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err != nil {
		return pythonFile{}, err
	}
	if len(text) > maxScript {
		return pythonFile{starts: yes, pickles: importsPickle.Match(text), searches: true}, nil
	}
	return parsePython(string(text)), nil
}

var (
	// importsPickle matches Python that imports pickle: a script of the older contract must.
	importsPickle = regexp.MustCompile(`(?m)^[ \t]*(?:import[ \t]+(?:[\w., \t]+,[ \t]*)?pickle\b|from[ \t]+pickle[ \t]+import\b)`)
	// searchesPath matches what changes where modules are found.
	searchesPath = regexp.MustCompile(`\bsys\.path\b|\bsite\.addsitedir\b`)
	definition   = regexp.MustCompile(`^(?:async[ \t]+)?(def|class)[ \t]+(\w+)[ \t]*(?:\(([^)]*)\))?`)
	called       = regexp.MustCompile(`([\w.]+)[ \t]*\(`)
	// quiet are functions whose call in an assignment does nothing by itself.
	quiet = regexp.MustCompile(`^(?:.*\.)?(?:getLogger|get_logger|compile|namedtuple|TypeVar|NewType|Enum|join|dirname|abspath|realpath|basename|get|getenv|` +
		`set|frozenset|dict|list|tuple|int|float|str|bool|len|range|sorted|timedelta|Path|object|OrderedDict|defaultdict|Lock|RLock|Event|` +
		`format|lower|upper|split|strip|register_opts|Opt|\w+Opt)$`)
)

// parsePython looks at a text. It knows as much of Python as tells definitions from work:
// indentation, strings, brackets and the words that statements begin with.
func parsePython(text string) pythonFile {
	f := pythonFile{pickles: importsPickle.MatchString(text), searches: searchesPath.MatchString(text)}
	lines := logicalLines(text)
	local := map[string]bool{}
	for _, l := range lines {
		if m := definition.FindStringSubmatch(l.text); m != nil && l.indent == 0 {
			local[m[2]] = true
		}
	}
	note := func(c certainty) { f.starts = max(f.starts, c) }
	imports := map[string]bool{}
	var within string // "def" or "class": the definition of the top level that the line is in
	var inner int     // the indentation of its body, 0 while it isn't known
	for _, l := range lines {
		m := definition.FindStringSubmatch(l.text)
		switch {
		case l.indent == 0:
			within, inner = "", 0
			if m != nil {
				if within = m[1]; within == "class" {
					f.classes = append(f.classes, pythonClass{name: m[2], bases: names(m[3])})
				}
				continue
			}
			for _, module := range imported(l.text) {
				imports[module] = true
			}
			note(works(l.text, local))
		case within != "":
			if inner == 0 {
				inner = l.indent
			}
			if m == nil || l.indent != inner {
				continue
			}
			if within == "class" && m[1] == "def" {
				c := &f.classes[len(f.classes)-1]
				c.methods = append(c.methods, m[2])
			}
		case m == nil: // within try, if, with and the like of the top level
			note(works(l.text, local))
		}
	}
	if len(local) == 0 && f.starts == no && len(imports) > 0 {
		f.starts = perhaps // what it imports may do the work
	}
	f.imports = slices.Sorted(maps.Keys(imports))
	return f
}

// works says whether a statement outside of definitions does anything; local are the names
// that the file defines.
func works(text string, local map[string]bool) certainty {
	most := no
	for statement := range strings.SplitSeq(text, ";") {
		statement = strings.TrimSpace(statement)
		word, rest, _ := strings.Cut(statement, " ")
		word = strings.TrimSuffix(word, ":")
		switch word {
		case "", "import", "from", "pass", "global", "del", "try", "else", "finally", "except", "raise":
		case "for", "while", "with", "async", "match":
			return yes
		case "if", "elif":
			head, body, _ := strings.Cut(rest, ":")
			if strings.Contains(head, "__name__") || slices.ContainsFunc(called.FindAllStringSubmatch(head, -1), func(m []string) bool { return local[m[1]] }) {
				return yes
			}
			most = max(most, works(body, local))
		default:
			most = max(most, does(statement, local))
		}
	}
	return most
}

// does says whether a simple statement does anything.
func does(statement string, local map[string]bool) certainty {
	if strings.HasPrefix(statement, "@") || strings.Trim(statement, `"'`) == "" {
		return no // a decorator, a text that only documents
	}
	if !assigns(statement) {
		if called.MatchString(statement) {
			return yes
		}
		return perhaps
	}
	most := no
	for _, m := range called.FindAllStringSubmatch(statement, -1) {
		switch {
		case local[m[1]] || strings.Contains(statement, "stdin"):
			return yes
		case !quiet.MatchString(m[1]):
			most = perhaps
		}
	}
	return most
}

// assigns says whether the statement is an assignment or an annotation.
func assigns(statement string) bool {
	depth := 0
	for i, c := range statement {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ':':
			if depth == 0 {
				return true
			}
		case '=':
			if depth == 0 {
				return i > 0 && !strings.HasPrefix(statement[i:], "==") && !strings.ContainsRune("!<>", rune(statement[i-1]))
			}
		}
	}
	return false
}

// imported are the modules that the statement imports, by the first part of their names.
func imported(statement string) []string {
	var out []string
	for one := range strings.SplitSeq(statement, ";") {
		one = strings.TrimSpace(one)
		if rest, ok := strings.CutPrefix(one, "import "); ok {
			out = append(out, names(rest)...)
		} else if rest, ok := strings.CutPrefix(one, "from "); ok {
			out = append(out, names(strings.Fields(rest + " ")[0])...)
		}
	}
	for i, name := range out {
		out[i], _, _ = strings.Cut(name, ".")
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" }) // those beside the file
}

// names are the dotted names in a list, without what follows each ("as …").
func names(list string) []string {
	var out []string
	for one := range strings.SplitSeq(list, ",") {
		if fields := strings.Fields(one); len(fields) > 0 && !strings.Contains(fields[0], "=") {
			out = append(out, fields[0])
		}
	}
	return out
}

// class is the class whose method is called for a hook where the file doesn't start by
// itself. named is the one that the request names, "" for none; the reason says why there is none.
func (f pythonFile) class(hook, named string) (name, reason string) {
	if Coordinates(hook) {
		if named == "" {
			return "", "it only defines, and no class of it is named" + f.listed() + ": name one (lcm-operation-" +
				strings.ReplaceAll(strings.Replace(hook, "rollback", "old", 1), "_", "-") + "-vnf-class), or " + endWithMain
		}
		i := slices.IndexFunc(f.classes, func(c pythonClass) bool { return c.name == named })
		switch {
		case i < 0:
			return "", "it has no class " + named + f.listed()
		case !f.has(f.classes[i], coordinateMethod):
			return "", "its class " + named + " has no method " + coordinateMethod
		}
		return named, ""
	}
	fit := f.those(func(c pythonClass) bool { return f.defines(c, hook) })
	if len(fit) == 0 {
		fit = f.those(func(c pythonClass) bool { return f.has(c, hook) })
	}
	// What others of them are made of isn't meant itself.
	all := slices.Clone(fit)
	fit = slices.DeleteFunc(fit, func(base pythonClass) bool {
		return slices.ContainsFunc(all, func(c pythonClass) bool { return slices.Contains(c.bases, base.name) })
	})
	switch len(fit) {
	case 1:
		return fit[0].name, ""
	case 0:
		return "", "it only defines, and has no class with a method " + hook + f.listed() +
			": give a class that method, or " + endWithMain
	}
	return "", "it only defines, and has several classes with a method " + hook + f.listed() + ": " + endWithMain
}

// endWithMain is what makes a file start by itself.
const endWithMain = `end the file with if __name__ == "__main__": main()`

// coordinateMethod is the method of a coordination script's class.
const coordinateMethod = "coordinate_vnf"

// those are the classes of which ok says so.
func (f pythonFile) those(ok func(pythonClass) bool) (out []pythonClass) {
	for _, c := range f.classes {
		if ok(c) {
			out = append(out, c)
		}
	}
	return out
}

// has says whether the class may have the method: by itself, or of a class that it is made of,
// which may be another file's.
func (f pythonFile) has(c pythonClass, method string) bool {
	return f.defines(c, method) || slices.ContainsFunc(c.bases, func(base string) bool {
		return base != "object" && !slices.ContainsFunc(f.classes, func(other pythonClass) bool { return other.name == base })
	})
}

// defines says whether the class has the method by itself, or of another class of the file.
func (f pythonFile) defines(c pythonClass, method string) bool {
	todo, seen := []pythonClass{c}, map[string]bool{}
	for len(todo) > 0 {
		c, todo = todo[0], todo[1:]
		if slices.Contains(c.methods, method) {
			return true
		}
		for _, other := range f.classes {
			if slices.Contains(c.bases, other.name) && !seen[other.name] {
				seen[other.name] = true
				todo = append(todo, other)
			}
		}
	}
	return false
}

// listed says which classes there are.
func (f pythonFile) listed() string {
	if len(f.classes) == 0 {
		return " (it has no class at all)"
	}
	var all []string
	for _, c := range f.classes {
		all = append(all, c.name)
	}
	return " (it has " + strings.Join(all, ", ") + ")"
}

// speaksOlder says which contract a file speaks. This is the one place that decides: a
// *.py that imports pickle, that has a user data class, or that only has a class for the hook
// speaks the older one, everything else Jibe's own.
func (f pythonFile) speaksOlder(name, hook, class string) bool {
	switch {
	case hook == plan.UserData:
		return true
	case path.Ext(name) != ".py":
		return false
	case f.pickles:
		return true
	case f.starts != no:
		return false
	}
	found, _ := f.class(hook, class)
	return found != ""
}

// logicalLine is a statement's line, however many lines of text it has, with the inside
// of texts and comments left out.
type logicalLine struct {
	indent int
	text   string
}

// logicalLines splits Python into its logical lines, without empty ones.
func logicalLines(text string) []logicalLine {
	var out []logicalLine
	var b strings.Builder
	indent, depth, begun := 0, 0, false
	end := func() {
		if s := strings.TrimSpace(b.String()); s != "" {
			out = append(out, logicalLine{indent, s})
		}
		b.Reset()
		indent, begun = 0, false
	}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case !begun && (c == ' ' || c == '\t'):
			indent++
			i++
			continue
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
			continue
		case strings.HasPrefix(text[i:], "\\\n") || strings.HasPrefix(text[i:], "\\\r\n"):
			i += strings.IndexByte(text[i:], '\n') + 1
			b.WriteByte(' ')
			continue
		case c == '"' || c == '\'':
			i = endOfText(text, i)
			b.WriteByte(c)
			b.WriteByte(c)
			begun = true
			continue
		case c == '\n' && depth == 0:
			end()
			i++
			continue
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth = max(depth-1, 0)
		}
		if begun = begun || c != '\r' && c != '\n'; c == '\n' || c == '\r' || c == '\t' {
			c = ' '
		}
		b.WriteByte(c)
		i++
	}
	end()
	return out
}

// endOfText is where the text that begins at i ends.
func endOfText(text string, i int) int {
	quote := text[i : i+1]
	if strings.HasPrefix(text[i:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	for i += len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		case text[i] == '\n' && len(quote) == 1:
			return i // it never ends: Python will say so
		}
	}
	return len(text)
}
