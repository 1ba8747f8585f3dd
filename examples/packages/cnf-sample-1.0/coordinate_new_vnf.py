#!/usr/bin/env python3
"""Turns the Services to the pods of the new version.

Jibe runs this as lcm-operation-coordinate-new-vnf (update.coordinate.new) of the version that
comes: in a blue-green change when its pods are ready and before the old ones go; in a rolling
change, in which it has nothing to turn, at the end. It reads one JSON document from standard
input and writes one to standard output. Where it exits with anything but 0, the operation is
FAILED_TEMP, and what stands on standard error is the reason.

A run may be cut short and repeated, so that every step bears being done twice.
"""

import json
import sys

from kube import Kube
from services import turn_all


class CoordinateNewVnf:
    def coordinate(self, task):
        done = turn_all(Kube(), task)
        if task["isRollback"]:
            done.insert(0, "taken back")
        return "; ".join(done) or "nothing had to be turned"


def main():
    task = json.load(sys.stdin)
    json.dump({"message": CoordinateNewVnf().coordinate(task)}, sys.stdout)


if __name__ == "__main__":
    main()
