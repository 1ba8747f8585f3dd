package netns

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dial connects as a program on the host does, so that it reaches what the host alone leads
// to: its loopback, networks behind it. The address must be one, not a name.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// The thread is given up with its goroutine: it may never be another's again.
		runtime.LockOSThread()
		conn, err := h.dial(ctx, network, address)
		done <- result{conn, err}
	}()
	r := <-done
	if r.err != nil {
		return nil, fmt.Errorf("host %s: %w", h.Spec.Name, r.err)
	}
	return r.conn, nil
}

func (h *Host) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", h.init.pid()))
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, os.NewSyscallError("setns", err)
	}
	// A name, or a second address family, would be dialled in another thread.
	dialer := net.Dialer{FallbackDelay: -1}
	return dialer.DialContext(ctx, network, address)
}
