"""A machine that is reached over SSH with a password.

This needs paramiko (Debian: python3-paramiko) where Jibe runs, and on the machine a POSIX
shell, and for who isn't root sudo that asks for no password.
"""

import shlex
import sys
import time

try:
    import paramiko
except ImportError:
    sys.exit("this script needs paramiko: install Debian's python3-paramiko on the machine that Jibe runs on")

PATIENCE = 120  # seconds in which a machine that was just started must let one in
COMMAND = 60  # seconds for one command


class Machine:
    """One session: with Machine(address, user, password) as machine."""

    def __init__(self, address, username, password, port=22, patience=PATIENCE):
        if not address or not username:
            sys.exit("vdu_params or external_lb_param is incomplete: an address and a username are needed")
        self.address, self.username, self.password, self.port = address, username, password, port
        self.patience = patience
        self.client = None

    def __enter__(self):
        deadline = time.monotonic() + self.patience
        while True:
            client = paramiko.SSHClient()
            # A machine that Jibe just had made has a key that nobody knows yet. Where yours
            # are known, load them with load_host_keys and leave out this line.
            client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
            try:
                client.connect(
                    self.address,
                    port=self.port,
                    username=self.username,
                    password=self.password,
                    allow_agent=False,
                    look_for_keys=False,
                    timeout=10,
                    banner_timeout=30,
                    auth_timeout=30,
                )
                self.client = client
                return self
            except paramiko.AuthenticationException:
                client.close()
                sys.exit(f"{self.username}@{self.address}: the password isn't accepted")
            except (OSError, EOFError, paramiko.SSHException) as e:
                client.close()
                if time.monotonic() > deadline:
                    sys.exit(f"{self.address} can't be reached over SSH within {self.patience} s: {e}")
                time.sleep(0.5)

    def __exit__(self, *_):
        self.client.close()

    def begin(self, command):
        """Begins a command. A machine that was just started may end a session once more, as
        its SSH server is started again or the machine is; nothing has run then."""
        try:
            return self.client.exec_command(command, timeout=COMMAND)
        except (OSError, EOFError, paramiko.SSHException):
            self.client.close()
            self.__enter__()
            return self.client.exec_command(command, timeout=COMMAND)

    def run(self, command, stdin=""):
        """What the command, run by root's shell, writes to standard output."""
        if self.username != "root":
            command = "sudo -n sh -c " + shlex.quote(command)
        to, out, err = self.begin(command)
        to.write(stdin)
        to.flush()
        to.channel.shutdown_write()
        said, trouble = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        code = out.channel.recv_exit_status()
        if code:
            sys.exit(f"{self.address}: exit status {code}: {(trouble or said).strip()}")
        return said

    def write(self, path, text):
        """Writes a file at once: who reads it sees the former text or the new one."""
        path = shlex.quote(path)
        self.run(f"cat >{path}.part && chmod 644 {path}.part && mv {path}.part {path}", text)

    def read(self, path):
        return self.run("cat " + shlex.quote(path))
