package ssh

import (
	"context"
	"fmt"
	"net"
)

// DialContext connects to an address as the host reaches it, over this connection: network
// is "tcp". What it returns knows no deadlines. Where the connection is lost, the error wraps
// [ErrLost]; where the SSH server allows no forwarding, an [*ssh.OpenChannelError].
func (c *Conn) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := c.client.DialContext(ctx, network, address)
	if err == nil {
		return to, nil
	}
	if lost := c.lost(); lost != nil {
		return nil, lost
	}
	return nil, fmt.Errorf("%s from %s: %w", address, c.host, err)
}
