# A management driver of the older contract: registers the cache nodes of a VNF.

import os
import pickle
import sys


class CacheDriver(object):

    def __init__(self, params):
        self.req = params['request']
        self.inst = params['vnf_instance']
        self.grant_req = params['grant_request']
        self.grant = params['grant_response']
        self.csar_dir = params['tmp_csar_dir']
        self.kept = params['user_script_err_handling_data']

    def _nodes(self):
        return [v for v in self.inst['instantiatedVnfInfo']['vnfcResourceInfo']
                if v['vduId'] == 'CACHE']

    def instantiate_start(self):
        if 'instantiatedVnfInfo' in self.inst:
            raise Exception('it is there already')

    def instantiate_end(self):
        with open(os.path.join(self.csar_dir, 'Files', 'ring.txt')) as f:
            ring = f.read().strip()
        for node in self._nodes():
            sys.stderr.write('add %s at %s to ring %s\n' % (
                node['computeResource']['resourceId'], node['metadata']['address'], ring))
            node['metadata']['ring_slot'] = ring + '-' + node['id']
        self.inst['instantiatedVnfInfo']['metadata']['ring'] = ring
        self.inst['metadata'].pop('draft', None)
        self.inst['metadata']['owner']['team'] = 'cache'
        self.inst['extensions']['slots'] = len(self._nodes())
        self.inst['vnfConfigurableProperties']['isAutohealEnabled'] = True
        self.kept['registered'] = [n['id'] for n in self._nodes()]

    def scale_start(self):
        self.kept['asked'] = self.req['additionalParams']['api_password']
        if not self.kept.get('warned'):
            self.kept['warned'] = True
            raise Exception('the ring is busy')


def main():
    params = pickle.load(sys.stdin.buffer)
    driver = CacheDriver(params)
    try:
        getattr(driver, params['operation'])()
    finally:
        sys.stdout.buffer.write(pickle.dumps({
            'vnf_instance': driver.inst,
            'user_script_err_handling_data': driver.kept}))
        sys.stdout.flush()


if __name__ == '__main__':
    try:
        main()
        os._exit(0)
    except Exception as ex:
        sys.stderr.write(str(ex))
        sys.stderr.flush()
        os._exit(3)
