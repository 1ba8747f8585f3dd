"""A small client of the Kubernetes API, with nothing but Python's standard library.

Jibe names the kubeconfig in the environment variable KUBECONFIG. It is JSON, with one
cluster and one user, and is gone when the script ends.
"""

import base64
import json
import os
import ssl
import tempfile
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT = 30  # seconds for one request


class Kube:
    def __init__(self):
        with open(os.environ["KUBECONFIG"], encoding="utf-8") as f:
            config = json.load(f)
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0].get("user", {})
        self.server = cluster["server"].rstrip("/")
        self.headers = {"Accept": "application/json"}
        if "token" in user:
            self.headers["Authorization"] = "Bearer " + user["token"]
        elif "username" in user:
            pair = f"{user['username']}:{user.get('password', '')}".encode()
            self.headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()
        self.tls = self._tls(cluster, user)

    @staticmethod
    def _tls(cluster, user):
        authority = cluster.get("certificate-authority-data")
        tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        if "client-certificate-data" in user:
            # Python loads client certificates from files alone: for this moment there is one.
            with tempfile.NamedTemporaryFile() as pem:  # mode 0600
                pem.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
                pem.write(base64.b64decode(user["client-key-data"]))
                pem.flush()
                tls.load_cert_chain(pem.name)
        return tls

    def call(self, method, path, body=None, **query):
        """The answer as a dict, or None where there is no such object (404)."""
        url = self.server + path
        if query:
            url += "?" + urllib.parse.urlencode(query)
        headers, data = dict(self.headers), None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=TIMEOUT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            if e.code == 404:
                return None
            raise RuntimeError(f"{method} {path}: HTTP {e.code}: {e.read(2000).decode(errors='replace')}") from e

    def get(self, namespace, resource, name):
        return self.call("GET", f"/api/v1/namespaces/{namespace}/{resource}/{name}")

    def endpoints(self, namespace, service):
        """The names of the ready pods that the Service sends traffic to now."""
        slices = self.call(
            "GET",
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
            labelSelector="kubernetes.io/service-name=" + service,
        )
        return {
            endpoint["targetRef"]["name"]
            for s in slices["items"]
            for endpoint in s.get("endpoints") or []
            # No word on readiness means ready.
            if endpoint.get("targetRef", {}).get("kind") == "Pod" and endpoint.get("conditions", {}).get("ready") is not False
        }
