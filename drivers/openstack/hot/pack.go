package hot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// mark is what a server's metadata tells of it.
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

// into marks a server. Where its metadata is known only to Heat the two are merged by
// Heat, and merged says so: that needs a template of [mergeable], while a mapping that
// stands there in clear is filled in whatever the version.
func (m *mark) into(server map[string]any) (merged bool) {
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

// raise gives a template the version that map_merge needs, where its own is older. Later
// ones and those with a release's name have it.
func raise(tree map[string]any) {
	if s, _ := tree["heat_template_version"].(string); s < mergeable {
		tree["heat_template_version"] = mergeable
	}
}

// pack puts a template and what it leads to among the files of a body, its servers
// marked, and returns the name under which it stands there. Names tell the content, so
// that two versions of one file stand side by side.
func (f *Folder) pack(t *template, m *mark, files map[string]string) (string, error) {
	tree := cloneMap(t.tree)
	for _, name := range sorted(section(tree, "resources")) {
		r := resourceOf(section(tree, "resources"), name)
		if err := f.retype(t, r, m, files); err != nil {
			return "", err
		}
		if m != nil && typeOf(r) == typeServer && m.into(r) {
			raise(tree)
		}
	}
	tree = f.refile(t, tree, files).(map[string]any)
	data, err := json.Marshal(tree)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", t.file, err)
	}
	return stow(t.file, string(data), files), nil
}

// retype gives a resource's types that are files their names among the files of a body.
func (f *Folder) retype(t *template, r map[string]any, m *mark, files map[string]string) error {
	holders := []map[string]any{r, section(section(r, "properties"), "resource"), section(section(r, "properties"), "resource_def")}
	for _, holder := range holders {
		target := t.nested[typeOf(holder)]
		if target == "" {
			continue
		}
		name, err := f.pack(f.byFile[target], m, files)
		if err != nil {
			return err
		}
		holder["type"] = name
	}
	return nil
}

// refile gives what get_file names its name among the files of a body.
func (f *Folder) refile(t *template, v any, files map[string]string) any {
	return rewrite(v, func(function string, arg any) (any, bool) {
		name, _ := arg.(string)
		target, known := t.texts[name]
		if function != "get_file" || !known {
			return nil, false
		}
		return map[string]any{"get_file": stow(target, f.texts[target], files)}, true
	})
}

// stow puts a content among the files, under a name that tells it.
func stow(file, content string, files map[string]string) string {
	base := path.Base(file)
	ext := path.Ext(base)
	sum := sha256.Sum256([]byte(content))
	name := strings.TrimSuffix(base, ext) + "-" + hex.EncodeToString(sum[:4]) + ext
	files[name] = content
	return name
}
