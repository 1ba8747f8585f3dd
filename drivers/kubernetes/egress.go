package kubernetes

import (
	"time"

	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

// dialTimeout bounds the making of one connection.
const dialTimeout = 30 * time.Second

// guard has the connections of config judged. A proxy that a kubeconfig names stays: without
// leave for it such a kubeconfig was refused already. Credentials go to servers with TLS alone,
// as the library has it.
func guard(config *rest.Config, g *egress.Guard) {
	if config.Dial == nil {
		config.Dial = g.DialContext(dialTimeout)
	}
	if config.Proxy == nil {
		config.Proxy = g.ProxyFor
	}
}
