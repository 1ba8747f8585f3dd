package app_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

func TestUnlessAFlagSaysSoNobodyHasJibeCallThisMachine(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var called atomic.Int64
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			called.Add(1)
			c.Close()
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	data, ready, done := t.TempDir(), make(chan string, 1), make(chan error, 1)
	go func() {
		done <- app.Run(ctx, app.Options{Data: data, Listen: "127.0.0.1:0", Branch: "main",
			Log: slog.New(slog.DiscardHandler), Ready: func(s *app.Server) { ready <- s.Address() }})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	var s *process.Server
	select {
	case err := <-done:
		done <- err
		t.Fatal(err)
	case address := <-ready:
		token, err := auth.LocalToken(datadir.TokensFile(data))
		if err != nil {
			t.Fatal(err)
		}
		s = &process.Server{URL: "http://" + address, Data: data, Token: token}
	}
	at := "http://" + listener.Addr().String()
	version := map[string]string{"vnflcm": "2.0.0", "vnfpkgm": "2.1.0"}
	ask := func(method, target string, body any) *process.Answer {
		t.Helper()
		a, err := s.Do(t.Context(), method, target, body, "Version", version[strings.Split(target, "/")[1]])
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	const subscriptions, vnfPackages = "/vnflcm/v2/subscriptions", "/vnfpkgm/v2/vnf_packages"
	for _, uri := range []string{at, strings.Replace(at, "http:", "https:", 1), strings.Replace(at, "127.0.0.1", "localhost", 1), strings.Replace(at, "127.0.0.1", "[::ffff:127.0.0.1]", 1), "http://100.64.0.1/"} {
		if a := ask(http.MethodPost, subscriptions, map[string]any{"callbackUri": uri}); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("a subscription to %s: %d %s", uri, a.Status, a.Body)
		}
		if a := ask(http.MethodPost, subscriptions, map[string]any{"callbackUri": "https://10.2.0.1/", "authentication": map[string]any{"authType": []string{"OAUTH2_CLIENT_CREDENTIALS"},
			"paramsOauth2ClientCredentials": map[string]any{"clientId": "a", "clientPassword": "b", "tokenEndpoint": uri}}}); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("a token endpoint %s: %d %s", uri, a.Status, a.Body)
		}
		resource := vnfPackages + "/" + ask(http.MethodPost, vnfPackages, map[string]any{}).ID()
		if a := ask(http.MethodPost, resource+"/package_content/upload_from_uri", map[string]any{"addressInformation": uri + "/a.csar"}); a.Status != http.StatusAccepted {
			t.Errorf("a package at %s: %d %s", uri, a.Status, a.Body)
		}
		kit.Until(t, "the fetching of a package fails", func() bool {
			return strings.Contains(string(ask(http.MethodGet, resource, nil).Body), egress.NoAnswer)
		})
	}
	r := &registry{t, s}
	for name, vim := range map[string]map[string]any{"kube": kube("kube", at, ""), "cloud": stack("cloud", at+"/v3")} {
		if made := r.ask(http.StatusCreated, http.MethodPost, "", map[string]any{"vim": vim})["vim"].(map[string]any); made["status"] != "UNREACHABLE" {
			t.Errorf("%s: %v", name, made)
		}
	}
	if n := called.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}
