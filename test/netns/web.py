"""The application of a host: says in JSON which machine answers.

web.py PORT. What it tells of the machine is read from /run/machine.json, and its
configuration from /etc/vnf.json, anew for each request. A path that begins with /slow is
answered after a second, for connections that must not be cut.
"""

import json
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self):
        if self.path.startswith("/slow"):
            time.sleep(1)
        answer = {"host": socket.gethostname(), "labels": read("/run/machine.json"), "config": read("/etc/vnf.json")}
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


Server(("", int(sys.argv[1])), Handler).serve_forever()
