"""The application of a VNFC: its configuration is one file, which it reads by itself."""

import json
import sys
import time

from machine import Machine

CONFIG = "/etc/vnf.json"
PORT = 8080
START = 60  # seconds in which the application of a machine that was just started must listen
DRAIN = 15  # seconds in which the connections of a machine that stands by may end
LISTENING, ESTABLISHED = "0A", "01"  # states in /proc/net/tcp


def configure(task, target, role):
    """Tells the VNFC which version's it is and what it does. The answer is a sentence."""
    package = task["before" if role == "standby" or task["isRollback"] else "after"]
    config = {
        "instance": task["instance"]["id"],
        "vdu": target["vduId"],
        "version": package.get("vnfSoftwareVersion") or package.get("vnfdVersion", ""),
        "role": role,
    }
    with login(target) as machine:
        machine.write(CONFIG, json.dumps(config) + "\n")
        if not until(START, lambda: sockets(machine, LISTENING)):
            sys.exit(f"{machine.address}: nothing listens at port {PORT} within {START} s")
    return f"{target['unit']['name']} ({target['address']}) is {role}, version {config['version']}"


def drain(target):
    """Waits until nobody is connected to the application any more. The answer is how many
    are still, when the time is over."""
    with login(target) as machine:
        until(DRAIN, lambda: not sockets(machine, ESTABLISHED))
        return sockets(machine, ESTABLISHED)


def login(target):
    return Machine(target.get("address"), target.get("username"), target.get("password"))


def sockets(machine, state):
    """How many sockets of the application are in that state."""
    # Column 2 is the local address, with the port in hexadecimals, and column 4 the state.
    table = machine.run("cat /proc/net/tcp /proc/net/tcp6 2>/dev/null || true")
    lines = [line.split() for line in table.splitlines()]
    return sum(1 for f in lines if len(f) > 3 and f[1].endswith(f":{PORT:04X}") and f[3] == state)


def until(seconds, holds):
    """Whether it holds within that time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
