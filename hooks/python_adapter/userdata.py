"""Runs an LCM user data class, and finds what it adds to Jibe's own parameters.

Such a class computes what the Heat template is given. Jibe computes most of it itself, in
each operation anew: image and flavour of a VDU, the number of its servers, the network of
a connection point. What the class says beyond that, or otherwise, is handed back.
"""

import contextlib
import importlib.util
import os
import sys

import shim
from common import Failure, note
from given import driver_input
from template import Package, asked

# The keys of nfv that Jibe fills in with what it knows at that moment.
NUMBERS = ('desired_capacity',)


def run(script, doc):
    """What Jibe is to add to the instance's parameters."""
    name = doc.get('class')
    if not name:
        raise Failure('lcm-operation-user-data-class is missing: name the class in the script')
    value = driver_input(doc)
    request, instance = value['request'], value['vnf_instance']
    own = doc['instance']
    if own.get('flavour'):
        request.setdefault('flavourId', own['flavour'])
    if own.get('extVirtualLinks'):
        request.setdefault('extVirtualLinks', own['extVirtualLinks'])
    grant = dict(value['grant_response'] or {})
    method = 'change_vnfpkg' if doc['operation']['type'] == 'CHANGE_VNFPKG' else 'instantiate'
    with contextlib.redirect_stdout(sys.stderr):  # what it prints is for people
        found = call(script, name, method, (request, instance, value['grant_request'], grant, value['tmp_csar_dir']))
    if not isinstance(found, dict):
        raise Failure('%s.%s returned no dict' % (name, method))
    parameters = found.get('parameters') or {}
    if not isinstance(parameters, dict):
        raise Failure('%s.%s returned parameters that are no dict' % (name, method))
    package = Package(value['tmp_csar_dir'], request.get('flavourId'))
    return additions(parameters, package, request, grant, value['grant_request'])


def call(script, name, method, arguments):
    shim.install()
    # What the script imports is its own, whatever it is called.
    sys.path[0] = os.path.dirname(script)
    for own in ('back', 'common', 'given', 'instance', 'shim', 'template', 'userdata'):
        sys.modules.pop(own, None)
    spec = importlib.util.spec_from_file_location('user_data_of_the_package', script)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as e:
        raise Failure('the script imports what isn\'t here: %s. Of the older VNFM there is what user data classes of its second API need' % e)
    cls = getattr(module, name, None)
    if cls is None:
        raise Failure('the script has no class %s' % name)
    function = getattr(cls, method, None)
    if function is None:
        note('%s has no method %s: nothing is added' % (name, method))
        return {}
    return function(*arguments)


def additions(parameters, package, request, grant, grant_request):
    """The parameters without those that Jibe knows by itself."""
    out = {k: v for k, v in parameters.items() if k != 'nfv' and v is not None}
    known = shim.defaults(package, request, grant, grant_request)
    reads = asked(package.template())
    added, passed = {}, []
    for kind, entries in (parameters.get('nfv') or {}).items():
        for name, values in (entries or {}).items():
            if name not in reads.get(kind, {}):
                passed.append('%s.%s' % (kind, name))
                continue
            for key, value in (values or {}).items():
                if value is None or key in NUMBERS or known.get(kind, {}).get(name, {}).get(key) == value:
                    continue
                added.setdefault(kind, {}).setdefault(name, {})[key] = value
    if passed:
        note('passed over, as the package\'s template has no such entries (Jibe makes servers one by one itself): ' + ', '.join(sorted(passed)))
    if added:
        out['nfv'] = added
    return out
