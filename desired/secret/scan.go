package secret

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Exposure is a secret that stands in clear in a commit. It never has the secret itself.
type Exposure struct {
	// Commit is the first one that has it, in full.
	Commit string
	// File is its path in the commit, Field where in it the secret is ("params.password"), or what
	// was recognised where the file has no fields.
	File, Field string
	// Now says that it is still in a file at head.
	Now bool
}

// maxScanned is the most that a file may have to be looked into, in bytes.
const maxScanned = 4 << 20

// Scan looks for secrets in clear in the repository: in the commit that HEAD names, or with history
// in all commits that a branch, tag or another ref reaches. The clone may be bare. It returns
// them in the order of their commits, and the files that are too large to be looked into.
func Scan(ctx context.Context, repo git.Runner, history bool) (found []Exposure, skipped []string, _ error) {
	s := &scan{first: map[key]int{}, blobs: map[string][]sighting{}, at: map[key][]version{}}
	head, err := s.list(ctx, repo, "ls-tree", "-r", "-z", "--full-tree", "HEAD")
	if err != nil {
		return nil, nil, fmt.Errorf("read HEAD of %s: %w", cmp.Or(repo.Clone, repo.Dir), err)
	}
	commit, err := repo.Run(ctx, "rev-parse", "HEAD")
	if err != nil {
		return nil, nil, err
	}
	if history {
		if err := s.log(ctx, repo); err != nil {
			return nil, nil, fmt.Errorf("read the history: %w", err)
		}
	} else {
		for _, entry := range head {
			s.add(strings.TrimSpace(commit), entry.blob, entry.path)
		}
	}
	objects := git.NewObjects(repo, git.Limits{Blob: maxScanned, Tree: maxScanned, Commit: maxScanned}, 1<<20)
	defer objects.Close()
	const batch = 1000
	for names := range slices.Chunk(s.order, batch) {
		if err := objects.Scan(ctx, git.KindBlob, names, func(i int, data []byte, err error) error {
			return s.look(names[i], data, err)
		}); err != nil {
			return nil, nil, err
		}
	}
	now := map[version]bool{}
	for _, entry := range head {
		now[entry] = true
	}
	for _, k := range s.keys {
		e := s.exposures[s.first[k]]
		e.Now = slices.ContainsFunc(s.at[k], func(v version) bool { return now[v] })
		found = append(found, e)
	}
	slices.Sort(s.skipped)
	return found, slices.Compact(s.skipped), nil
}

// version is a blob under a name.
type version struct{ blob, path string }

// key is equal for the same secret at the same place.
type key struct {
	path, field string
	value       [sha256.Size]byte
}

// sighting is a name of a blob and the first commit that has it there.
type sighting struct {
	commit string
	path   string
}

type scan struct {
	blobs map[string][]sighting // each path of a blob once, oldest first
	order []string              // blobs, each once, oldest first

	exposures []Exposure
	first     map[key]int // in exposures
	keys      []key
	at        map[key][]version
	skipped   []string
}

// add notes that the commit has the blob under a name, the first one that does so.
func (s *scan) add(commit, blob, name string) {
	known := s.blobs[blob]
	if known == nil {
		s.order = append(s.order, blob)
	}
	if !slices.ContainsFunc(known, func(k sighting) bool { return k.path == name }) {
		s.blobs[blob] = append(known, sighting{commit, name})
	}
}

// list returns the files that "git ls-tree -z" tells of.
func (s *scan) list(ctx context.Context, repo git.Runner, args ...string) ([]version, error) {
	text, err := repo.Run(ctx, args...)
	if err != nil {
		return nil, err
	}
	var out []version
	for line := range strings.SplitSeq(text, "\x00") {
		// "100644 blob HASH\tpath"
		about, name, ok := strings.Cut(line, "\t")
		if f := strings.Fields(about); ok && len(f) == 3 && isFile(f[0]) {
			out = append(out, version{f[2], name})
		}
	}
	return out, nil
}

// isFile says whether a mode of git is that of a file, and not of a link, or of another
// repository.
func isFile(mode string) bool { return mode == "100644" || mode == "100755" || mode == "100664" }

// log adds each file of each commit that it changes. One process tells of all of them.
func (s *scan) log(ctx context.Context, repo git.Runner) (err error) {
	cmd := repo.Command(ctx, "log", "--all", "--reverse", "--topo-order", "--root", "-m", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", "--no-show-signature", "--diff-filter=AMT", "--format=commit %H")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	err = s.read(bufio.NewReaderSize(out, 64<<10))
	if err != nil {
		_ = cmd.Cancel() // it would wait for a reader
	}
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("git log: %w: %s", ended, strings.TrimSpace(said.String()))
	}
	return err
}

// errLog is returned for output of git that isn't what its manual says.
var errLog = errors.New("git log told of a change in a way that isn't known")

func (s *scan) read(in *bufio.Reader) error {
	token := func() (string, error) {
		text, err := in.ReadString(0)
		if errors.Is(err, io.EOF) && text != "" {
			err = io.ErrUnexpectedEOF
		}
		return strings.TrimSuffix(text, "\x00"), err
	}
	commit := ""
	for {
		text, err := token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text = strings.TrimPrefix(text, "\n")
		if hash, ok := strings.CutPrefix(text, "commit "); ok {
			if commit = hash; !git.IsHash(commit) {
				return errLog
			}
			continue
		}
		// ":100644 100644 OLD NEW M", and then the path
		f := strings.Fields(text)
		if len(f) != 5 || f[0][0] != ':' || !git.IsHash(f[3]) || commit == "" {
			return errLog
		}
		name, err := token()
		if err != nil {
			return err
		}
		if isFile(f[1]) {
			s.add(commit, f[3], name)
		}
	}
}

// look finds the secrets of one blob, under each of its names.
func (s *scan) look(blob string, data []byte, err error) error {
	large := errors.Is(err, git.ErrTooLarge)
	if err != nil && !large {
		return err
	}
	secrets := map[bool][]desired.Secret{}
	for _, at := range s.blobs[blob] {
		if large {
			s.skipped = append(s.skipped, at.path)
			continue
		}
		fields := hasFields(at.path)
		found, ok := secrets[fields]
		if !ok {
			found = inClear(data, fields)
			secrets[fields] = found
		}
		for _, one := range found {
			k := key{at.path, one.Where(), sha256.Sum256([]byte(one.Value))}
			if _, known := s.first[k]; !known {
				s.first[k] = len(s.exposures)
				s.keys = append(s.keys, k)
				s.exposures = append(s.exposures, Exposure{Commit: at.commit, File: at.path, Field: k.field})
			}
			s.at[k] = append(s.at[k], version{blob, at.path})
		}
	}
	return nil
}

func hasFields(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// inClear returns the secrets of a file. What has no fields is searched for what is a secret
// whatever its name is, and so are comments.
func inClear(data []byte, fields bool) (found []desired.Secret) {
	if fields {
		in := yaml.NewDecoder(bytes.NewReader(data))
		for {
			var document any
			if in.Decode(&document) != nil {
				break // the end, or no YAML: what it holds is looked for below
			}
			manifest := false
			if m, ok := document.(map[string]any); ok {
				_, kind := m["kind"].(string)
				_, version := m["apiVersion"].(string)
				manifest = kind && version
				if m["kind"] == "Secret" && manifest {
					found = everything(found, []string{"data"}, m["data"])
					found = everything(found, []string{"stringData"}, m["stringData"])
				}
			}
			found = walkClear(found, nil, document, false, manifest)
		}
	}
	if len(found) == 0 && desired.HoldsSecret(string(data)) {
		found = append(found, desired.Secret{Path: []string{"a private key or a token in the text"}, Value: string(data)})
	}
	return found
}

// everything are the texts of a Secret of Kubernetes.
func everything(found []desired.Secret, at []string, v any) []desired.Secret {
	m, _ := v.(map[string]any)
	for _, name := range sortedKeys(m) {
		if text, ok := m[name].(string); ok && text != "" && !desired.IsRef(text) && !isTemplate(text) && !desired.IsSecretValue(text) {
			found = append(found, desired.Secret{Path: append(slices.Clone(at), name), Value: text})
		}
	}
	return found
}

// walkClear adds the secrets below v. under says that a name above is that of a secret, manifest that
// the file is one of Kubernetes, where names above others say which secret is referred to.
func walkClear(found []desired.Secret, at []string, v any, under, manifest bool) []desired.Secret {
	var names desired.SecretNames
	switch v := v.(type) {
	case map[string]any:
		if t, ok := v["type"].(string); ok && under && isType(t) { // a parameter is declared
			v = map[string]any{"default": v["default"]}
		}
		pair := names.Pair(v)
		for _, name := range sortedKeys(v) {
			secret := names.Match(name) || name == pair
			switch v[name].(type) {
			case map[string]any, []any:
				secret = under || secret && !manifest && name != "credentials" && name != "accessInfo"
			default:
				secret = secret || under && !slices.Contains(refersTo(), name)
			}
			found = walkClear(found, append(slices.Clone(at), name), v[name], secret, manifest)
		}
	case []any:
		for i, e := range v {
			found = walkClear(found, append(slices.Clone(at), fmt.Sprint(i)), e, under, manifest)
		}
	case string:
		if v != "" && !desired.IsRef(v) && (desired.IsSecretValue(v) || under && !isTemplate(v)) {
			found = append(found, desired.Secret{Path: at, Value: v})
		}
	case int, int64, uint64, float64:
		if under {
			found = append(found, desired.Secret{Path: at, Value: desired.Decimal(v)})
		}
	}
	return found
}

// refersTo are keys of TOSCA and Heat whose value names where a value comes from.
func refersTo() []string {
	return []string{"get_input", "get_property", "get_attribute", "get_param", "get_resource", "get_attr", "get_file"}
}

func isType(name string) bool {
	return slices.Contains([]string{"string", "number", "integer", "float", "boolean", "json", "comma_delimited_list", "list", "map"}, name)
}

// isTemplate says whether the value is put in by somebody else later.
func isTemplate(v string) bool {
	return strings.Contains(v, "{{") || strings.HasPrefix(v, "${") || strings.HasPrefix(v, "$(")
}

func sortedKeys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
