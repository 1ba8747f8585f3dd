package hot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// mark is what Jibe writes into the metadata of a server.
type mark struct{ instance, vdu, digest, generation string }

func (m *mark) metadata() map[string]any {
	out := map[string]any{MetaInstance: m.instance, MetaVDU: m.vdu, MetaDigest: m.digest}
	if m.generation != "" {
		out[MetaGeneration] = m.generation
	}
	return out
}

// mergeable is the first version of HOT that has map_merge.
const mergeable = "2016-04-08"

// addTo marks a server. Where only Heat can resolve the server's metadata, Heat merges the two,
// and merged is true: that needs a template of [mergeable]. A plain mapping gets the mark
// whatever the version.
func (m *mark) addTo(server map[string]any) (merged bool) {
	properties, _ := server["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		server["properties"] = properties
	}
	own := m.metadata()
	switch x := properties["metadata"].(type) {
	case nil:
		properties["metadata"] = own
	case map[string]any:
		if _, _, isCall := call(x); isCall {
			properties["metadata"] = map[string]any{"map_merge": []any{x, own}}
			return true
		}
		properties["metadata"] = merge(x, own)
	default:
		properties["metadata"] = own
	}
	return false
}

// raiseVersion gives a template the version that map_merge needs, where its own is older. Later
// versions, and those with a release's name, have map_merge.
func raiseVersion(tree map[string]any) {
	if s, _ := tree["heat_template_version"].(string); s < mergeable {
		tree["heat_template_version"] = mergeable
	}
}

// packer adds templates to the files of a body, with their servers marked where there is a mark.
type packer struct {
	*Folder
	mark  *mark
	files map[string]string
	// packed are the names of the templates that it has added, by file: a file may be used any
	// number of times.
	packed map[string]string
}

func (f *Folder) packer(m *mark, files map[string]string) *packer {
	return &packer{f, m, files, map[string]string{}}
}

// pack adds a template and all that it refers to, and returns its name among the files. A name
// contains a digest of the content, so that two versions of one file can stand side by side.
func (p *packer) pack(t *template) (string, error) {
	if name := p.packed[t.file]; name != "" {
		return name, nil
	}

	tree := cloneMap(t.tree)
	for _, name := range sorted(section(tree, "resources")) {
		r := resourceOf(section(tree, "resources"), name)
		if err := p.retype(t, r); err != nil {
			return "", err
		}
		if p.mark != nil && typeOf(r) == typeServer && p.mark.addTo(r) {
			raiseVersion(tree)
		}
	}
	tree = p.refile(t, tree, p.files).(map[string]any)
	data, err := json.Marshal(tree)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", t.file, err)
	}
	name := named(t.file, string(data))
	p.files[name], p.packed[t.file] = string(data), name

	return name, nil
}

// retype replaces a resource's types that are files by their names among the files of a body.
func (p *packer) retype(t *template, r map[string]any) error {
	holders := []map[string]any{r, section(section(r, "properties"), "resource"), section(section(r, "properties"), "resource_def")}
	for _, holder := range holders {
		target := t.nested[typeOf(holder)]
		if target == "" {
			continue
		}
		name, err := p.pack(p.byFile[target])
		if err != nil {
			return err
		}
		holder["type"] = name
	}
	return nil
}

// refile replaces the names of get_file by those among the files of a body.
func (f *Folder) refile(t *template, v any, files map[string]string) any {
	return rewrite(v, func(function string, arg any) (any, bool) {
		name, _ := arg.(string)
		target, known := t.texts[name]
		if function != "get_file" || !known {
			return nil, false
		}
		files[f.names[target]] = f.texts[target]
		return map[string]any{"get_file": f.names[target]}, true
	})
}

// named is the name of a file among those of a body, with a digest of the content.
func named(file, content string) string {
	base := path.Base(file)
	ext := path.Ext(base)
	sum := sha256.Sum256([]byte(content))
	return strings.TrimSuffix(base, ext) + "-" + hex.EncodeToString(sum[:4]) + ext
}
