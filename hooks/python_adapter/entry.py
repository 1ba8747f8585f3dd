"""The entry point that a script of the older contract lacks: calls a method of its class.

Usage: python3 entry.py SCRIPT CLASS METHOD, with the pickled dict on standard input and
what the script hands back, pickled, on standard output, as a script does that starts by
itself. What the class prints goes to standard error.
"""

import importlib.util
import inspect
import os
import pickle
import sys

# What the parameters of constructors and methods are called, by the key in the dict.
KEYS = {
    'request': ('req', 'request'),
    'vnf_instance': ('inst', 'instance', 'vnf_instance'),
    'grant_request': ('grant_req', 'grant_request'),
    'grant_response': ('grant', 'grant_response'),
    'tmp_csar_dir': ('csar_dir', 'tmp_csar_dir', 'old_csar_dir'),
    'new_csar_dir': ('new_csar_dir',),
    'user_script_err_handling_data': ('user_script_err_handling_data', 'err_handling_data'),
    'vdu_info': ('vdu_info',),
    'k8s_info': ('k8s_info',),
}


def arguments(function, value):
    """The arguments that the function takes, of what there is. One that takes a single
    argument of another name is given all of it."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    by = {name: key for key, names in KEYS.items() for name in names}
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    out, unknown = {}, []
    for p in named:
        if by.get(p.name) in value:
            out[p.name] = value[by[p.name]]
        elif p.default is p.empty:
            unknown.append(p.name)
    if len(unknown) == 1 and not out:
        return {unknown[0]: value}
    if unknown:
        raise TypeError('%s wants %s, which the older contract doesn\'t have' % (function.__name__, ', '.join(unknown)))
    return out


def load(script):
    sys.path[0] = os.path.dirname(script)
    sys.argv = [script]
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(script))[0], script)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main():
    script, name, method = sys.argv[1:]
    value = pickle.load(sys.stdin.buffer)
    back, sys.stdout = sys.stdout.buffer, sys.stderr
    # What is given is changed in place, as often as it is handed back.
    result = {k: value[k] for k in ('vnf_instance', 'user_script_err_handling_data') if k in value}
    try:
        cls = getattr(load(script), name)
        function = getattr(cls(**arguments(cls, value)), method)
        found = function(**arguments(function, value))
        if isinstance(found, dict):
            result.update(found)
    finally:
        back.write(pickle.dumps(result))
        back.flush()


if __name__ == '__main__':
    main()
