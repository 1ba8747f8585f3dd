#!/usr/bin/env python3
"""Lets the old version go only when nothing sends it traffic any more.

Jibe runs this as update.coordinate.old (lcm-operation-coordinate-old-vnf) of the version
that goes, when the Services have been turned and before its pods go: the place to take a
VNF out of a load balancer, or to have it hand over its sessions. This one only looks.

While an upgrade is taken back (isRollback), Jibe asks this same script of the version that
ran to undo what the scripts did: then it turns the Services back to its own pods.
"""

import json
import sys

from kube import Kube
from services import await_endpoints, sides, split, turn_all


def main():
    task = json.load(sys.stdin)
    kube = Kube()
    if task["isRollback"]:
        said = "; ".join(turn_all(kube, task)) or "nothing had to be turned back"
    else:
        said = leave(kube, task)
    json.dump({"message": said}, sys.stdout)


def leave(kube, task):
    """Waits until no Service sends traffic to a pod that goes."""
    going = {name for vdu in task["vdus"] for name in sides(task, vdu)[1]}
    for service in task["services"]:
        kind, namespace, name = split(service["key"])
        if kind == "Service":
            await_endpoints(kube, namespace, name, lambda now: not now & going)
    return f"no traffic for {len(going)} old pods"


if __name__ == "__main__":
    main()
