"""What a script is given: request, grant, and all of it as one dict."""

import copy
import os

from common import API, Failure
from instance import first, handle, instance_of, level_type, targets_of, vnfc_info_id

# The kinds of objects that a change of package turns to other pods, for k8s_info.
WORKLOADS = ('Deployment', 'ReplicaSet', 'StatefulSet', 'DaemonSet')


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
    if out.pop('pending', False):  # nobody knows yet which one it will be
        return out
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
    """Pairs of what a coordination script is given and of whom it is about, a VNFC each: the
    keys of the contract's newer form, which has all in one dict about the VNFC, and of the
    first one, which has them as management drivers do."""
    asked = doc.get('coordinationParams') or {}
    params = asked.get('vdu_params') or []
    if isinstance(params, dict):
        params = [params]
    side = 'new_vnfc_param' if doc['hook'] == 'coordinate_new' else 'old_vnfc_param'
    request, grant = grant_of(doc)
    instance = instance_of(doc)
    common = {'operation': 'coordinate_vnf', 'request': request_of(doc), 'vnf_instance': instance, 'grant_request': request,
              'grant_response': grant, 'tmp_csar_dir': os.getcwd()}
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
        for key, given in dict(common, **infos(doc, t, entry)).items():
            param.setdefault(key, given)
        out.append((param, who))
    return out


def infos(doc, target, entry):
    """vdu_info of a server, k8s_info of pods, as the contract's first form has them."""
    unit = target['unit']
    if level_type(doc, unit).startswith('OS::'):
        metadata = unit.get('metadata') or {}
        return {'vdu_info': {'ssh_ip': target['address'], 'new_image': metadata.get('image'), 'new_flavor': metadata.get('flavor'),
                             'vdu_param': dict(copy.deepcopy(entry), vdu_id=target['vduId'])}}
    namespace = doc['instance'].get('namespace') or (unit.get('metadata') or {}).get('namespace', '')
    generation = doc['instance'].get('generation')
    comes = []
    for o in doc.get('objects') or []:
        kind, _, name = o['key'].partition('/')
        space, _, name = name.partition('/')
        if kind in WORKLOADS and o.get('generation', generation) == generation:
            comes.append({'kind': kind, 'metadata': {'name': name, 'namespace': space}})
    return {'k8s_info': {'namespace': namespace, 'new_deploy_reses': comes}}
