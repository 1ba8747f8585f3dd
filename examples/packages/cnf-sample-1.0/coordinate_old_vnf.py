#!/usr/bin/env python3
"""Lets the old version go only when nothing sends it traffic any more.

Jibe runs this as lcm-operation-coordinate-old-vnf (update.coordinate.old) of the version that
goes, when the Services have been turned and before its pods go. While an upgrade is taken
back (isRollback) it turns the Services to the old pods again.
"""

import json
import sys

from kube import Kube
from services import await_endpoints, sides, split, turn_all


class CoordinateOldVnf:
    def coordinate(self, task):
        kube = Kube()
        if task["isRollback"]:
            return "; ".join(turn_all(kube, task)) or "nothing had to be turned back"
        going = {name for vdu in task["vdus"] for name in sides(task, vdu)[1]}
        for service in task["services"]:
            kind, namespace, name = split(service["key"])
            if kind == "Service":
                await_endpoints(kube, namespace, name, lambda now: not now & going)
        return f"no traffic for {len(going)} old pods"


def main():
    task = json.load(sys.stdin)
    json.dump({"message": CoordinateOldVnf().coordinate(task)}, sys.stdout)


if __name__ == "__main__":
    main()
