package hooks_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/hooks"
)

const (
	drainClass = "class Drain(object):\n    def __init__(self, vnfc_param):\n        self.p = vnfc_param\n\n    def coordinate_vnf(self):\n        main = 1\n"
	scaleClass = "class Driver:\n    def scale_start(self):\n        print('drained')\n"
)

func TestTheTextOfAPythonFileTellsWhetherItWouldDoAnything(t *testing.T) {
	for name, c := range map[string]struct{ text, hook, class, want string }{
		"an entry point":                         {drainClass + "if __name__ == '__main__':\n    Drain(1).coordinate_vnf()\n", "coordinate_new", "Drain", "starts"},
		"one in brackets, of another class":      {drainClass + "if (__name__ == '__main__'):\n    x()\n", "coordinate_new", "Other", "starts"},
		"a call at the top level":                {drainClass + "main()\n", "coordinate_new", "", "starts"},
		"a call over several lines":              {"def main(\n    a=1,\n):\n    pass\n\nmain(\n)\n", "scale_start", "", "starts"},
		"a call in an if":                        {scaleClass + "if True:\n    Driver().scale_start()\n", "scale_start", "", "starts"},
		"a call on the line of an if":            {scaleClass + "if True: Driver().scale_start()\n", "scale_start", "", "starts"},
		"a call after a semicolon":               {"import sys; sys.exit(0)\n", "scale_start", "", "starts"},
		"a call whose answer is kept":            {scaleClass + "d = Driver()\n", "scale_start", "", "starts"},
		"work by others in an assignment":        {"import subprocess\ndef x(): pass\nr = subprocess.run(['kubectl'])\n", "scale_start", "", "may start"},
		"only imports":                           {"import the_driver\n", "scale_start", "", "may start"},
		"a loop":                                 {"for x in open('a'):\n    print(x)\n", "scale_start", "", "starts"},
		"a class that the request names":         {drainClass, "coordinate_new", "Drain", "class Drain"},
		"one with what modules usually say":      {"'''Doc: main()'''\nimport logging\nLOG = logging.getLogger(__name__)\nWAIT = 4\ntry:\n    import yaml\nexcept ImportError:\n    yaml = None\n" + drainClass, "coordinate_new", "Drain", "class Drain"},
		"a comment that calls":                   {drainClass + "# main()\n", "coordinate_old", "Drain", "class Drain"},
		"a text that calls":                      {drainClass + "\"\"\"\nmain()\nif __name__ == '__main__':\n    main()\n\"\"\"\n", "coordinate_old", "Drain", "class Drain"},
		"a decorated class":                      {"import functools\n@functools.total_ordering\n" + drainClass, "coordinate_new", "Drain", "class Drain"},
		"a class made of an imported one":        {"from base import Base\nclass Drain(Base):\n    pass\n", "coordinate_new", "Drain", "class Drain"},
		"a driver's class":                       {scaleClass, "scale_start", "", "class Driver"},
		"a driver's class that inherits":         {scaleClass + "class Mine(Driver):\n    def scale_end(self): pass\n", "scale_start", "", "class Mine"},
		"a class that isn't named":               {drainClass, "coordinate_new", "", "name one (lcm-operation-coordinate-new-vnf-class)"},
		"a class that isn't there":               {drainClass, "coordinate_old", "Gone", "it has no class Gone (it has Drain)"},
		"a class without the method":             {scaleClass, "coordinate_rollback", "Driver", "its class Driver has no method coordinate_vnf"},
		"a driver without the method":            {scaleClass, "scale_end", "", "has no class with a method scale_end (it has Driver)"},
		"two drivers":                            {scaleClass + strings.Replace(scaleClass, "Driver", "Second", 1), "scale_start", "", "several classes with a method scale_start"},
		"a nested function of the method's name": {"class Driver:\n    def other(self):\n        def scale_start(): pass\n", "scale_start", "", "has no class with a method scale_start"},
		"a function within a function":           {"class Driver:\n    x = 1\ndef f():\n    def scale_start(): pass\n", "scale_start", "", "has no class with a method scale_start"},
		"functions alone":                        {"def scale_start():\n    pass\n", "scale_start", "", "it has no class at all"},
		"a comment alone":                        {"# nothing\n", "scale_start", "", "it has no class at all"},
		"classes made of each other":             {"class A(B): pass\nclass B(A): pass\n", "scale_start", "", "no class with a method"},
	} {
		if got := hooks.Look(c.text, c.hook, c.class); got != c.want && (c.want == "starts" || strings.HasPrefix(c.want, "class ") || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestImportsThatAFileCantDoWithoutAreThoseOfItsTopLevel(t *testing.T) {
	text := "import os, sys as s\nfrom tacker.common import (\n    log,\n    cmd)\nimport a.b.c\nfrom . import beside\ntry:\n    import maybe\nexcept ImportError:\n    pass\n" +
		"def f():\n    import late\nx = 'import fake'\n"
	if got, want := hooks.Imports(text), []string{"a", "os", "sys", "tacker"}; !slices.Equal(got, want) {
		t.Errorf("they are %q, want %q", got, want)
	}
}

func FuzzThatAnyTextCanBeLookedAt(f *testing.F) {
	for _, text := range []string{drainClass, scaleClass, "x = '''", "\\\n", "\\\r", "x = \\\r\n1", "(((", "class A(A): pass\n", "if :", "import \nfrom \n", "def", "a = b'\\"} {
		f.Add(text, "scale_start")
	}
	f.Fuzz(func(_ *testing.T, text, hook string) { hooks.Look(text, hook, "A") })
}
