// Package plugincontainer stands in for a client of containers: no plugin runs in one.
package plugincontainer

import (
	"errors"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"
)

// Config is that of a container.
type Config struct {
	Image, Tag, SHA256, Runtime, CgroupParent string
	Env, Entrypoint, Args                     []string
	GroupAdd                                  int
	CapIPCLock, Rootless                      bool
	Labels                                    map[string]string
	NanoCpus, Memory                          int64
}

// NewContainerRunner returns an error.
func (*Config) NewContainerRunner(hclog.Logger, *exec.Cmd, string) (runner.Runner, error) {
	return nil, errors.New("plugincontainer isn't built in")
}
