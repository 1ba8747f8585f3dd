"""Runs the adapter once for each case, and prints how each ended.

Usage: python3 many.py ADAPTER, with a JSON list of {"script", "stdin", "env"} on standard input and
one of {"code", "stdout", "stderr"} on standard output, in base64.

The start of Python is most of what a run of the adapter costs, and it starts it twice. So the adapter, and
the scripts that it starts, are forked from this process, which has imported all. What only a process that
is started for real can show has tests of its own.
"""

import base64
import importlib.util
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback

ADAPTER = os.path.abspath(sys.argv[1])
sys.path.insert(0, ADAPTER)
spec = importlib.util.spec_from_file_location('adapter', os.path.join(ADAPTER, '__main__.py'))
adapter = importlib.util.module_from_spec(spec)
spec.loader.exec_module(adapter)


former = []


def forked(work, *files):
    """The exit code of a process that does the work, as subprocess tells it: -N is signal N."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        for to, f in enumerate(files):
            os.dup2(f.fileno(), to)
        # The former ones would close these numbers at their end.
        former.append((sys.stdin, sys.stdout, sys.stderr))
        sys.stdin, sys.stdout, sys.stderr = open(0, 'r'), open(1, 'w'), open(2, 'w')
        code = work() or 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        if isinstance(e.code, str):
            sys.stderr.write(e.code + '\n')
    except BaseException:
        traceback.print_exc()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def call(command, stdin, stdout):
    """In the place of subprocess.call."""
    argv = [a for a in command[1:] if a != '-B']

    def script():
        sys.argv = argv
        sys.path[0] = os.path.dirname(argv[0])
        runpy.run_path(argv[0], run_name='__main__')

    sys.stdout.flush()
    return forked(script, stdin, stdout, sys.stderr)


subprocess.call = call


def run(case):
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(case['stdin'].encode())
        stdin.flush()
        stdin.seek(0)

        def work():
            os.environ.clear()
            os.environ.update(case['env'])
            sys.argv = [ADAPTER, case['script']]
            return adapter.main()

        code = forked(work, stdin, stdout, stderr)
        found = {'code': code}
        for name, f in (('stdout', stdout), ('stderr', stderr)):
            f.seek(0)
            found[name] = base64.b64encode(f.read()).decode()
        return found


json.dump([run(case) for case in json.load(sys.stdin)], sys.stdout)
