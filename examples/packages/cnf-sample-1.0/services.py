"""Which pods a Service sends traffic to, and how it is turned to others."""

import time

PATIENCE = 60  # seconds until the cluster must have followed


def sides(task, vdu):
    """The names of the pods of a VDU that stay, and of those that go.

    The generation tells, and not "old" and "new": it is right as well while an upgrade is
    taken back, when what was old stays, and for an old pod that was replaced meanwhile.
    """
    staying, going = [], []
    for unit in vdu["old"] + vdu["new"]:
        if unit.get("generation") != task["instance"].get("generation"):
            going.append(unit["name"])
        elif unit["ready"]:
            staying.append(unit["name"])
    return staying, going


def split(key):
    """Kind, namespace and name of a key such as "Service/demo/app-svc-name"."""
    return key.split("/", 2)


def turn_all(kube, task):
    """Turns every Service that sends traffic to pods that go. What was done, as sentences."""
    done = []
    for vdu in task["vdus"]:
        staying, going = sides(task, vdu)
        if not staying or not going:
            continue  # nothing moves, as in a rolling upgrade
        for service in task["services"]:
            done += turn(kube, service["key"], staying, going)
    return done


def turn(kube, key, staying, going):
    """Has the Service select the pods that stay, if it selects those that go."""
    kind, namespace, name = split(key)
    service = kube.get(namespace, "services", name) if kind == "Service" else None
    selector = (service or {}).get("spec", {}).get("selector")
    if not selector:
        return []  # it doesn't choose pods by their labels
    old, new = labels(kube, namespace, going), labels(kube, namespace, staying)
    if old is None or new is None or any(old.get(k) != v for k, v in selector.items()):
        return []  # another VDU's, or turned already
    # Every entry gets the value that the other pods have, and all at once: "version", which is
    # the author's, and with it whatever else may stand there by now. null takes out an entry that
    # those pods don't have.
    turned = {k: new.get(k) for k in selector}
    patch = {
        # Where somebody was faster, this is a 409 and nothing is overwritten.
        "metadata": {"resourceVersion": service["metadata"]["resourceVersion"]},
        "spec": {"selector": turned},
    }
    kube.call("PATCH", f"/api/v1/namespaces/{namespace}/services/{name}", patch, fieldManager="coordinate")
    await_endpoints(kube, namespace, name, lambda now: now & set(staying) and not now & set(going))
    return [f"Service {name} sends traffic to {new.get('version')}"]


def labels(kube, namespace, pods):
    """The labels of the first of the pods that still exists; None where none does."""
    for name in pods:
        pod = kube.get(namespace, "pods", name)
        if pod:
            return pod["metadata"].get("labels", {})
    return None


def await_endpoints(kube, namespace, service, right):
    """Waits until right(names of the pods that the Service sends traffic to) holds."""
    deadline = time.monotonic() + PATIENCE
    while True:
        now = kube.endpoints(namespace, service)
        if right(now):
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"after {PATIENCE} s Service {service} still sends traffic to {', '.join(sorted(now)) or 'no pod'}")
        time.sleep(0.2)
