"""Turns what a script gives back into Jibe's own contract."""

import collections
import io
import math
import pickle
import re

from common import Failure, VNFC_METADATA, note
from instance import source


class Plain(pickle.Unpickler):
    """Unpickles dicts, lists, text, numbers, and nothing that would run code."""

    harmless = {('collections', 'OrderedDict'): collections.OrderedDict}
    harmless.update({(module, t.__name__): t for module in ('builtins', '__builtin__') for t in (set, frozenset)})

    def find_class(self, module, name):
        if (module, name) in self.harmless:
            return self.harmless[module, name]
        raise Failure('the script handed back an object of %s.%s: only dicts, lists, text and numbers can be' % (module, name))


def unpickled(data):
    """The dict on standard output, None where there is only text, which goes to the log."""
    starts = [0] if data[:1] in (b'(', b'}') else []  # protocols 0 and 1
    starts += [m.start() for m in re.finditer(b'\x80[\x02-\x05]', data[:1 << 20])][:8]
    why = None
    for at in starts:
        stream = io.BytesIO(data[at:])
        try:
            value = Plain(stream).load()
        except Exception as e:  # whatever garbage does to the unpickler
            if isinstance(e, Failure) and data[at:].startswith((b'\x80', b'(dp0\n')):
                raise
            why = why or e
            continue
        show(data[:at])
        show(data[at + stream.tell():])
        if isinstance(value, dict):
            return value
        if value is not None:
            note('what the script handed back is a pickled %s, no dict: it is passed over' % type(value).__name__)
        return None
    if why and starts != [0] or b'\x80' == data[:1] or b'\0' in data:
        raise Failure('what the script wrote to standard output is no whole pickled dict (%s), it begins with %r: '
                      'write nothing else between its beginning and its end' % (why or 'it has no beginning', data[:60]))
    show(data)
    note('what the script wrote to standard output is text, no pickled dict (a stray print?): nothing is taken back from it')
    return None


def show(text):
    text = text.decode('utf-8', 'replace').strip()
    if text:
        note(text)


def plain(value, where):
    """The value as JSON can hold it."""
    if isinstance(value, dict):
        return {str(k): plain(v, '%s.%s' % (where, k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, where + '[]') for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v, where + '[]') for v in value), key=str)
    if value is None or isinstance(value, (bool, int, str)) or isinstance(value, float) and math.isfinite(value):
        return value
    raise Failure('%s is %s, which JSON can\'t hold' % (where, type(value).__name__ if not isinstance(value, float) else repr(value)))


def changes(was, now):
    """What is to be merged into was (RFC 7396) for it to be now. What changed within an
    entry is given with the whole entry."""
    out = {}
    for key in list(was) + [k for k in now if k not in was]:
        if key not in now:
            out[key] = None
        elif key not in was or was[key] != now[key]:
            out[key] = now[key]
            if isinstance(now[key], dict) and isinstance(was.get(key), dict):
                out[key] = dict(now[key], **{k: v for k, v in changes(was[key], now[key]).items() if v is None or isinstance(v, dict)})
    return out


def part(of, *path):
    """The dict at the path, None where the script left it out."""
    for name in path:
        of = of.get(name) if isinstance(of, dict) else None
    if of is not None and not isinstance(of, dict):
        raise Failure('vnf_instance.%s must be a dict' % '.'.join(path))
    return of


def metadata_by_vnfc(instance):
    listed = (instance.get('instantiatedVnfInfo') or {}).get('vnfcResourceInfo')
    return None if listed is None else {v.get('id'): v.get('metadata') or {} for v in listed}


def taken_back(given_instance, instance, doc):
    """The changes of the instance as attributes of Jibe's output."""
    out = {'metadata': {}, 'extensions': {}}
    kept = (source(doc).get('metadata') or {}).get(VNFC_METADATA) or {}
    own = given_instance['metadata']
    info = part(instance, 'instantiatedVnfInfo', 'metadata')
    if info is not None:
        found = changes((given_instance.get('instantiatedVnfInfo') or {}).get('metadata') or {}, info)
        # What Jibe tells by itself can't be removed.
        out['metadata'].update({k: v for k, v in found.items() if v is not None or k in own})
    for name, to in (('vnfConfigurableProperties', 'extensions'), ('extensions', 'extensions'), ('metadata', 'metadata')):
        now = part(instance, name)
        if now is not None:
            out[to].update(changes(given_instance[name], now))
    was, now = metadata_by_vnfc(given_instance) or {}, metadata_by_vnfc(instance)
    if now is not None:
        mine = dict(kept)
        for vnfc in was:
            found = changes(was[vnfc], now[vnfc]) if vnfc in now else {}
            former = kept.get(vnfc) or {}
            found = {k: v for k, v in found.items() if v is not None or k in former}
            if found:
                mine[vnfc] = dict(former, **found)
        if doc['hook'].endswith('_end'):  # of VNFCs that have gone
            mine = {vnfc: v if vnfc in was else None for vnfc, v in mine.items()}
        if mine != kept:
            out['metadata'][VNFC_METADATA] = mine
    lost = sorted(k for k in instance if k not in ('metadata', 'extensions', 'vnfConfigurableProperties', 'instantiatedVnfInfo')
                  and instance[k] != given_instance.get(k))
    inner, was_inner = instance.get('instantiatedVnfInfo') or {}, given_instance.get('instantiatedVnfInfo') or {}
    lost += sorted('instantiatedVnfInfo.' + k for k in inner if k not in ('metadata', 'vnfcResourceInfo') and inner[k] != was_inner.get(k))
    if lost:
        note('changes of vnf_instance are not taken over: %s; only metadata, extensions and vnfConfigurableProperties are' % ', '.join(lost))
    return {k: v for k, v in out.items() if v}


def output_of(doc, given_dict, result):
    """Jibe's output of what a management driver gave back."""
    out = {}
    if result.get('vnf_instance') is not None:
        instance = plain(result['vnf_instance'], 'vnf_instance')
        if not isinstance(instance, dict):
            raise Failure('vnf_instance must be a dict')
        out.update(taken_back(given_dict['vnf_instance'], instance, doc))
    kept = result.get('user_script_err_handling_data')
    if kept is not None:
        kept = plain(kept, 'user_script_err_handling_data')
        was = given_dict['user_script_err_handling_data']
        out['handOver'] = dict(was, **kept) if isinstance(was, dict) and isinstance(kept, dict) else kept
    return out
