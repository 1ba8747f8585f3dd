// Package kubeconfig reads kubeconfigs that others have written.
//
// A kubeconfig may do more than say where a cluster is and who comes to it: it may name
// commands that a client runs, files that it reads and proxies through which it goes. Its
// author could have all of this done by Jibe. So the package takes the fields that can do
// no harm, and refuses the others by name. It reads no file and runs nothing.
package kubeconfig

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ErrNone is returned for text that is no kubeconfig. It quotes nothing of the text, which
// may hold secrets.
var ErrNone = errors.New("it is no kubeconfig")

// Remedy is what to do about an [*UnsafeError].
const Remedy = "write the credentials themselves into it, as token, client-certificate-data and client-key-data, certificate-authority-data " +
	"(kubectl config view --raw --minify --flatten)"

// UnsafeError is returned for a kubeconfig whose reader would do more than go to the
// cluster's address with the credentials that it holds.
type UnsafeError struct {
	// Fields are the fields at fault, each with what it does, in the order of their names.
	Fields []string
}

func (e *UnsafeError) Error() string { return strings.Join(e.Fields, "; ") }

// Load reads a kubeconfig of which every cluster and every user is harmless, whatever its
// current context is. An error is [ErrNone] or an [*UnsafeError].
func Load(text []byte) (*clientcmdapi.Config, error) {
	config, err := clientcmd.Load(text)
	if err != nil {
		return nil, ErrNone
	}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(config.Clusters)) {
		fields = append(fields, unsafe(fmt.Sprintf("clusters[%s].cluster", quote(name)), config.Clusters[name], harmlessOfCluster)...)
	}
	for _, name := range slices.Sorted(maps.Keys(config.AuthInfos)) {
		fields = append(fields, unsafe(fmt.Sprintf("users[%s].user", quote(name)), config.AuthInfos[name], harmlessOfUser)...)
	}
	if len(fields) > 0 {
		return nil, &UnsafeError{Fields: fields}
	}
	return config, nil
}

// harmlessOfCluster says whether a cluster's entry may have the field. It lists those that
// it may have, so that a field which only a later version of the client knows is refused.
func harmlessOfCluster(field string) bool {
	switch field {
	case "server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "disable-compression", "extensions":
		return true
	}
	return false
}

// harmlessOfUser says whether a user's entry may have the field.
func harmlessOfUser(field string) bool {
	switch field {
	case "client-certificate-data", "client-key-data", "token", "username", "password",
		"act-as", "act-as-uid", "act-as-groups", "act-as-user-extra", "extensions":
		return true
	}
	return false
}

// unsafe names the fields of an entry that are set and not harmless.
func unsafe[T any](where string, entry *T, harmless func(string) bool) (fields []string) {
	if entry == nil {
		return nil
	}
	v := reflect.ValueOf(*entry)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" || harmless(name) || v.Field(i).IsZero() {
			continue
		}
		fields = append(fields, fmt.Sprintf("%s.%s %s", where, name, does(name)))
	}
	return fields
}

// does is what a field makes the reader of a kubeconfig do.
func does(field string) string {
	switch field {
	case "exec":
		return "names a command that would be run"
	case "auth-provider":
		return "names a plugin that would be run"
	case "tokenFile", "client-certificate", "client-key", "certificate-authority":
		return "names a file that would be read"
	case "proxy-url":
		return "names a proxy to which everything would go"
	}
	return "isn't known to be harmless"
}

// quote shortens a name that somebody else has chosen.
func quote(name string) string {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return fmt.Sprintf("%q", name)
}
