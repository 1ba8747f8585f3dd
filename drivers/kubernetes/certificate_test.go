package kubernetes_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

func TestACertificateThatNobodyVouchesForIsRefusedWithTheRemedyBeforeAnyRequest(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request was sent, with the credentials")
	}))
	defer server.Close()
	server.Config.ErrorLog = nil
	d, err := kubernetes.New(drivers.VIM{Name: "lab", Endpoint: server.URL, Token: "t"}, kubernetes.Options{Egress: egress.Anywhere()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = d.Identity(t.Context())
	refused, ok := errors.AsType[*drivers.RefusedError](err)
	if !ok || !errors.Is(err, drivers.ErrUnavailable) {
		t.Fatalf("%v", err)
	}
	for _, part := range []string{"unknown authority", "caCert", "interfaceInfo.ssl_ca_cert"} {
		if !strings.Contains(refused.Reason, part) {
			t.Errorf("%q isn't in: %s", part, refused.Reason)
		}
	}
}
