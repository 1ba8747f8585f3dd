"""Runs a script that speaks the older contract, a pickled dict each way, for Jibe.

Usage: python3 DIRECTORY SCRIPT [CLASS]; DIRECTORY is where this file is. Standard input and
output are those of Jibe's own contract: one JSON document in, one or nothing out. The
script runs as `python3 SCRIPT` in the same directory, environment and process group; its
standard error is this program's, and so is its exit code. Where a CLASS is given, the script
doesn't start by itself, and the hook's method of the class is called.

Only python3's standard library is needed (3.7 or later).
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile

import userdata
from common import Failure, note
from given import coordination_inputs, driver_input
from back import output_of, plain, unpickled

# The most that a script may write to standard output. Far more than Jibe takes: a
# script hands the whole instance back, and only what it changed goes on.
MAX_OUTPUT = 64 << 20


def run(command, value, stdout):
    """The script's exit code."""
    # Files, not pipes: a script may read nothing, or leave something behind that holds
    # its output open.
    with tempfile.TemporaryFile() as stdin:
        stdin.write(pickle.dumps(value))
        stdin.flush()
        stdin.seek(0)
        code = subprocess.call([sys.executable] + command, stdin=stdin, stdout=stdout)
        # The script has moved the position, which is the file's and not a process's.
        unread = os.lseek(stdin.fileno(), 0, os.SEEK_CUR) == 0
    if code < 0:
        note('it was ended by signal %d' % -code)
        return 128 - code
    if code == 0 and unread:
        raise Failure('the script ended with 0 without having read what it was given, so that it can\'t have done anything: '
                      'end it with if __name__ == "__main__": main(), or read standard input where there is nothing to do')
    return code


def command(script, method):
    """What is run: the script, or what calls its class."""
    if len(sys.argv) < 3:
        return [script]
    return ['-B', os.path.join(os.path.dirname(os.path.abspath(__file__)), 'entry.py'), script, sys.argv[2], method]


def coordinate(script, doc):
    inputs = coordination_inputs(doc)
    if not inputs:
        note('there is no VNFC to coordinate with: the script was not run')
    for value, who in inputs:
        # Nothing is handed back here: what it prints is for people.
        if len(sys.argv) < 3:
            code = run(command(script, ''), value, sys.stderr)
        else:
            with open(os.devnull, 'wb') as nowhere:
                code = run(command(script, 'coordinate_vnf'), value, nowhere)
        if code:
            if len(inputs) > 1:
                note('(for VNFC %s)' % who)
            return code
    return 0


def manage(script, doc):
    value = driver_input(doc)
    with tempfile.TemporaryFile() as stdout:
        code = run(command(script, doc['hook']), value, stdout)
        size = stdout.seek(0, os.SEEK_END)
        stdout.seek(0)
        data = stdout.read(MAX_OUTPUT)
    try:
        if size > MAX_OUTPUT:
            raise Failure('the script wrote %d bytes to standard output, at most %d are allowed' % (size, MAX_OUTPUT))
        result = unpickled(data) if data else None
        out = output_of(doc, value, result) if result else {}
    except Failure as e:
        if code == 0:
            raise
        note(str(e))
        return code
    if out:
        json.dump(out, sys.stdout, allow_nan=False)
        sys.stdout.flush()
    return code


def compute(script, doc):
    found = userdata.run(script, doc)
    if found:
        json.dump({'params': plain(found, 'parameters')}, sys.stdout, allow_nan=False)
        sys.stdout.flush()
    return 0


def main():
    doc = json.load(sys.stdin.buffer)
    work = coordinate if doc['hook'].startswith('coordinate_') else compute if doc['hook'] == 'user_data' else manage
    try:
        return work(sys.argv[1], doc)
    except Failure as e:
        note(str(e))
        return 1
    except RecursionError:
        note('what the script handed back refers to itself, or is nested too deeply')
        return 1


if __name__ == '__main__':
    sys.exit(main())
