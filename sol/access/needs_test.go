package access_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/sol/access"
)

// source finds what a file registers with a mux, or with an API of package rest.
type source struct {
	*testing.T
	values map[string][]string // of the variables of loops over texts
	sets   map[string]ast.Expr // what variables were set to
}

// texts are what a path may be: a text, a variable of a loop over texts, or both in a row.
func (s *source) texts(e ast.Expr) []string {
	s.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			s.Fatal(err)
		}
		return []string{text}
	case *ast.Ident:
		if all := s.values[e.Name]; all != nil {
			return all
		}
	case *ast.BinaryExpr:
		var all []string
		for _, a := range s.texts(e.X) {
			for _, b := range s.texts(e.Y) {
				all = append(all, a+b)
			}
		}
		return all
	}
	s.Fatalf("a path that this test can't read: %#v", e)
	return nil
}

// methods are the keys of a rest.Methods.
func (s *source) methods(e ast.Expr) (all []string) {
	s.Helper()
	if name, ok := e.(*ast.Ident); ok {
		e = s.sets[name.Name]
	}
	literal, ok := e.(*ast.CompositeLit)
	if !ok {
		s.Fatalf("methods that this test can't read: %#v", e)
	}
	for _, pair := range literal.Elts {
		key := pair.(*ast.KeyValueExpr).Key.(*ast.SelectorExpr)
		all = append(all, strings.ToUpper(strings.TrimPrefix(key.Sel.Name, "Method")))
	}
	return all
}

// routes are the methods and paths that the file registers.
func routes(t *testing.T, file string) (all []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &source{t, map[string][]string{}, map[string]ast.Expr{}}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			list, ok := n.X.(*ast.CompositeLit)
			name, named := n.Value.(*ast.Ident)
			if !ok || !named {
				break
			}
			s.values[name.Name] = nil
			for _, e := range list.Elts {
				if text, ok := e.(*ast.BasicLit); ok {
					s.values[name.Name] = append(s.values[name.Name], s.texts(text)...)
				}
			}
		case *ast.AssignStmt:
			if name, ok := n.Lhs[0].(*ast.Ident); ok && len(n.Lhs) == 1 {
				s.sets[name.Name] = n.Rhs[0]
			}
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			of, _ := called.X.(*ast.Ident)
			switch {
			case called.Sel.Name == "HandleFunc":
				all = append(all, s.texts(n.Args[0])...)
			case of != nil && (of.Name == "a" || of.Name == "api") && (called.Sel.Name == "Handle" || called.Sel.Name == "HandleMedia"):
				for _, path := range s.texts(n.Args[0]) {
					for _, method := range s.methods(n.Args[len(n.Args)-1]) {
						all = append(all, method+" "+path)
					}
				}
			}
		}
		return true
	})
	return all
}

func TestTheTableSaysOfEachRouteThatIsServedWhatItNeeds(t *testing.T) {
	for _, c := range []struct {
		file  string
		roots []string
		least int
	}{
		{"../sol.go", []string{"/vnflcm/v1", "/vnflcm/v2"}, 20},
		{"../vnfpkgm/vnfpkgm.go", []string{"/vnfpkgm/v1", "/vnfpkgm/v2"}, 20},
		{"../vims/vims.go", []string{"/v1.0"}, 7},
		{"../../app/api/jibeapi.go", []string{""}, 12},
	} {
		found := routes(t, c.file)
		if len(found) < c.least {
			t.Errorf("%s: only %d routes were found: %v", c.file, len(found), found)
		}
		for _, route := range found {
			for _, root := range c.roots {
				method, path, _ := strings.Cut(route, " ")
				need, known := access.Needs(method, root+path)
				if !known {
					t.Errorf("%s: the table doesn't say what %s %s needs", c.file, method, root+path)
				}
				if writes := method != http.MethodGet && method != http.MethodHead; writes && need.Role == auth.Viewer && !strings.Contains(path, "/subscriptions") && path != "/jibe/v1/ui-links" {
					t.Errorf("%s: a viewer may %s %s", c.file, method, root+path)
				}
			}
		}
	}
}

func TestRoutesAreRegisteredOnlyInTheFilesThatAreHeldAgainstTheTable(t *testing.T) {
	held := map[string]bool{"sol.go": true, "vnfpkgm.go": true, "vims.go": true, "rest.go": true}
	for _, dir := range []string{"..", "../vnfpkgm", "../vims"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, file := range files {
			if held[filepath.Base(file)] || strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "rest.Methods{") {
				t.Errorf("%s registers routes, which no test holds against the table", file)
			}
		}
	}
}

func TestWhoeverAsksForWhatTheTableDoesNotKnowIsNotTold(t *testing.T) {
	for _, route := range []string{"POST /vnflcm/v2/vnf_instances/{id}", "DELETE /vnflcm/v2/vnf_lcm_op_occs/{id}", "TRACE /vnflcm/v2/vnf_instances", "GET ", "get /vnflcm/v2/vnf_instances"} {
		method, path, _ := strings.Cut(route, " ")
		if need, known := access.Needs(method, path); known {
			t.Errorf("%s needs %+v", route, need)
		}
	}
}
