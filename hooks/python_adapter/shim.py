"""The modules of the older VNFM that user data classes import, as far as they need them.

The names are that VNFM's (its guide "UserData script" lists them); what they do is
written anew on top of what Jibe tells.
"""

import copy
import importlib
import sys
import types

from template import Package, asked, dump, section


class AbstractUserData:
    """What user data classes inherit."""


class Vnfd:
    """The descriptor, as user data classes ask it."""

    def __init__(self, directory):
        self.directory = directory

    def of(self, flavour):
        return Package(self.directory, flavour)

    def get_base_hot(self, flavour):
        package = self.of(flavour)
        out = {'template': package.template()}
        nested = package.nested()
        if nested:
            out['files'] = nested
        return out

    def get_nodes(self, flavour, kind):
        return self.of(flavour).nodes(kind)

    def get_vdu_nodes(self, flavour):
        return self.of(flavour).nodes('tosca.nodes.nfv.Vdu.Compute')

    def get_storage_nodes(self, flavour):
        return self.of(flavour).nodes('tosca.nodes.nfv.Vdu.VirtualBlockStorage')

    def get_virtual_link_nodes(self, flavour):
        return self.of(flavour).nodes('tosca.nodes.nfv.VnfVirtualLink')

    def get_vducp_nodes(self, flavour):
        return self.of(flavour).nodes('tosca.nodes.nfv.VduCp')

    def get_vdu_cps(self, flavour, vdu):
        def bound(node):
            return any(r.get('virtual_binding') == vdu for r in node.get('requirements') or [])
        return [name for name, node in self.get_vducp_nodes(flavour).items() if bound(node)]

    def get_compute_flavor(self, flavour, vdu):
        return self.of(flavour).compute_flavour(vdu)

    def get_sw_image(self, flavour):
        return self.of(flavour).images()


def get_vnfd(vnfd_id, csar_dir):
    return Vnfd(csar_dir)


def init_nfv_dict(hot_template):
    return asked(hot_template)


def assets(grant, kind, key, field, name):
    for entry in section(grant, 'vimAssets').get(kind) or []:
        if entry.get(key) == name:
            return entry.get(field)
    return None


def flavour_of(request):
    """Newer classes hand over the flavour's id, older ones the request."""
    return request.get('flavourId') if isinstance(request, dict) else request


def get_param_flavor(vdu_name, request, vnfd, grant):
    found = assets(grant, 'computeResourceFlavours', 'vnfdVirtualComputeDescId', 'vimFlavourId', vdu_name)
    return found or vnfd.get_compute_flavor(flavour_of(request), vdu_name)


def get_param_image(vdu_name, request, vnfd, grant):
    found = assets(grant, 'softwareImages', 'vnfdSoftwareImageId', 'vimSoftwareImageId', vdu_name)
    return found or vnfd.get_sw_image(flavour_of(request)).get(vdu_name)


def get_param_zone(vdu_name, grant_req, grant):
    """Jibe grants by itself, and names no zone."""
    return None


def get_current_capacity(vdu_name, inst):
    known = section(inst, 'instantiatedVnfInfo').get('vnfcResourceInfo') or []
    return sum(1 for r in known if r.get('vduId') == vdu_name)


def get_param_capacity(vdu_name, inst, grant_req):
    def number(name):
        return sum(1 for r in (grant_req or {}).get(name) or [] if r.get('resourceTemplateId') == vdu_name)
    return get_current_capacity(vdu_name, inst) + number('addResources') - number('removeResources')


def links(grant, request):
    return ((grant or {}).get('extVirtualLinks') or []) + ((request or {}).get('extVirtualLinks') or [])


def get_param_network(cp_name, grant, request):
    for link in links(grant, request):
        if any(cp.get('cpdId') == cp_name for cp in link.get('extCps') or []):
            return link.get('resourceId')
    return None


def fixed_ips(cp):
    out = []
    for config in (cp.get('cpConfig') or {}).values():
        for protocol in config.get('cpProtocolData') or []:
            for ip in section(protocol, 'ipOverEthernet').get('ipAddresses') or []:
                entry = {}
                if ip.get('fixedAddresses'):
                    entry['ip_address'] = ip['fixedAddresses'][0]
                if ip.get('subnetId'):
                    entry['subnet'] = ip['subnetId']
                if entry:
                    out.append(entry)
    return out


def get_param_fixed_ips(cp_name, grant, request):
    for link in links(grant, request):
        for cp in link.get('extCps') or []:
            if cp.get('cpdId') == cp_name:
                return fixed_ips(cp)
    return []


def from_instance(inst):
    return {'extVirtualLinks': section(inst, 'instantiatedVnfInfo').get('extVirtualLinkInfo') or []}


def get_param_network_from_inst(cp_name, inst):
    return get_param_network(cp_name, None, from_instance(inst))


def get_param_fixed_ips_from_inst(cp_name, inst):
    return get_param_fixed_ips(cp_name, None, from_instance(inst))


def apply_ext_managed_vls(hot_dict, request, grant):
    """Jibe does this itself: the template of a class is ignored."""


def json_merge_patch(target, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    out = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = json_merge_patch(out.get(key), value)
    return out


def defaults(package, request, grant, grant_request):
    """What Jibe fills in by itself of what the template reads."""
    vnfd = Vnfd(package.directory)
    out = asked(package.template())
    for name, entry in (out.get('VDU') or {}).items():
        entry = out['VDU'][name] = dict(entry or {})
        entry['computeFlavourId'] = get_param_flavor(name, request, vnfd, grant)
        entry['vcImageId'] = get_param_image(name, request, vnfd, grant)
    for name, entry in (out.get('CP') or {}).items():
        entry = out['CP'][name] = dict(entry or {})
        entry['network'] = get_param_network(name, grant, request)
        entry['fixed_ips'] = get_param_fixed_ips(name, grant, request)
    return out


class DefaultUserData(AbstractUserData):
    """What Jibe does where no class is named, for classes that begin with it."""

    @staticmethod
    def instantiate(req, inst, grant_req, grant, tmp_csar_dir):
        package = Package(tmp_csar_dir, req.get('flavourId'))
        nfv = defaults(package, req, grant, grant_req)
        nfv = json_merge_patch(nfv, section(req, 'additionalParams', 'nfv'))
        return {'template': dump(package.template()), 'parameters': {'nfv': nfv},
                'files': {name: dump(tree) for name, tree in package.nested().items()}}

    change_vnfpkg = instantiate


FUNCTIONS = (get_vnfd, init_nfv_dict, get_param_flavor, get_param_image, get_param_zone, get_current_capacity, get_param_capacity,
             get_param_network, get_param_fixed_ips, get_param_network_from_inst, get_param_fixed_ips_from_inst, apply_ext_managed_vls)


def install():
    """Lets the script import them, unless that VNFM itself is installed here."""
    try:
        importlib.import_module('tacker.sol_refactored.infra_drivers.openstack.userdata_utils')
        return
    except ImportError:
        for name in [n for n in sys.modules if n == 'tacker' or n.startswith('tacker.')]:
            del sys.modules[name]

    def module(name, *entries):
        m = types.ModuleType(name)
        m.__path__ = []
        for e in entries:
            setattr(m, e.__name__, e)
        sys.modules[name] = m
        parent, _, own = name.rpartition('.')
        if parent:
            setattr(sys.modules[parent], own, m)

    for name in ('tacker', 'tacker.sol_refactored', 'tacker.sol_refactored.common', 'tacker.sol_refactored.infra_drivers'):
        module(name)
    module('tacker.sol_refactored.infra_drivers.openstack')
    module('tacker.sol_refactored.infra_drivers.openstack.userdata_utils', AbstractUserData, *FUNCTIONS)
    for name in ('userdata_default', 'userdata_standard'):
        module('tacker.sol_refactored.infra_drivers.openstack.' + name, DefaultUserData)
    sys.modules['tacker.sol_refactored.infra_drivers.openstack.userdata_standard'].StandardUserData = DefaultUserData
    module('tacker.sol_refactored.common.common_script_utils', *FUNCTIONS)
    module('tacker.sol_refactored.common.vnf_instance_utils', json_merge_patch)
