#!/usr/bin/env python3
"""Turns the Services to the pods of the new version.

Jibe runs this as update.coordinate.new (lcm-operation-coordinate-new-vnf) of the version
that comes, when its pods are ready and before the old ones go. It reads one JSON document
from standard input and writes one to standard output. Where it exits with anything but 0,
the operation is FAILED_TEMP, and what stands on standard error is the reason.

A run may be cut short and repeated, so that every step bears being done twice.
"""

import json
import sys

from kube import Kube
from services import turn_all


def main():
    task = json.load(sys.stdin)
    done = turn_all(Kube(), task)
    if task["isRollback"]:
        done.insert(0, "taken back")
    json.dump({"message": "; ".join(done) or "nothing had to be turned"}, sys.stdout)


if __name__ == "__main__":
    main()
