"""The VNF instance as the older contract describes it."""

import base64
import collections
import datetime
import json
import os
import re

from common import API, K8S, OPENSTACK, VNFC_METADATA


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
    """vimConnectionInfo, with what hooks are given to reach each VIM."""
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
    """Whether units are given as they are now, not as they were before the operation; and
    whether the instance's attributes are those before it."""
    hook = doc['hook']
    if hook.startswith('coordinate_'):
        return True, hook != 'coordinate_new'
    return hook.endswith('_end'), not hook.endswith('_end') or '_rollback_' in hook


def source(doc):
    """The instance of Jibe's input, of the moment that counts for the script."""
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
