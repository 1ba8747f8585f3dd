package kubecluster

import (
	"k8s.io/client-go/discovery"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	typedpolicy "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/rest"
)

// clients call the groups of the API that the driver needs. With client-go's Clientset, the
// clients of all other groups would be a part of jibe, some ten megabytes.
type clients struct {
	core      typedcore.CoreV1Interface
	policy    typedpolicy.PolicyV1Interface
	discovery discovery.DiscoveryInterface
}

// newClients returns clients that share their connections.
func newClients(config *rest.Config) (*clients, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	var c clients
	if c.core, err = typedcore.NewForConfigAndClient(config, shared); err != nil {
		return nil, err
	}
	if c.policy, err = typedpolicy.NewForConfigAndClient(config, shared); err != nil {
		return nil, err
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, shared); err != nil {
		return nil, err
	}
	return &c, nil
}

// CoreV1 calls the core group.
func (c *clients) CoreV1() typedcore.CoreV1Interface { return c.core }

// PolicyV1 calls the group policy.
func (c *clients) PolicyV1() typedpolicy.PolicyV1Interface { return c.policy }

// Discovery asks what the API server has.
func (c *clients) Discovery() discovery.DiscoveryInterface { return c.discovery }
