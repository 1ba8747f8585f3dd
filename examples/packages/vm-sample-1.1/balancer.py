"""The load balancer in front of the VNF: an haproxy, configured over SSH.

Jibe hands over where it is in coordinationParams.external_lb_param:

    ip_address, username, password
    backend   the section whose servers are the VNFCs; "vnf" where it isn't given
    port      the port of the VNFCs' application; 8080 where it isn't given

The servers of that section are Jibe's. All else in the file, "default-server" too, is the
operator's, and stays. A reload drops nothing: the new process takes over the listening
sockets, and the former one serves its connections to their end.
"""

import re
import shlex
import sys

from machine import Machine

CONFIG = "/etc/haproxy/haproxy.cfg"
PORT = 8080
PATIENCE = 15  # seconds in which it must let one in: it stands there already
# A section begins in the first column.
SECTION = re.compile(r"^[a-z]", re.MULTILINE)
# The pid file is that of the master under Debian's unit as well. A reload is done when the
# master has a worker that it hadn't before, and has failed when the time is over.
RELOAD = r"""
set -e
master=$(cat /run/haproxy.pid)
workers() { cat /proc/"$master"/task/*/children | tr ' ' '\n' | grep . || true; }
before=$(workers)
if [ -d /run/systemd/system ]; then systemctl reload haproxy; else kill -USR2 "$master"; fi
for _ in $(seq 100); do
  if workers | grep -qvxF "$before"; then exit 0; fi
  sleep 0.1
done
echo "haproxy (process $master) has no new worker: see its log" >&2
exit 1
"""


def send_traffic(task, targets):
    """Has the balancer send traffic to these VNFCs alone. The answer is a sentence."""
    where = (task.get("coordinationParams") or {}).get("external_lb_param")
    if not where:
        return "no load balancer is given"
    targets = [t for t in targets if t.get("address")]
    if not targets:
        sys.exit("the load balancer would send traffic nowhere: no VNFC with an address is there")
    backend, port = where.get("backend", "vnf"), int(where.get("port", PORT))
    with Machine(where.get("ip_address"), where.get("username"), where.get("password"), patience=PATIENCE) as machine:
        config = machine.read(CONFIG)
        wanted = with_servers(config, backend, [(t["unit"]["name"], t["address"], port) for t in targets])
        if wanted != config:
            new = CONFIG + ".new"
            machine.write(new, wanted)
            # What haproxy doesn't understand never becomes its configuration.
            machine.run(f"haproxy -c -q -f {shlex.quote(new)} && mv {shlex.quote(new)} {shlex.quote(CONFIG)}")
        # Without a change too: a run that was cut short may not have come to it.
        machine.run(RELOAD)
    return f"{where['ip_address']} sends traffic to " + ", ".join(t["address"] for t in targets)


def with_servers(config, backend, servers):
    """The configuration with these servers (name, address, port) in the section."""
    head = re.search(rf"^backend[ \t]+{re.escape(backend)}[ \t]*$", config, re.MULTILINE)
    if not head:
        sys.exit(f"{CONFIG} has no section \"backend {backend}\": add it, or name another as external_lb_param.backend")
    next_section = SECTION.search(config, head.end())
    end = next_section.start() if next_section else len(config)
    kept = [line for line in config[head.end() : end].splitlines() if not re.match(r"\s*server\s", line)]
    while kept and not kept[-1].strip():
        kept.pop()
    lines = [f"    server {name} {address}:{port}" for name, address, port in sorted(servers)]
    body = "\n".join(kept + lines) + "\n"
    return config[: head.end()] + body + ("\n" if next_section else "") + config[end:]
