package githooks

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUser is the user of the process at the other end of a socket, as the kernel knows it.
func peerUser(c net.Conn) (uid uint32, ok bool) {
	u, isUnix := c.(*net.UnixConn)
	if !isUnix {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			uid, ok = cred.Uid, true
		}
	})
	return uid, ok && err == nil
}
