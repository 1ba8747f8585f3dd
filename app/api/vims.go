package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
)

// checkSettings holds settings that a request proposes against what a push of them would be
// held against.
func (s *API) checkSettings(ctx context.Context, proposed *desired.Settings) ([]*desired.Problem, error) {
	v, err := s.Reviewer.Review(ctx, &admission.Proposal{Settings: proposed}, false)
	if err != nil {
		return nil, err
	}
	return v.Problems, nil
}

// probeDial bounds the connection for a sign of life.
const probeDial = 3 * time.Second

// reachVIM asks the VIM for a sign of life: any answer of HTTP will do. It sends no
// credentials and follows no redirect.
func (s *API) reachVIM(ctx context.Context, v *desired.VIM) error {
	if v.Type == desired.VIMSim {
		return nil
	}
	to, err := s.Keeper.ResolveVIM(v)
	if err != nil {
		return err
	}
	endpoint, trust := to.Endpoint, &tls.Config{InsecureSkipVerify: to.Insecure} //nolint:gosec // as the VIM's file says; nothing is sent
	if len(to.CACert) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(to.CACert) {
			return fmt.Errorf("VIM %s: caCert holds no PEM certificate", v.Name)
		}
	}
	if len(to.Kubeconfig) > 0 {
		config, err := clientcmd.RESTConfigFromKubeConfig(to.Kubeconfig)
		if err != nil {
			return fmt.Errorf("VIM %s: kubeconfig: %w", v.Name, err)
		}
		endpoint = config.Host
		if trust, err = rest.TLSConfigFor(&rest.Config{TLSClientConfig: config.TLSClientConfig}); err != nil {
			return fmt.Errorf("VIM %s: kubeconfig: %w", v.Name, err)
		}
	}
	guard := s.Egress
	transport := &http.Transport{Proxy: guard.ProxyFor, DialContext: guard.DialContext(probeDial), TLSClientConfig: trust, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
	if err != nil {
		return fmt.Errorf("VIM %s: %w", v.Name, err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("VIM %s: %w", v.Name, err)
	}
	return resp.Body.Close()
}
