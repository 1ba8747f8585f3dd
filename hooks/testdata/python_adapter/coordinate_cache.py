# A coordination script of the older contract: takes sessions off a cache node.

import os
import pickle
import sys


class CoordinateCache(object):

    def __init__(self, vnfc_param):
        self.vnfc_param = vnfc_param

    def coordinate_vnf(self):
        p = self.vnfc_param
        request = p['LcmCoordRequest']
        request['coordinationActionName'] = 'prv.example.drain'
        resource = [v['vnfcResourceInfoId'] for v in p['inst']['instantiatedVnfInfo']['vnfcInfo']
                    if v['id'] == p['vnfc_info_id']][0]
        print('%s %s@%s %s rollback=%s %s %s %s' % (
            p['vnfc_info_id'], p['username'], p['ssh_ip'], resource, p['is_rollback'],
            request['lcmOperationType'], p.get('endpoint', '-'), p['inst']['vnfdVersion']))
        if p['password'] != 'hunter2':
            raise Exception('%s refuses the password' % p['ssh_ip'])


def main():
    script = CoordinateCache(pickle.load(sys.stdin.buffer))
    script.coordinate_vnf()


if __name__ == '__main__':
    try:
        main()
        sys.stdout.flush()
        os._exit(0)
    except Exception as ex:
        sys.stdout.flush()
        sys.stderr.write(str(ex))
        sys.stderr.flush()
        os._exit(1)
