package kubeconfig_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jibe-vnfm/jibe/internal/kubeconfig"
)

// with is a kubeconfig that has these entries beside the server.
func with(cluster, user string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: there, user: me}}]\n"+
		"clusters: [{name: there, cluster: {server: 'https://h:6443'%s}}]\nusers:\n- {name: me, user: {%s}}\n", cluster, user)
}

func TestAKubeconfigThatNamesACommandAFileOrAProxyIsRefusedByName(t *testing.T) {
	for conf, want := range map[string]string{
		with("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, args: [-c, id], interactiveMode: Never}"): `users["me"].user.exec names a command that would be run`,
		with("", "token: t, exec: {apiVersion: client.authentication.k8s.io/v1, command: id}"):                                    `users["me"].user.exec`,
		with("", "auth-provider: {name: oidc}"):                                 `users["me"].user.auth-provider names a plugin`,
		with("", "token: t, tokenFile: /etc/passwd"):                            `users["me"].user.tokenFile names a file`,
		with("", "client-certificate: c.pem, client-certificate-data: YQ=="):    `users["me"].user.client-certificate names a file`,
		with("", "client-key: /k.pem"):                                          `users["me"].user.client-key names a file`,
		with(", certificate-authority: /ca.pem", "token: t"):                    `clusters["there"].cluster.certificate-authority names a file`,
		with(", proxy-url: 'socks5://elsewhere:1080'", "token: t"):              `clusters["there"].cluster.proxy-url names a proxy`,
		with(", proxy-url: 'http://p'", "exec: {command: id}, tokenFile: /t"):   `clusters["there"].cluster.proxy-url names a proxy to which everything would go; users["me"].user.tokenFile names a file that would be read; users["me"].user.exec names a command that would be run`,
		with("", "token: t") + "- {name: other, user: {exec: {command: id}}}\n": `users["other"].user.exec`, // of a context that isn't the current one, too
	} {
		config, err := kubeconfig.Load([]byte(conf))
		var unsafe *kubeconfig.UnsafeError
		if config != nil || !errors.As(err, &unsafe) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", conf, err, want)
		}
	}
}

func TestAKubeconfigThatHoldsItsCredentialsIsTaken(t *testing.T) {
	for _, conf := range []string{
		with("", "token: t"),
		with(", certificate-authority-data: YQ==, tls-server-name: h, disable-compression: true", "client-certificate-data: YQ==, client-key-data: YQ=="),
		with(", insecure-skip-tls-verify: true", "username: u, password: p, as: other, as-uid: '1', as-groups: [g], as-user-extra: {a: [b]}"),
		strings.Replace(with("", "token: t"), "{server:", "{extensions: [{name: x, extension: {a: b}}], server:", 1),
	} {
		config, err := kubeconfig.Load([]byte(conf))
		if err != nil || config.Clusters["there"].Server != "https://h:6443" {
			t.Errorf("%s\n%v", conf, err)
		}
	}
}

func TestWhatIsNoKubeconfigIsSaidWithoutItsText(t *testing.T) {
	for _, text := range []string{"hunter2", "\tx: [", "apiVersion: v1\nkind: Pod\nhunter2: 1\n", "users: hunter2"} {
		if _, err := kubeconfig.Load([]byte(text)); !errors.Is(err, kubeconfig.ErrNone) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The client's library decides what there is in a kubeconfig; a new version of it may know
// more fields.
func TestEveryFieldOfTheClientsLibraryIsHarmlessOrRefused(t *testing.T) {
	for _, entry := range []any{&clientcmdapi.Cluster{}, &clientcmdapi.AuthInfo{}} {
		for i := range reflect.TypeOf(entry).Elem().NumField() {
			field := reflect.TypeOf(entry).Elem().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			config := clientcmdapi.NewConfig()
			cluster, user := &clientcmdapi.Cluster{Server: "https://h"}, &clientcmdapi.AuthInfo{}
			config.Clusters["c"], config.AuthInfos["u"] = cluster, user
			at := reflect.ValueOf(cluster)
			if _, ok := entry.(*clientcmdapi.AuthInfo); ok {
				at = reflect.ValueOf(user)
			}
			fill(at.Elem().Field(i))
			text, err := clientcmd.Write(*config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = kubeconfig.Load(text)
			reaches := strings.Contains(name, "exec") || strings.Contains(name, "provider") || strings.HasSuffix(name, "File") || strings.HasSuffix(name, "url") ||
				name == "client-certificate" || name == "client-key" || name == "certificate-authority"
			if (err != nil) != reaches {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// fill sets a field to something.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	}
}

func FuzzAKubeconfigNeverGivesMoreThanItsHarmlessFields(f *testing.F) {
	f.Add([]byte(with("", "token: t")))
	f.Add([]byte(with(", proxy-url: 'http://p'", "exec: {command: id}, tokenFile: /t")))
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := kubeconfig.Load(text)
		if err != nil {
			return
		}
		for _, c := range config.Clusters {
			if c != nil && (c.CertificateAuthority != "" || c.ProxyURL != "") {
				t.Errorf("%+v", c)
			}
		}
		for _, u := range config.AuthInfos {
			if u != nil && (u.Exec != nil || u.AuthProvider != nil || u.TokenFile != "" || u.ClientCertificate != "" || u.ClientKey != "") {
				t.Errorf("%+v", u)
			}
		}
	})
}
