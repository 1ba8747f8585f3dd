package lcm

import (
	"maps"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/mergepatch"
)

// Entries change an instance's metadata, extensions and params and the VIMs that it
// provides: a value is set, nil removes the entry.
type Entries struct {
	Metadata   map[string]any `json:"metadata,omitempty"`
	Extensions map[string]any `json:"extensions,omitempty"`
	// Params is a merge patch (RFC 7396) of the instance's params.
	Params map[string]any `json:"params,omitempty"`
	// VIMs by name. Their credentials are references.
	VIMs map[string]*desired.VIM `json:"vims,omitempty"`
}

// IsZero says whether there is nothing to set or to remove.
func (m Entries) IsZero() bool { return !m.OfInstance() && len(m.VIMs) == 0 }

// OfInstance says whether m changes the instance's own file.
func (m Entries) OfInstance() bool {
	return len(m.Metadata) > 0 || len(m.Extensions) > 0 || len(m.Params) > 0
}

// With returns the entries of both. Where both have one, that of later counts.
func (m Entries) With(later Entries) Entries {
	params := maps.Clone(m.Params)
	if len(later.Params) > 0 {
		params = mergepatch.Join(m.Params, later.Params)
	}
	return Entries{Metadata: merged(m.Metadata, later.Metadata), Extensions: merged(m.Extensions, later.Extensions),
		Params: params, VIMs: merged(m.VIMs, later.VIMs)}
}

// Apply returns metadata and extensions as m changes them. The arguments are not altered.
func (m Entries) Apply(metadata, extensions map[string]any) (newMetadata, newExtensions map[string]any) {
	drop := func(_ string, v any) bool { return v == nil }
	newMetadata, newExtensions = merged(metadata, m.Metadata), merged(extensions, m.Extensions)
	maps.DeleteFunc(newMetadata, drop)
	maps.DeleteFunc(newExtensions, drop)
	return newMetadata, newExtensions
}

// Patch returns params as m changes them.
func (m Entries) Patch(params map[string]any) map[string]any {
	if len(m.Params) == 0 {
		return maps.Clone(params)
	}
	return mergepatch.Apply(params, m.Params)
}

func merged[V any](a, b map[string]V) map[string]V {
	if len(b) == 0 {
		return maps.Clone(a)
	}
	out := make(map[string]V, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}
