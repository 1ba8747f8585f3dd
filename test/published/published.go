// Package published holds what tests receive of Jibe's API against the definitions
// (OpenAPI) that ETSI has published of SOL002 and SOL003. These are data of somebody
// else's and no part of the project: where a machine doesn't have them, what needs them
// is skipped and says so. What is known to be wrong in them is repaired here, and
// nowhere else.
package published

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

const (
	// EnvDefinitions names the environment variable that holds the folder of the
	// definitions. Without it that is shared/reference beside the project's folder. In it
	// are the folders sol003-v3.3.1 and sol002-sol003-v3.7.1, each with the files as they
	// were published.
	EnvDefinitions = "JIBE_TEST_SOL_DEFINITIONS"
	// EnvRequire names the environment variable that, when "1", makes missing
	// definitions fail a test instead of skipping what needs them.
	EnvRequire = "JIBE_TEST_REQUIRE_SOL_DEFINITIONS"
)

// The folders, by edition.
const (
	edition331 = "sol003-v3.3.1"
	edition371 = "sol002-sol003-v3.7.1"
)

// folder is where the definitions are looked for.
func folder() string {
	return cmp.Or(os.Getenv(EnvDefinitions), filepath.Join(filepath.Dir(testenv.Root()), "shared", "reference"))
}

// missing says which definitions are not there, nil where all are.
func missing() error {
	for _, edition := range []string{edition331, edition371} {
		switch _, err := os.Stat(filepath.Join(folder(), edition)); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("there is no folder %s: set %s to a folder that has it", filepath.Join(folder(), edition), EnvDefinitions)
		case err != nil:
			return err
		}
	}
	return nil
}

// Need skips the test where the published definitions aren't there. It fails it instead
// if [EnvRequire] is "1", or if somebody has said where they are and is wrong.
func Need(t testing.TB) {
	t.Helper()
	err := missing()
	switch {
	case err == nil:
	case os.Getenv(EnvRequire) == "1":
		t.Fatalf("the published definitions of SOL002 and SOL003 are needed (%s=1): %v", EnvRequire, err)
	case os.Getenv(EnvDefinitions) != "":
		t.Fatalf("the published definitions of SOL002 and SOL003: %v", err)
	default:
		t.Skipf("nothing is held against the published definitions of SOL002 and SOL003: %v", err)
	}
}

// Held is for a test that holds what it receives in passing against the published
// definitions, and proves other things besides. It runs a test in the test: that is
// skipped where they aren't there, so that nobody takes for held what isn't.
func Held(t *testing.T) {
	t.Helper()
	t.Run("what is received is held against the published definitions", func(t *testing.T) { Need(t) })
}

// Interface is an interface of which there are descriptions, by the name of their file.
type Interface string

// The interfaces.
const (
	Lifecycle    Interface = "VNFLifecycleManagement"
	Packages     Interface = "VNFPackageManagement"
	Grants       Interface = "VNFLifecycleOperationGranting"
	Coordination Interface = "VNFLCMCoordination" // SOL002 alone has it
)

// Edition is one description of an interface.
type Edition struct {
	Name string // "SOL003 v3.3.1"
	*openapi3.T
}

// Editions are the descriptions of the interface, first that of SOL003 v3.3.1, which Jibe
// implements; none where they aren't there. They are shared: nobody may change them.
func (i Interface) Editions() ([]Edition, error) {
	if read := editions[i]; read != nil {
		return read()
	}
	return nil, fmt.Errorf("there are no definitions of %s", i)
}

// Each is read once in a process, as that takes longer than most tests.
var (
	editions = map[Interface]func() ([]Edition, error){
		Lifecycle:    once(in331(Lifecycle), in371("SOL003", Lifecycle), in371("SOL002", Lifecycle)),
		Packages:     once(in331(Packages), in371("SOL003", Packages)),
		Grants:       once(in331(Grants), in371("SOL003", Grants)),
		Coordination: once(in371("SOL002", Coordination)),
	}
	bodies = sync.OnceValues(notificationBodies)
)

// file is one file of definitions.
type file struct {
	name, path string
	repair     func(*openapi3.T)
}

func in331(i Interface) file {
	return file{"SOL003 v3.3.1", edition331 + "/" + string(i) + ".json", func(doc *openapi3.T) { repair331(i, doc) }}
}

func in371(standard string, i Interface) file {
	return file{standard + " v3.7.1", edition371 + "/" + standard + "/" + string(i) + "/" + string(i) + ".yaml", repair371}
}

// once returns a function that reads the files when it is first called.
func once(files ...file) func() ([]Edition, error) {
	return sync.OnceValues(func() (all []Edition, err error) {
		if missing() != nil {
			return nil, nil
		}
		for _, f := range files {
			doc, err := loader().LoadFromFile(filepath.Join(folder(), filepath.FromSlash(f.path)))
			if err != nil {
				return nil, fmt.Errorf("published definitions of %s: %w", f.path, err)
			}
			f.repair(doc)
			all = append(all, Edition{f.name, doc})
		}
		return all, nil
	})
}

// loader reads a description with what it refers to beside it.
func loader() *openapi3.Loader {
	loader := openapi3.NewLoader()
	loader.IsExternalRefsAllowed = true
	// Nothing of another machine is needed, and none is asked.
	loader.ReadFromURIFunc = func(_ *openapi3.Loader, location *url.URL) ([]byte, error) {
		if location.Host != "" {
			return nil, fmt.Errorf("%s is on another machine", location)
		}
		return os.ReadFile(filepath.FromSlash(location.Path))
	}
	return loader
}

// Holds holds a value, as encoding/json reads it, against a schema of the definitions. The
// error says for each thing that is wrong where it is and why.
func Holds(s *openapi3.Schema, v any, more ...openapi3.SchemaValidationOption) error {
	message := openapi3.SetSchemaErrorMessageCustomizer(func(err *openapi3.SchemaError) string {
		return "/" + strings.Join(err.JSONPointer(), "/") + ": " + err.Reason
	})
	return s.VisitJSON(v, append([]openapi3.SchemaValidationOption{message, openapi3.MultiErrors()}, more...)...)
}

// Unknown are the attributes of v, such as "/instantiatedVnfInfo/vnfState", that the schema
// doesn't name, where it doesn't leave them to others: a name that is misspelt breaks no
// rule of a schema. Places in lists are left out.
func Unknown(s *openapi3.Schema, v any) []string { return unknown(s, v, "") }

func unknown(s *openapi3.Schema, v any, at string) (names []string) {
	if s == nil {
		return nil
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if s.Items != nil {
				names = append(names, unknown(s.Items.Value, item, at)...)
			}
		}
	case map[string]any:
		known := properties(s)
		if len(known) == 0 {
			return nil // key-value pairs
		}
		for name, value := range v {
			p, ok := known[name]
			if !ok {
				names = append(names, at+"/"+name)
				continue
			}
			names = append(names, unknown(p.Value, value, at+"/"+name)...)
		}
	}
	return names
}

// properties are those of the schema and of all that it is made of.
func properties(s *openapi3.Schema) openapi3.Schemas {
	all := openapi3.Schemas{}
	for name, p := range s.Properties {
		all[name] = p
	}
	for _, list := range []openapi3.SchemaRefs{s.AllOf, s.OneOf, s.AnyOf} {
		for _, part := range list {
			for name, p := range properties(part.Value) {
				all[name] = p
			}
		}
	}
	return all
}
