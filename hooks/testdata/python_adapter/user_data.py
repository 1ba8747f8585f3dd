"""A user data class in the form in which packages have them: what the usual one does, and
a name for each server and a label beside the template's own parameter."""

import yaml

from tacker.sol_refactored.common import common_script_utils
from tacker.sol_refactored.common import vnf_instance_utils as inst_utils
from tacker.sol_refactored.infra_drivers.openstack import userdata_default
from tacker.sol_refactored.infra_drivers.openstack import userdata_utils

import names


class NamedUserData(userdata_utils.AbstractUserData):

    @staticmethod
    def instantiate(req, inst, grant_req, grant, tmp_csar_dir):
        print('prints are for people')
        vnfd = common_script_utils.get_vnfd(inst['vnfdId'], tmp_csar_dir)
        hot = vnfd.get_base_hot(req['flavourId'])
        nfv = common_script_utils.init_nfv_dict(hot['template'])
        for vdu, values in nfv.get('VDU', {}).items():
            if 'computeFlavourId' in values:
                values['computeFlavourId'] = common_script_utils.get_param_flavor(vdu, req, vnfd, grant)
            if 'vcImageId' in values:
                values['vcImageId'] = common_script_utils.get_param_image(vdu, req['flavourId'], vnfd, grant)
            if 'locationConstraints' in values:
                values['locationConstraints'] = common_script_utils.get_param_zone(vdu, grant_req, grant)
            if 'desired_capacity' in values:
                values['desired_capacity'] = common_script_utils.get_param_capacity(vdu, inst, grant_req)
            if 'computeName' in values:
                values['computeName'] = names.of(inst, vdu)
        for cp, values in nfv.get('CP', {}).items():
            if 'network' in values:
                values['network'] = common_script_utils.get_param_network(cp, grant, req)
            if 'fixed_ips' in values:
                values['fixed_ips'] = common_script_utils.get_param_fixed_ips(cp, grant, req)
        common_script_utils.apply_ext_managed_vls(hot['template'], req, grant)
        nfv = inst_utils.json_merge_patch(nfv, req.get('additionalParams', {}).get('nfv', {}))
        return {
            'template': yaml.safe_dump(hot['template']),
            'parameters': {'nfv': nfv, 'site': 'north'},
            'files': {name: yaml.safe_dump(tree) for name, tree in hot.get('files', {}).items()},
        }


class OtherImage(userdata_default.DefaultUserData):

    @staticmethod
    def instantiate(req, inst, grant_req, grant, tmp_csar_dir):
        fields = userdata_default.DefaultUserData.instantiate(req, inst, grant_req, grant, tmp_csar_dir)
        fields['parameters']['nfv']['VDU']['VDU1']['vcImageId'] = 'img2'
        fields['parameters']['nfv']['VDU']['VDU1-0'] = {'vcImageId': 'img1'}
        return fields


class Plain(userdata_default.DefaultUserData):
    pass


class Wrong:
    instantiate = staticmethod(lambda *_: 'fields')
