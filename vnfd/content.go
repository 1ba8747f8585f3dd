package vnfd

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
)

// Image is a software image that the VNFD names (sw_image_data of SOL001 clause 6.8.3), as far
// as it says anything of it. Sizes are as written, "2 GB".
type Image struct {
	// ID is the node template that has it.
	ID, Name, Version           string
	ContainerFormat, DiskFormat string
	MinDisk, MinRAM, Size       string
	Algorithm, Hash             string // of its checksum
	Provider                    string
	// File is its path in the package, or "".
	File string
}

// Definitions returns the files of the VNFD: the entry and all that it imports from the package, sorted.
func (p *Package) Definitions() []string { return slices.Sorted(maps.Keys(p.definitions)) }

// images reads what the node templates of all files say of software images.
func (l *loader) images() []Image {
	var list []Image
	for _, d := range l.docs {
		for k, n := range safeyaml.Pairs(safeyaml.Get(d.root, "topology_template", "node_templates")) {
			data := safeyaml.Get(n, "properties", "sw_image_data")
			if data == nil || data.Kind != yaml.MappingNode || len(list) >= maxTemplates {
				continue
			}
			text := func(keys ...string) string {
				s, _ := safeyaml.Text(value(d, safeyaml.Get(data, keys...)))
				return s
			}
			i := Image{
				ID: k.Value, Name: text("name"), Version: text("version"), Provider: text("provider"),
				ContainerFormat: text("container_format"), DiskFormat: text("disk_format"),
				MinDisk: text("min_disk"), MinRAM: text("min_ram"), Size: text("size"),
				Algorithm: text("checksum", "algorithm"), Hash: text("checksum", "hash"),
			}
			if file, ok := safeyaml.Text(safeyaml.Get(n, "artifacts", "sw_image", "file")); ok {
				i.File = path.Join(path.Dir(d.file), file)
			}
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b Image) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(list, func(a, b Image) bool { return a == b }) // each flavour may repeat it
}

// Bytes reads a size of TOSCA (TOSCA 1.3 clause 3.3.6.4): "2 GB" is 2,000,000,000, and "2 GiB"
// is 2,147,483,648. What isn't one is 0.
func Bytes(size string) int64 {
	i := 0
	for i < len(size) && (size[i] >= '0' && size[i] <= '9' || size[i] == '.') {
		i++
	}
	n, err := strconv.ParseFloat(size[:i], 64)
	if err != nil {
		return 0
	}
	for i < len(size) && size[i] == ' ' {
		i++
	}
	factor, ok := map[string]float64{
		"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "KiB": 1 << 10, "MB": 1e6, "MiB": 1 << 20, "GB": 1e9, "GiB": 1 << 30, "TB": 1e12, "TiB": 1 << 40,
	}[size[i:]]
	if !ok || n*factor >= 1<<62 {
		return 0
	}
	return int64(n * factor)
}
