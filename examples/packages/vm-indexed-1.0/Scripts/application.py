"""The application of a VNFC: its configuration is one file, which it reads by itself."""

import json
import time

from machine import Machine

CONFIG = "/etc/vnf.json"
PORT = 8080
DRAIN = 15  # seconds in which the connections of a machine that stands by may end


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
    return f"{target['unit']['name']} ({target['address']}) is {role}, version {config['version']}"


def drain(target):
    """Waits until nobody is connected to the application any more. The answer is how many
    are still, when the time is over."""
    # Column 2 is the local address, with the port in hexadecimals; state 01 is ESTABLISHED.
    count = f"cat /proc/net/tcp /proc/net/tcp6 | awk '$2 ~ /:{PORT:04X}$/ && $4 == \"01\"' | wc -l"
    deadline = time.monotonic() + DRAIN
    with login(target) as machine:
        while True:
            left = int(machine.run(count))
            if left == 0 or time.monotonic() > deadline:
                return left
            time.sleep(0.2)


def login(target):
    return Machine(target.get("address"), target.get("username"), target.get("password"))
