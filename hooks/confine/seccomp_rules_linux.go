package confine

import "golang.org/x/sys/unix"

// processes judges calls that make processes, or change how they run.
func (p *program) processes() {
	p.call(unix.SYS_CLONE, func(p *program) {
		p.load(arg(0))
		p.has(namespaces, refuse(unix.EPERM))
		// /proc shows the open files of a process's first thread: all threads must share them.
		p.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 2, unix.CLONE_THREAD)
		p.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 1, 0, unix.CLONE_FILES)
		p.answer(refuse(unix.EPERM))
		p.answer(unix.SECCOMP_RET_ALLOW)
	})
	p.call(unix.SYS_CLOSE_RANGE, func(p *program) {
		p.load(arg(2))
		p.has(unix.CLOSE_RANGE_UNSHARE, refuse(unix.EPERM))
		p.answer(unix.SECCOMP_RET_ALLOW)
	})
	for _, nr := range ofOneself {
		p.call(nr, func(p *program) {
			p.load(arg(0))
			p.differs(0, refuse(unix.EPERM))
			p.answer(unix.SECCOMP_RET_ALLOW)
		})
	}
	const ioprioProcess = 1
	for nr, process := range map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_PROCESS, unix.SYS_IOPRIO_SET: ioprioProcess} {
		p.call(nr, func(p *program) {
			p.load(arg(0))
			p.differs(process, refuse(unix.EPERM))
			p.load(arg(1))
			p.differs(0, refuse(unix.EPERM))
			p.answer(unix.SECCOMP_RET_ALLOW)
		})
	}
	p.call(unix.SYS_IOCTL, func(p *program) {
		p.load(arg(1))
		p.equals(unix.TIOCSTI, refuse(unix.EPERM))
		p.equals(unix.TIOCLINUX, refuse(unix.EPERM))
		p.answer(unix.SECCOMP_RET_ALLOW)
	})
}

// sockets judges calls that make sockets, and connections past Landlock.
func (p *program) sockets() {
	p.call(unix.SYS_SOCKET, func(p *program) {
		p.load(arg(0))
		p.oneOf(families, refuse(unix.EACCES))
		p.load(arg(2))
		p.oneOf(protocols, refuse(unix.EPROTONOSUPPORT))
		p.load(arg(0))
		// Of the kernel's own families of messages, what routes and addresses there are is all
		// that libraries ask; others tell of every process.
		p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 3, unix.AF_NETLINK)
		p.load(arg(2))
		p.differs(unix.NETLINK_ROUTE, refuse(unix.EPROTONOSUPPORT))
		p.load(arg(1))
		p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, typeBits)
		p.oneOf(socketTypes, refuse(unix.EPROTONOSUPPORT))
		p.answer(unix.SECCOMP_RET_ALLOW)
	})
	p.call(unix.SYS_SOCKETPAIR, func(p *program) {
		p.load(arg(0))
		p.differs(unix.AF_UNIX, refuse(unix.EACCES))
		p.load(arg(1))
		p.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, typeBits)
		p.oneOf([]uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}, refuse(unix.EACCES))
		p.answer(unix.SECCOMP_RET_ALLOW)
	})
	// Landlock sees bind, without which the system chooses a port.
	p.call(unix.SYS_LISTEN, func(p *program) { p.answer(refuse(unix.EACCES)) })
	// Data with the first packet makes a connection without connect.
	for nr, flags := range map[uint32]uint32{unix.SYS_SENDTO: 3, unix.SYS_SENDMSG: 2, unix.SYS_SENDMMSG: 3} {
		p.call(nr, func(p *program) {
			p.load(arg(flags))
			p.has(unix.MSG_FASTOPEN, refuse(unix.EOPNOTSUPP))
			p.answer(unix.SECCOMP_RET_ALLOW)
		})
	}
}

// buffers judges what would give a socket or pipe more of the kernel's memory than it has from the
// beginning, which is what the watch takes it to have, and other options of sockets.
func (p *program) buffers() {
	p.call(unix.SYS_SETSOCKOPT, func(p *program) {
		const tcpFastOpenConnect = 30
		p.load(arg(1))
		p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 6, unix.SOL_SOCKET)
		p.load(arg(2))
		// The size is a wish: programs go on with what there is.
		p.equals(unix.SO_SNDBUF, refuse(0))
		p.equals(unix.SO_RCVBUF, refuse(0))
		p.answer(unix.SECCOMP_RET_ALLOW)
		p.differs(unix.IPPROTO_TCP, unix.SECCOMP_RET_ALLOW)
		p.load(arg(2))
		// A connection at the first write is one that Landlock doesn't see.
		p.equals(tcpFastOpenConnect, refuse(unix.EOPNOTSUPP))
		p.equals(unix.TCP_ULP, refuse(unix.EOPNOTSUPP))
		p.answer(unix.SECCOMP_RET_ALLOW)
	})
	p.call(unix.SYS_FCNTL, func(p *program) {
		p.load(arg(1))
		p.equals(unix.F_SETPIPE_SZ, refuse(unix.EPERM))
		p.answer(unix.SECCOMP_RET_ALLOW)
	})
}

// dumpable judges calls by which a process hides what it has open from a watch that is of the same
// user.
func (p *program) dumpable() {
	p.call(unix.SYS_PRCTL, func(p *program) {
		p.load(arg(0))
		p.differs(unix.PR_SET_DUMPABLE, unix.SECCOMP_RET_ALLOW)
		p.load(arg(1))
		p.equals(0, refuse(unix.EPERM))
		p.answer(unix.SECCOMP_RET_ALLOW)
	})
}

// ownersFiles judges what the owner of files could do to those that aren't the run's.
func (p *program) ownersFiles() {
	// Without a name the file is one that is open.
	p.call(unix.SYS_UTIMENSAT, func(p *program) {
		for _, half := range []uint32{arg(1), upper(1), arg(3)} {
			p.load(half)
			p.differs(0, refuse(unix.EPERM))
		}
		p.answer(unix.SECCOMP_RET_ALLOW)
	})
}
