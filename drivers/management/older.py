"""Runs a script that speaks the older contract, a pickled dict each way, for Jibe.

Usage: python3 older.py SCRIPT. Standard input and output are those of Jibe's own
contract: one JSON document in, one or nothing out. The script runs as `python3 SCRIPT`
in the same directory, environment and process group; its standard error is this
program's, and so is its exit code.

Only python3's standard library is needed (3.7 or later).
"""

import base64
import collections
import copy
import datetime
import io
import json
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile

# The most that a script may write to standard output. Far more than Jibe takes: a
# script hands the whole instance back, and only what it changed goes on.
MAX_OUTPUT = 64 << 20

# Where changes of vnfcResourceInfo[].metadata are kept among the instance's metadata:
# VNFC id -> key -> value.
VNFC_METADATA = 'vnfcMetadata'

API = '/vnflcm/v2'
K8S = 'ETSINFV.KUBERNETES.V_1'
OPENSTACK = 'ETSINFV.OPENSTACK_KEYSTONE.V_3'


class Failure(Exception):
    """What the user is told instead of a traceback."""


def note(text):
    """Writes a line to standard error, which is the log."""
    sys.stderr.write(text + '\n')
    sys.stderr.flush()


# --- the instance as the older contract describes it ------------------------------


def seconds(text):
    """The time as seconds since 1970, 0 where it isn't one."""
    try:
        return datetime.datetime.fromisoformat(str(text).replace('Z', '+00:00')).timestamp()
    except ValueError:
        return 0


def created(unit):
    metadata = unit.get('metadata') or {}
    return unit.get('created') or metadata.get('creation_time') or metadata.get('creationTime') or ''


def index(unit):
    """The number of the VNFC within its VDU, 0 where it has none."""
    found = re.search(r'\d+$', str((unit.get('metadata') or {}).get('vdu_idx', '')))
    return int(found.group()) if found else 0


def ids(entries):
    return {e['unit']['id'] for e in entries or []}


def members(doc, late):
    """Pairs of VDU id and unit, the newest first: those that there are now where late is
    true, else those before the operation."""
    added, removed = ids(doc.get('added')), ids(doc.get('removed'))
    targets = ids(targets_of(doc))
    found = []
    for vdu in doc.get('vdus') or []:
        if not late:
            found += [(vdu['id'], u) for u in vdu['old']]
            continue
        # A former unit that still exists is ready when a script runs late: what isn't
        # has gone.
        found += [(vdu['id'], u) for u in vdu['old'] if u.get('ready') and u['id'] not in removed or u['id'] in targets]
        found += [(vdu['id'], u) for u in vdu['new']]
    # Scripts take the first of a VDU for those that a scale-out added.
    return sorted(found, key=lambda p: (not (late and p[1]['id'] in added), -seconds(created(p[1])), -index(p[1]), p[1]['name']))


def targets_of(doc):
    """The VNFCs that a coordination script speaks to."""
    if doc.get('target'):
        return [doc['target']]
    return (doc.get('targets') or {}).get('new' if doc['hook'] == 'coordinate_new' else 'old') or []


def level_type(doc, unit):
    kind = (unit.get('owner') or '').split('/')[0]
    if kind and kind != 'Stack':
        return kind
    return 'OS::Nova::Server' if kind or doc['vim'].get('type') == OPENSTACK else 'Pod'


def handle(doc, unit):
    return {'vimConnectionId': unit.get('vim') or doc['vim'].get('name', ''), 'resourceId': unit['name'],
            'vimLevelResourceType': level_type(doc, unit)}


def protocol(addresses):
    by = collections.OrderedDict()
    for a in addresses:
        by.setdefault('IPV6' if ':' in a else 'IPV4', []).append(a)
    return [{'layerProtocol': 'IP_OVER_ETHERNET',
             'ipOverEthernet': {'ipAddresses': [{'type': t, 'addresses': a} for t, a in by.items()]}}]


def vnfc_resource(doc, vdu, unit, kept):
    metadata = dict(unit.get('metadata') or {})
    if created(unit):
        metadata.setdefault('creation_time', created(unit))
    if unit.get('address'):
        metadata.setdefault('address', unit['address'])
    for key, value in (kept.get(unit['name']) or {}).items():
        if value is not None:
            metadata[key] = value
    out = {'id': unit['name'], 'vduId': vdu, 'computeResource': handle(doc, unit), 'metadata': metadata}
    cps = unit.get('addresses') or {}
    if cps:
        out['vnfcCpInfo'] = [{'id': '%s-%s' % (cp, unit['name']), 'cpdId': cp, 'cpProtocolInfo': protocol(cps[cp])}
                             for cp in sorted(cps)]
    return out


def vnfc_info_id(vdu, unit):
    return '%s-%s' % (vdu, unit['name'])


def file_of(variable, vim, alone):
    """What the file in the environment holds for the VIM, {} where there is none. Where
    alone is true the variable may be without the VIM's name."""
    names = [variable + '_' + re.sub('[^A-Z0-9]', '_', vim.upper())]
    if alone:
        names.append(variable)
    for name in names:
        if os.environ.get(name):
            with open(os.environ[name]) as f:
                return json.load(f)
    return {}


def first(of, *names):
    return next((of[n] for n in names if of.get(n)), None)


def given(**entries):
    return {k: v for k, v in entries.items() if v}


def openstack(config):
    cloud = (config.get('clouds') or {}).get('openstack') or {}
    auth = cloud.get('auth') or {}
    access = given(username=auth.get('username'), password=auth.get('password'), region=cloud.get('region_name'),
                   project=first(auth, 'project_name', 'project_id'),
                   userDomain=first(auth, 'user_domain_name', 'user_domain_id'),
                   projectDomain=first(auth, 'project_domain_name', 'project_domain_id'))
    return {'vimType': OPENSTACK, 'interfaceInfo': given(endpoint=auth.get('auth_url')), 'accessInfo': access}


def kubernetes(config):
    cluster = first((config.get('clusters') or [{}])[0], 'cluster') or {}
    user = first((config.get('users') or [{}])[0], 'user') or {}
    ca = cluster.get('certificate-authority-data')
    return {'vimType': K8S,
            'interfaceInfo': given(endpoint=cluster.get('server'), ssl_ca_cert=ca and base64.b64decode(ca).decode()),
            'accessInfo': given(bearer_token=user.get('token'), username=user.get('username'), password=user.get('password'))}


def connections(doc):
    """vimConnectionInfo, with what programs are given to reach each VIM."""
    main = doc['vim'].get('name', '')
    names = [main] + sorted({u['vim'] for v in doc.get('vdus') or [] for u in v['old'] + v['new'] if u.get('vim')} - {main})
    out = {}
    for name in names:
        for variable, read in (('OS_CLIENT_CONFIG_FILE', openstack), ('KUBECONFIG', kubernetes)):
            config = file_of(variable, name, (name == main) == ((read is openstack) == (doc['vim'].get('type') == OPENSTACK)))
            if config:
                out[name] = dict(read(config), vimId=name)
                break
        else:
            out[name] = {'vimId': name, 'vimType': doc['vim'].get('type', '') if name == main else '', 'interfaceInfo': {}, 'accessInfo': {}}
    here = out[main]
    if doc['vim'].get('endpoint'):
        here['interfaceInfo'].setdefault('endpoint', doc['vim']['endpoint'])
    return out


def top_stack(doc, units):
    """The id of the VNF's stack, None where the VIM has none."""
    names = {o['key'].split('/')[-1] for o in doc.get('objects') or [] if o['key'].startswith('Stack/')}
    for _, unit in units:
        for key in ('stack_id', 'parent_stack_id'):
            name, _, stack = str((unit.get('metadata') or {}).get(key, '')).partition('/')
            if stack and name in names:
                return stack
    return None


def info_metadata(doc, instance, units, vims):
    """instantiatedVnfInfo.metadata without what the instance's own metadata has."""
    access = vims[doc['vim'].get('name', '')]['accessInfo']
    namespace = instance.get('namespace') or first((units[0][1].get('metadata') or {}) if units else {}, 'namespace')
    return given(**{'namespace': namespace, 'tenant': namespace or access.get('project'), 'stack_id': top_stack(doc, units),
                    'lcm-kubernetes-def-files': (doc.get('params') or {}).get('lcm-kubernetes-def-files')})


def moment(doc):
    """Whether units are told as they are now, not as they were before the operation; and
    whether the instance's attributes are those before it."""
    hook = doc['hook']
    if hook.startswith('coordinate_'):
        return True, hook != 'coordinate_new'
    return hook.endswith('_end'), not hook.endswith('_end') or '_rollback_' in hook


def source(doc):
    """The instance as Jibe tells it, of the moment that counts for the script."""
    _, former = moment(doc)
    return former and doc.get('instanceBefore') or doc['instance']


def lives(doc, instance):
    """Whether the VNF is instantiated for the script, and its vnfState, None for none."""
    hook = doc['hook']
    state = re.sub('[^a-z]', '', str(instance.get('state', '')).lower())
    if hook == 'terminate_end':
        return False, 'STOPPED'
    if hook.startswith(('instantiate_start', 'instantiate_rollback_')):
        return False, None
    if hook.startswith('modify_information_') and state == 'notinstantiated':
        return False, None
    return True, 'STARTED'


def instance_of(doc):
    """The VNF instance (SOL003 clause 5.5.2.2)."""
    late, former = moment(doc)
    instance = source(doc)
    sides = ('before', 'after') if former else ('after', 'before')
    package = first(doc, *sides) or {}
    metadata = dict(instance.get('metadata') or {})
    kept = metadata.pop(VNFC_METADATA, None) or {}
    running, state = lives(doc, instance)
    out = {
        'id': instance['id'], 'vnfdId': instance.get('vnfdId') or package.get('vnfdId', ''),
        'vnfProvider': package.get('vnfProvider', ''), 'vnfProductName': package.get('vnfProductName', ''),
        'vnfSoftwareVersion': package.get('vnfSoftwareVersion', ''), 'vnfdVersion': package.get('vnfdVersion', ''),
        'instantiationState': 'INSTANTIATED' if running else 'NOT_INSTANTIATED',
        'vimConnectionInfo': {}, 'metadata': metadata, 'extensions': dict(instance.get('extensions') or {}),
        'vnfConfigurableProperties': dict(instance.get('vnfConfigurableProperties') or {}),
        '_links': {'self': {'href': '%s/vnf_instances/%s' % (API, instance['id'])}},
    }
    if instance.get('name'):
        out['vnfInstanceName'] = instance['name']
    vims = connections(doc)
    if running or doc['hook'].startswith('instantiate_'):
        out['vimConnectionInfo'] = vims
    if state is None:
        return out
    info = {'vnfState': state}
    flavour = instance.get('flavour') or (doc['operation'].get('params') or {}).get('flavourId')
    if flavour:
        info['flavourId'] = flavour
    out['instantiatedVnfInfo'] = info
    if not running:
        return out
    units = members(doc, late)
    info['scaleStatus'] = [{'aspectId': a, 'scaleLevel': n} for a, n in sorted((instance.get('levels') or {}).items())]
    info['vnfcResourceInfo'] = [vnfc_resource(doc, vdu, u, kept) for vdu, u in units]
    info['vnfcInfo'] = [{'id': vnfc_info_id(vdu, u), 'vduId': vdu, 'vnfcResourceInfoId': u['name'], 'vnfcState': 'STARTED'}
                        for vdu, u in units]
    info['metadata'] = dict(info_metadata(doc, instance, units, vims), **metadata)
    return out


# --- request and grant ------------------------------------------------------------


def is_secret(name):
    """Whether Jibe leaves an entry of that name out of what it shows."""
    n = name.lower()
    if n.endswith(('url', 'uri', 'endpoint', 'path', 'paths', 'name', 'names', 'credentialid', 'credential_id')):
        return False
    n = n.replace('keystone', '')
    return any(part in n for part in ('token', 'secret', 'passw', 'passphrase', 'credential', 'key'))


def disclosed(shown, clear):
    """What was shown without credentials, with those that stand at the same places in clear."""
    if isinstance(shown, dict) and isinstance(clear, dict):
        out = {k: disclosed(v, clear.get(k)) for k, v in shown.items()}
        for k, v in clear.items():
            if k not in out and is_secret(k):
                out[k] = v
        return out
    if isinstance(shown, list) and isinstance(clear, list) and len(shown) == len(clear):
        return [disclosed(s, c) for s, c in zip(shown, clear)]
    return clear if shown == '***' and clear is not None else shown


def request_of(doc):
    """The body of the request, with credentials."""
    out = dict(doc['operation'].get('params') or {})
    params, asked = doc.get('params') or {}, doc.get('coordinationParams') or {}
    if doc['operation']['type'] == 'MODIFY_INFO':
        return out
    if out.get('additionalParams') is None:
        out['additionalParams'] = copy.deepcopy(params)
    else:
        out['additionalParams'] = disclosed(out['additionalParams'], params)
        for key in asked:
            if key in out['additionalParams']:
                out['additionalParams'][key] = copy.deepcopy(asked[key])
    if doc['operation']['type'] == 'SCALE':
        out.setdefault('numberOfSteps', 1)
    return out


def definition(doc, entry, leaving=()):
    """A ResourceDefinition (SOL003 clause 9.5.3.2); leaving are those that go away, and
    loses the one that it is about."""
    out = dict(entry)
    vdu = out.pop('vduId', None)
    out.setdefault('type', 'COMPUTE')
    out.setdefault('resourceTemplateId', vdu or '')
    if leaving and out['type'] == 'COMPUTE' and 'resource' not in out:
        fits = [e for e in leaving if entry.get('id') in (e['unit']['id'], e['unit']['id'].split('@')[0], e['unit']['name'])]
        fits = fits or [e for e in leaving if e['vduId'] == vdu]
        if fits:
            leaving.remove(fits[0])
            out['resource'] = handle(doc, fits[0]['unit'])
    return out


def grant_of(doc):
    """The grant's request and the grant, None and None where none is asked for."""
    if doc['operation']['type'] == 'MODIFY_INFO':
        return None, None
    known = doc.get('grant') or {}
    lists = {}
    for name, key in (('addResources', 'added'), ('removeResources', 'removed')):
        lists[name] = known.get(name)
        if lists[name] is None:
            lists[name] = [{'id': e['unit']['id'], 'vduId': e['vduId']} for e in doc.get(key) or []]
    instance, operation = known.get('vnfInstanceId') or doc['instance']['id'], known.get('vnfLcmOpOccId') or doc['operation']['id']
    common = {'vnfInstanceId': instance, 'vnfLcmOpOccId': operation,
              '_links': {'vnfLcmOpOcc': {'href': '%s/vnf_lcm_op_occs/%s' % (API, operation)},
                         'vnfInstance': {'href': '%s/vnf_instances/%s' % (API, instance)}}}
    leaving = list(doc.get('removed') or [])
    request = dict(common, vnfdId=(first(doc, 'after', 'before') or {}).get('vnfdId', ''),
                   operation=known.get('operation') or doc['operation']['type'], isAutomaticInvocation=False,
                   addResources=[definition(doc, e) for e in lists['addResources']],
                   removeResources=[definition(doc, e, leaving) for e in lists['removeResources']])
    vim = doc['vim'].get('name', '')
    answer = dict(common, id=known.get('id') or operation,
                  addResources=[{'resourceDefinitionId': e['id'], 'vimConnectionId': vim} for e in request['addResources'] if 'id' in e],
                  removeResources=[{'resourceDefinitionId': e['id']} for e in request['removeResources'] if 'id' in e])
    return request, answer


# --- what the script is given -----------------------------------------------------


def directory(doc, side):
    return (doc.get(side) or {}).get('dir') or os.getcwd()


def driver_input(doc):
    """The dict for a management driver."""
    operation = doc['hook']
    request, grant = grant_of(doc)
    hand_over = doc.get('handOver')
    out = {
        'operation': operation, 'request': request_of(doc), 'vnf_instance': instance_of(doc),
        'grant_request': request, 'grant_response': grant, 'tmp_csar_dir': os.getcwd(),
        'user_script_err_handling_data': {} if hand_over is None else hand_over,
    }
    if operation.startswith('modify_information_'):
        out['tmp_csar_dir'] = directory(doc, 'before')
        if operation == 'modify_information_end' and out['request'].get('vnfdId'):
            out['new_csar_dir'] = directory(doc, 'after')
    return out


def coordination_inputs(doc):
    """Pairs of what a coordination script is given and of whom it is about, a VNFC each."""
    asked = doc.get('coordinationParams') or {}
    params = asked.get('vdu_params') or []
    if isinstance(params, dict):
        params = [params]
    side = 'new_vnfc_param' if doc['hook'] == 'coordinate_new' else 'old_vnfc_param'
    request, _ = grant_of(doc)
    instance = instance_of(doc)
    out = []
    for t in targets_of(doc):
        entry = next((p for p in params if p.get('vdu_id') == t['vduId']), {})
        param = copy.deepcopy(entry.get(side) or {})
        for key, name in (('cp_name', 'cpName'), ('username', 'username'), ('password', 'password')):
            if t.get(name):
                param.setdefault(key, t[name])
        if asked.get('external_lb_param'):
            param.setdefault('external_lb_param', asked['external_lb_param'])
        who = vnfc_info_id(t['vduId'], t['unit'])
        if not t.get('address'):
            raise Failure('VNFC %s has no address at which it could be reached: name its connection point in vdu_params, %s.cp_name' % (who, side))
        param.update({
            'ssh_ip': t['address'], 'is_rollback': bool(doc.get('isRollback')), 'inst': instance, 'vnfc_info_id': who,
            'LcmCoordRequest': {
                'vnfInstanceId': request['vnfInstanceId'], 'vnfLcmOpOccId': request['vnfLcmOpOccId'],
                'lcmOperationType': request['operation'], '_links': request['_links'],
                'coordinationActionName': 'to_be_set_by_the_script',
            },
        })
        out.append((param, who))
    return out


# --- what the script gives back ---------------------------------------------------


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
    entry is told with the whole entry."""
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


# --- running it -------------------------------------------------------------------


def run(script, value, stdout):
    """The script's exit code."""
    # Files, not pipes: a script may read nothing, or leave something behind that holds
    # its output open.
    with tempfile.TemporaryFile() as stdin:
        stdin.write(pickle.dumps(value))
        stdin.flush()
        stdin.seek(0)
        code = subprocess.call([sys.executable, script], stdin=stdin, stdout=stdout)
    if code < 0:
        note('it was ended by signal %d' % -code)
        return 128 - code
    return code


def coordinate(script, doc):
    inputs = coordination_inputs(doc)
    if not inputs:
        note('there is no VNFC to coordinate with: the script was not run')
    for value, who in inputs:
        # Nothing is handed back here: what it prints is for people.
        code = run(script, value, sys.stderr)
        if code:
            if len(inputs) > 1:
                note('(for VNFC %s)' % who)
            return code
    return 0


def manage(script, doc):
    value = driver_input(doc)
    with tempfile.TemporaryFile() as stdout:
        code = run(script, value, stdout)
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


def main():
    doc = json.load(sys.stdin.buffer)
    work = coordinate if doc['hook'].startswith('coordinate_') else manage
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
