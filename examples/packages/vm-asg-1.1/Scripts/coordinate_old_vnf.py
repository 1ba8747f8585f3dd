#!/usr/bin/env python3
"""Has the VNF that goes stand by, and in a rollback gives it its work back.

Jibe runs this as update.coordinate.old (lcm-operation-coordinate-old-vnf) of the version
that ran:

* blue-green: once, when the load balancer sends traffic to the new version, before the machines of
  the old one go: it waits until nobody is connected to them any more;
* while a change is taken back (isRollback): the old VNF is made active again and the load
  balancer sends it traffic; after a rolling change for each VNFC by itself ("target"), when its
  machine is the old version's again.

What it reads and writes, and must bear, is the same as for coordinate_new_vnf.py.
"""

import json
import sys

import application
import balancer


class CoordinateOldVnf:
    def coordinate(self, task):
        if task.get("target"):
            return application.configure(task, task["target"], "active")
        old = task["targets"]["old"]
        if task["isRollback"]:
            done = [application.configure(task, target, "active") for target in old]
            return "; ".join(done + [balancer.send_traffic(task, old)])
        done = []
        for target in old:
            said = application.configure(task, target, "standby")
            left = application.drain(target)
            done.append(said + (f", {left} connections are cut" if left else ""))
        return "; ".join(done) or "there is no old VNFC"


def main():
    task = json.load(sys.stdin)
    json.dump({"message": CoordinateOldVnf().coordinate(task)}, sys.stdout)


if __name__ == "__main__":
    main()
