package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Ports are taken from below the range that the kernel gives to outgoing connections,
// and at random: what is free when asked is then still free when a server binds it,
// unless two control planes start in the same second and draw the same number.
const (
	firstPort = 20000
	lastPort  = 31999
)

func printPorts(n int) error {
	seen := map[int]bool{}
	for range 100 * n {
		if len(seen) == n {
			return nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil || seen[port] {
			continue
		}
		l.Close()
		seen[port] = true
		fmt.Println(port)
	}
	if len(seen) == n {
		return nil
	}
	return fmt.Errorf("no %d free ports of 127.0.0.1 between %d and %d", n, firstPort, lastPort)
}

// await polls url until it answers 200. It gives up at once when process pid has
// ended, for then waiting longer is useless, and otherwise when ctx ends.
func await(ctx context.Context, pid int, url, pki string) error {
	config := &tls.Config{InsecureSkipVerify: true} // controllers and scheduler sign their own
	if pki != "" {
		ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
		if err != nil {
			return err
		}
		cert, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		config = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 5 * time.Second}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		last := get(ctx, client, url)
		if last == nil {
			return nil
		}
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return fmt.Errorf("process %d ended before it answered on %s", pid, url)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready in time: %w", url, last)
		case <-tick.C:
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", resp.Status)
	}
	return nil
}
