"""The package's descriptor and Heat templates, as user data classes look at them.

They need PyYAML, as nearly all user data classes do themselves.
"""

import glob
import os

from common import Failure


def module():
    try:
        import yaml
    except ImportError:
        raise Failure('python3 has no module yaml: install it where Jibe runs (Debian: python3-yaml)')
    return yaml


def dump(tree):
    return module().safe_dump(tree)


def load(path):
    yaml = module()
    with open(path, encoding='utf-8') as f:
        try:
            return yaml.safe_load(f)
        except yaml.YAMLError as e:
            raise Failure('%s: %s' % (path, e))


def section(tree, *path):
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree if isinstance(tree, dict) else {}


def asked(tree):
    """The entries [nfv, KIND, NAME, KEY…] that a template reads, as nested dicts of None."""
    out = {}

    def visit(x):
        if isinstance(x, list):
            for e in x:
                visit(e)
            return
        if not isinstance(x, dict):
            return
        for key, value in x.items():
            if key == 'get_param' and isinstance(value, list) and len(value) > 1 and value[0] == 'nfv':
                at = out
                for step in value[1:-1]:
                    if not isinstance(at.get(step), dict):
                        at[step] = {}
                    at = at[step]
                at.setdefault(value[-1], None)
            else:
                visit(value)

    visit(tree)
    return out


class Package:
    """A package's directory, and one flavour of its VNFD."""

    def __init__(self, directory, flavour):
        self.directory, self.flavour = directory, flavour
        self.documents = [d for d in map(load, sorted(glob.glob(os.path.join(directory, 'Definitions', '*.y*ml')))) if isinstance(d, dict)]

    def template(self):
        """The top template."""
        files = sorted(glob.glob(os.path.join(self.directory, 'BaseHOT', str(self.flavour), '*.y*ml')))
        if not files:
            raise Failure('the package has no template for the flavour %s: BaseHOT/%s/*.yaml is missing' % (self.flavour, self.flavour))
        return load(files[0])

    def nested(self):
        """The nested templates by the names of their files."""
        files = sorted(glob.glob(os.path.join(self.directory, 'BaseHOT', str(self.flavour), 'nested', '*.y*ml')))
        return {os.path.basename(f): load(f) for f in files}

    def nodes(self, kind=None):
        """The node templates of the flavour, of a type or of all."""
        for d in self.documents:
            topology = section(d, 'topology_template')
            if section(topology, 'substitution_mappings', 'properties').get('flavour_id') == self.flavour:
                found = section(topology, 'node_templates')
                return {k: v for k, v in found.items() if kind is None or v.get('type') == kind}
        return {}

    def compute_flavour(self, vdu):
        wanted = section(self.nodes().get(vdu), 'capabilities', 'virtual_compute', 'properties', 'requested_additional_capabilities')
        for value in [section(wanted, 'properties')] + [v for v in wanted.values() if isinstance(v, dict)]:
            if value.get('requested_additional_capability_name'):
                return value['requested_additional_capability_name']
        return None

    def images(self):
        """The names of images by node."""
        found = {k: section(v, 'properties', 'sw_image_data').get('name') for k, v in self.nodes().items()}
        return {k: v for k, v in found.items() if v}
