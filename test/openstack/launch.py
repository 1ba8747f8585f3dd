"""Starts services, or runs their management commands, that share the work of importing.

    launch.py services DIR [--after PORT]... NAME...
    launch.py commands DIR   <LINES     a line: PROGRAM MODULE [ARGUMENT]...

Reading a project's Python takes seconds, so it is done once and the processes are forks
of the one that did. A service is a session of its own, with its log in DIR/log and its
process id in DIR/run. Commands run one after the other until one fails.
"""
import importlib
import os
import shlex
import socket
import sys
import time

# name: module with main(), configuration
SERVICES = {
    'glance-api': ('glance.cmd.api', 'glance-api.conf'),
    'neutron-server': ('neutron.cmd.eventlet.server', 'neutron.conf'),
    'nova-conductor': ('nova.cmd.conductor', 'nova.conf'),
    'nova-scheduler': ('nova.cmd.scheduler', 'nova.conf'),
    'nova-compute': ('nova.cmd.compute', 'nova.conf'),
    'nova-api': ('nova.cmd.api', 'nova.conf'),
    'heat-engine': ('heat.cmd.engine', 'heat.conf'),
    'heat-api': ('heat.cmd.api', 'heat.conf'),
    'cinder-api': ('cinder.cmd.api', 'cinder.conf'),
    'cinder-scheduler': ('cinder.cmd.scheduler', 'cinder.conf'),
    'cinder-volume': ('cinder.cmd.volume', 'cinder.conf'),
}
PATIENCE = 600  # seconds that a port is waited for


def services(where, *arguments):
    ports, names = [], []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == '--after':
            ports.append(int(rest.pop(0)))
        else:
            names.append(word)
    modules = {n: importlib.import_module(SERVICES[n][0]) for n in names}
    for port in ports:
        await_port(port)
    for name in names:
        if os.fork() == 0:
            become(where, name)
            sys.argv = [name, '--config-file', f'{where}/etc/{SERVICES[name][1]}',
                        '--log-file', f'{where}/log/{name}.log']
            sys.exit(modules[name].main())


def become(where, name):
    """Makes this process the service's: session, output, process id, name."""
    os.setsid()
    log = os.open(f'{where}/log/{name}.log', os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    with open(f'{where}/run/{name}.pid', 'w') as f:
        f.write(f'{os.getpid()}\n')
    with open('/proc/self/comm', 'w') as f:
        f.write(name)


def await_port(port):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(('127.0.0.1', port), 5).close()
            return
        except OSError as e:
            if time.monotonic() > end:
                sys.exit(f'nothing listens on port {port} after {PATIENCE} s: {e}')
            time.sleep(0.1)


def commands(where):
    for line in sys.stdin:
        program, module, *arguments = shlex.split(line)
        module = importlib.import_module(module)
        child = os.fork()
        if child == 0:
            sys.argv = [program, *arguments]
            sys.exit(module.main())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != 0:
            sys.exit(f'{program} {shlex.join(arguments)}: ended with status {status}')


if __name__ == '__main__':
    {'services': services, 'commands': commands}[sys.argv[1]](*sys.argv[2:])
