// Package published holds what tests receive of Jibe's API against the definitions
// (OpenAPI) that ETSI has published of SOL002 and SOL003. These are data of somebody
// else's and no part of the project: where a machine doesn't have them, what needs them
// is skipped and says so. What is known to be wrong in them is put right here, and
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
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
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
	_, file, _, _ := runtime.Caller(0)
	project := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	return cmp.Or(os.Getenv(EnvDefinitions), filepath.Join(filepath.Dir(project), "shared", "reference"))
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

// API is the description of VNF life cycle management of SOL003 v3.3.1, the edition that
// Jibe implements; nil where it isn't there. It is shared: nobody may change it.
func API() (*openapi3.T, error) { return api331() }

// NewerAPI is that of SOL003 v3.7.1, likewise.
func NewerAPI() (*openapi3.T, error) { return api371() }

// Read once in a process, as that takes longer than most tests.
var (
	api331 = sync.OnceValues(func() (*openapi3.T, error) {
		return load(mend331, edition331, "VNFLifecycleManagement.json")
	})
	api371 = sync.OnceValues(func() (*openapi3.T, error) {
		return load(mend371, edition371, "SOL003", "VNFLifecycleManagement", "VNFLifecycleManagement.yaml")
	})
	bodies = sync.OnceValues(notificationBodies)
)

// load reads a description with what it refers to beside it, and puts it right.
func load(mend func(*openapi3.T), path ...string) (*openapi3.T, error) {
	if missing() != nil {
		return nil, nil
	}
	file := filepath.Join(append([]string{folder()}, path...)...)
	doc, err := loader().LoadFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("published definitions %s: %w", file, err)
	}
	mend(doc)
	return doc, nil
}

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
	told := openapi3.SetSchemaErrorMessageCustomizer(func(err *openapi3.SchemaError) string {
		return "/" + strings.Join(err.JSONPointer(), "/") + ": " + err.Reason
	})
	return s.VisitJSON(v, append([]openapi3.SchemaValidationOption{told, openapi3.MultiErrors()}, more...)...)
}
