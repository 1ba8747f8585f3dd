// Command server is HashiCorp Vault for tests: its core, its transit engine, its barrier and its
// HTTP API as they are, with what it keeps in a folder. It has none of the clients of clouds and
// services that make the whole program some times as large (../without). As the whole one, it starts sealed.
//
//	server DIR ADDRESS CERTIFICATE KEY
//
// It says "ready" once it listens with TLS, and runs until it is killed.
package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/audit"
	"github.com/hashicorp/vault/builtin/logical/transit"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/file"
	"github.com/hashicorp/vault/vault"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vault:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return errors.New("want DIR ADDRESS CERTIFICATE KEY")
	}
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Info, Output: os.Stderr})
	store, err := file.NewFileBackend(map[string]string{"path": filepath.Join(args[0], "store")}, logger)
	if err != nil {
		return err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical:           store,
		StorageType:        "file",
		LogicalBackends:    map[string]logical.Factory{"transit": transit.Factory},
		CredentialBackends: map[string]logical.Factory{},
		AuditBackends:      map[string]audit.Factory{},
		BuiltinRegistry:    transitAlone{},
		DisableMlock:       true,
		Logger:             logger,
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[1])
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: vaulthttp.Handler.Handler(&vault.HandlerProperties{
			Core: core, ListenerConfig: &configutil.Listener{MaxRequestSize: vaulthttp.DefaultMaxRequestSize, MaxRequestDuration: vault.DefaultMaxRequestDuration},
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	fmt.Println("ready")
	return server.ServeTLS(l, args[2], args[3])
}

// transitAlone is the list of what is built in. It implements plugincatalog.BuiltinRegistry.
type transitAlone struct{}

// Contains implements plugincatalog.BuiltinRegistry.
func (transitAlone) Contains(name string, kind consts.PluginType) bool {
	return name == "transit" && kind == consts.PluginTypeSecrets
}

// Get implements plugincatalog.BuiltinRegistry.
func (r transitAlone) Get(name string, kind consts.PluginType) (func() (any, error), bool) {
	return func() (any, error) { return logical.Factory(transit.Factory), nil }, r.Contains(name, kind)
}

// Keys implements plugincatalog.BuiltinRegistry.
func (transitAlone) Keys(kind consts.PluginType) []string {
	if kind == consts.PluginTypeSecrets {
		return []string{"transit"}
	}
	return nil
}

// DeprecationStatus implements plugincatalog.BuiltinRegistry.
func (r transitAlone) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, r.Contains(name, kind)
}

// IsBuiltinEntPlugin implements plugincatalog.BuiltinRegistry.
func (transitAlone) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }
