"""Fills a new OpenStack with what tests and demos use. Everything is safe to repeat.

    seed.py identity    the services' users, their endpoints, the project of the tests
    seed.py content     images, flavours, networks

The environment says where things are: JIBE_PASSWORD (everybody's), JIBE_SEED (the file
in which the application credential is kept) and JIBE_URL_<SERVICE> (the endpoints).
"""
import json
import os
import sys

from keystoneauth1 import session
from keystoneauth1.identity import v3

PASSWORD = os.environ['JIBE_PASSWORD']
SEED = os.environ['JIBE_SEED']
REGION = 'RegionOne'
USER = PROJECT = 'jibe'
# type: the service's name
SERVICES = {'image': 'glance', 'placement': 'placement', 'compute': 'nova', 'network': 'neutron',
            'orchestration': 'heat', 'volumev3': 'cinderv3'}
IMAGES = ('img1', 'img2')
FLAVOURS = {'m1.tiny': (1, 64, 1), 'm1.small': (2, 128, 1)}  # vcpus, MiB, GiB
# network: its subnet, the addresses, whether it is an external one
NETWORKS = {'net0': ('subnet0', '10.10.0.0/16', False), 'ext0': ('extsubnet0', '172.24.0.0/16', True)}


class Api:
    """One service's API as one user."""

    def __init__(self, user, project, kind):
        auth = v3.Password(auth_url=os.environ['JIBE_URL_IDENTITY'], username=user, password=PASSWORD,
                           project_name=project, user_domain_id='default', project_domain_id='default')
        self.url = os.environ['JIBE_URL_' + kind.upper()].rstrip('/')
        self.session = session.Session(auth=auth)

    def call(self, method, path, body=None):
        answer = self.session.request(self.url + path, method, json=body)
        return answer.json() if answer.content else {}

    def have(self, path, what, many, name, **more):
        """Returns what has this name in the list, which is created where nothing has."""
        for x in self.call('GET', f'{path}?name={name}')[many]:
            if x['name'] == name and x.get('domain_id', 0) == more.get('domain_id', x.get('domain_id', 0)):
                return x
        return self.call('POST', path, {what: {'name': name, **more}})[what]


def identity():
    admin = Api('admin', 'admin', 'identity')
    roles = {r: admin.have('/roles', 'role', 'roles', r)['id']
             for r in ('admin', 'member', 'service', 'heat_stack_owner', 'heat_stack_user')}

    def user(name, project, *granted):
        project = admin.have('/projects', 'project', 'projects', project, domain_id='default')['id']
        u = admin.have('/users', 'user', 'users', name, domain_id='default', password=PASSWORD)['id']
        for role in granted:
            admin.call('PUT', f'/projects/{project}/users/{u}/roles/{roles[role]}')
        return u

    # Cinder detaches a volume only for a request that bears Nova's token with the role
    # "service" (CVE-2023-2088).
    for name in ('glance', 'placement', 'nova', 'neutron', 'heat', 'cinder'):
        user(name, 'service', 'admin', 'service')
    catalogue(admin)
    # The users that Heat makes for servers and signals live in a domain of their own.
    domain = admin.have('/domains', 'domain', 'domains', 'heat')['id']
    keeper = admin.have('/users', 'user', 'users', 'heat_domain_admin', domain_id=domain, password=PASSWORD)['id']
    admin.call('PUT', f'/domains/{domain}/users/{keeper}/roles/{roles["admin"]}')
    credential(user(USER, PROJECT, 'member', 'heat_stack_owner'))


def catalogue(admin):
    there = {(e['service_id'], e['interface']) for e in admin.call('GET', '/endpoints')['endpoints']}
    for kind, name in SERVICES.items():
        service = admin.have('/services', 'service', 'services', name, type=kind)['id']
        for interface in ('public', 'internal'):
            if (service, interface) not in there:
                admin.call('POST', '/endpoints', {'endpoint': {
                    'service_id': service, 'interface': interface, 'region_id': REGION,
                    'url': os.environ['JIBE_URL_' + kind.upper()]}})


def credential(user):
    """Makes the application credential of the tests' user."""
    me = Api(USER, PROJECT, 'identity')
    for c in me.call('GET', f'/users/{user}/application_credentials?name=jibe')['application_credentials']:
        me.call('DELETE', f'/users/{user}/application_credentials/{c["id"]}')
    # Unrestricted, as Heat must be able to make a trust with it.
    made = me.call('POST', f'/users/{user}/application_credentials', {'application_credential': {
        'name': 'jibe', 'secret': PASSWORD, 'unrestricted': True}})['application_credential']
    with open(SEED, 'w') as f:
        json.dump({'applicationCredentialId': made['id']}, f)


def content():
    glance = Api('admin', 'admin', 'image')
    for name in IMAGES:
        found = glance.call('GET', f'/v2/images?name={name}')['images']
        image = found[0] if found else glance.call('POST', '/v2/images', {
            'name': name, 'visibility': 'public', 'disk_format': 'raw', 'container_format': 'bare'})
        if image['status'] == 'queued':
            glance.session.put(f'{glance.url}/v2/images/{image["id"]}/file', data=bytes(65536),
                               headers={'Content-Type': 'application/octet-stream'})
    nova = Api('admin', 'admin', 'compute')
    there = {f['name'] for f in nova.call('GET', '/flavors')['flavors']}
    for name, (vcpus, ram, disk) in FLAVOURS.items():
        if name not in there:
            nova.call('POST', '/flavors', {'flavor': {'name': name, 'vcpus': vcpus, 'ram': ram, 'disk': disk}})
    projects = Api('admin', 'admin', 'identity').call('GET', f'/projects?name={PROJECT}')['projects']
    neutron = Api('admin', 'admin', 'network')
    for name, (subnet, cidr, external) in NETWORKS.items():
        # Of the tests' own project: only a network's owner may choose addresses in it.
        network = neutron.have('/v2.0/networks', 'network', 'networks', name, tenant_id=projects[0]['id'],
                               shared=True, **{'router:external': external})
        neutron.have('/v2.0/subnets', 'subnet', 'subnets', subnet, tenant_id=projects[0]['id'],
                     network_id=network['id'], ip_version=4, cidr=cidr, enable_dhcp=False)


if __name__ == '__main__':
    {'identity': identity, 'content': content}[sys.argv[1]]()
