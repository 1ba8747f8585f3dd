package hooks

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// findTime bounds the look for modules.
const findTime = 20 * time.Second

// findModules is Python that prints those of its arguments that can't be imported. Nothing
// of theirs is run.
const findModules = `import importlib.util, sys
for name in sys.argv[1:]:
    try:
        found = name in sys.builtin_module_names or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        print(name)
`

// maxLooks is how many looks at files are kept.
const maxLooks = 1000

// Interpreter knows which modules the python3 has that runs hooks, and what the texts of
// packages tell. The zero value is ready for use, by several at once.
type Interpreter struct {
	mu    sync.Mutex
	found map[string]bool // what is there isn't looked for again
	looks map[look]pythonFile
}

// look names a file of a package.
type look struct{ tree, path string }

// lookAt is [lookAt] that is remembered: a push may have thousands of instances of one package.
func (p *Interpreter) lookAt(pkg *vnfd.Package, file string) (pythonFile, error) {
	key := look{pkg.Tree, file}
	p.mu.Lock()
	found, ok := p.looks[key]
	p.mu.Unlock()
	if ok {
		return found, nil
	}
	found, err := lookAt(pkg.Files, file)
	if err != nil || pkg.Tree == "" {
		return found, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looks == nil || len(p.looks) >= maxLooks {
		p.looks = map[look]pythonFile{}
	}
	p.looks[key] = found
	return found, nil
}

// Missing returns those of the modules, named by the first part of their names, that can't be
// imported. An error says that there is no python3, or that it doesn't work.
func (p *Interpreter) Missing(ctx context.Context, modules []string) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	modules = slices.DeleteFunc(slices.Clone(modules), func(name string) bool { return p.found[name] })
	python := interpreter("python3")
	if python == "" {
		return nil, errNoPython
	}
	if len(modules) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"-I", "-B", "-c", findModules}, modules...)...)
	cmd.Env, cmd.Dir = []string{"PATH=" + searchPath, "LANG=C.UTF-8"}, "/"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("look for modules of %s: %w: %s", python, err, strings.TrimSpace(stderr.String()))
	}
	missing := strings.Fields(string(out))
	if p.found == nil {
		p.found = map[string]bool{}
	}
	for _, name := range modules {
		if !slices.Contains(missing, name) {
			p.found[name] = true
		}
	}
	return missing, nil
}
