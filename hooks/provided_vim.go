package hooks

import (
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// VIM returns the cluster as the VIM that instance provides under the name, with the
// credentials as seal encrypts them. A cluster that can't be a VIM is an [*InvalidError].
func (v *ProvidedVIM) VIM(name, instance string, seal func(clear string) (string, error)) (*desired.VIM, error) {
	vim := &desired.VIM{Name: name, Type: desired.VIMKubernetes, Instance: instance, Endpoint: v.Endpoint, CACert: v.CACert}
	c := &vim.Credentials
	for _, secret := range []struct {
		clear string
		to    *string
	}{{v.Token, &c.Token}, {v.ClientCert, &c.ClientCert}, {v.ClientKey, &c.ClientKey}} {
		if secret.clear == "" {
			continue
		}
		var err error
		if *secret.to, err = seal(secret.clear); err != nil {
			return nil, fmt.Errorf("encrypt the credentials of VIM %s: %w", name, err)
		}
	}
	if _, err := desired.ProvideVIM(vim, nil); err != nil {
		return nil, &InvalidError{Field: "vims", Reason: err.Error()}
	}
	return vim, nil
}

// unfit says why nobody could use the VIM, "" where somebody could.
func (v *ProvidedVIM) unfit() string {
	switch {
	case v == nil:
		return ""
	case len(v.Endpoint)+len(v.CACert)+len(v.Token)+len(v.ClientCert)+len(v.ClientKey) > maxKept:
		return fmt.Sprintf("it has more than %d bytes", maxKept)
	case !strings.HasPrefix(v.Endpoint, "https://"):
		return "endpoint must be https://host:port, as what is sent there are credentials"
	case (v.ClientCert == "") != (v.ClientKey == ""):
		return "clientCert and clientKey belong together"
	case v.CACert != "" && !strings.Contains(v.CACert, "-----BEGIN CERTIFICATE-----"):
		return "caCert must be a certificate in PEM"
	case v.Token == "" && v.ClientCert == "":
		return "it needs a token, or clientCert and clientKey"
	}
	if v.ClientCert != "" {
		if _, err := tls.X509KeyPair([]byte(v.ClientCert), []byte(v.ClientKey)); err != nil {
			return "clientCert and clientKey aren't a certificate and its key" // the error may quote them
		}
	}
	return ""
}
