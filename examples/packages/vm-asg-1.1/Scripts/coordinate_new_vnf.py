#!/usr/bin/env python3
"""Configures the VNF that comes, and has the load balancer send it traffic.

Jibe runs this as update.coordinate.new (lcm-operation-coordinate-new-vnf) of the version
that comes:

* blue-green: once, when all its machines are there and those of the old version still
  serve ("targets");
* rolling: for each VNFC by itself, when its machine has been renewed ("target").

It reads one JSON document from standard input and writes one to standard output. Where it
exits with anything but 0, the operation is FAILED_TEMP, and what stands on standard error is
the reason. A run may be cut short and repeated, so that every step bears being done twice.
"""

import json
import sys

import application
import balancer


class CoordinateNewVnf:
    def coordinate(self, task):
        if task.get("target"):
            return application.configure(task, task["target"], "active")
        new = task["targets"]["new"]
        done = [application.configure(task, target, "active") for target in new]
        return "; ".join(done + [balancer.send_traffic(task, new)])


def main():
    task = json.load(sys.stdin)
    json.dump({"message": CoordinateNewVnf().coordinate(task)}, sys.stdout)


if __name__ == "__main__":
    main()
