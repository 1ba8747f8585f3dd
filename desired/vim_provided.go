package desired

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// VIMFile is the path of the file of the VIM with that name.
func VIMFile(name string) string { return VIMDir + "/" + name + ".yaml" }

// providedText is the file of a VIM that a VNF instance provides, in the order in which it
// is written.
type providedText struct {
	Type        string              `yaml:"type"`
	ID          string              `yaml:"id,omitempty"`
	Default     bool                `yaml:"default,omitempty"`
	Instance    string              `yaml:"instance"`
	Endpoint    string              `yaml:"endpoint"`
	CACert      string              `yaml:"caCert,omitempty"`
	Credentials providedCredentials `yaml:"credentials"`
}

type providedCredentials struct {
	Token      string `yaml:"token,omitempty"`
	ClientCert string `yaml:"clientCert,omitempty"`
	ClientKey  string `yaml:"clientKey,omitempty"`
}

// ErrVIMTaken is returned where the file of the VIM belongs to somebody else than the
// instance.
var ErrVIMTaken = errors.New("the name is taken")

// ProvideVIM returns the file of a Kubernetes cluster that is a VNF instance, as the instance
// provides it. It keeps the id and the default of now, the present file, nil where there is
// none. It refuses to replace another owner's file with [ErrVIMTaken], and an unusable
// connection with an [*InvalidError].
func ProvideVIM(v *VIM, now []byte) ([]byte, error) {
	text := providedText{Type: "kubernetes", Instance: v.Instance, Endpoint: v.Endpoint, CACert: v.CACert,
		Credentials: providedCredentials{v.Credentials.Token, v.Credentials.ClientCert, v.Credentials.ClientKey}}
	file := VIMFile(v.Name)
	if d := (&document{file: file}); !settingName.MatchString(v.Name) {
		d.fail(nil, "letters, digits, '-', '_' and single dots", "%q can't name a VIM", clip(v.Name))
		return nil, d.err()
	}
	if now != nil {
		was, err := ParseVIM(file, now)
		if err != nil || was.Instance != v.Instance {
			return nil, fmt.Errorf("%s: %w", file, ErrVIMTaken)
		}
		text.ID, text.Default = was.ID, was.Default
	}
	out := bytes.NewBufferString("# A Kubernetes cluster that is a VNF instance, which keeps this file: id and default are yours, all else is not.\n")
	e := yaml.NewEncoder(out)
	e.SetIndent(2)
	if err := e.Encode(text); err != nil {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	if _, err := ParseVIM(file, out.Bytes()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Provided are the names of the VIMs that the instance provides.
func (s *Settings) Provided(instance string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.VIMs)) {
		if s.VIMs[name].Instance == instance {
			names = append(names, name)
		}
	}
	return names
}
