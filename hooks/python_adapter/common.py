"""What all of the adapter uses."""

import sys

# Where changes of vnfcResourceInfo[].metadata are kept among the instance's metadata:
# VNFC id -> key -> value.
VNFC_METADATA = 'vnfcMetadata'

API = '/vnflcm/v2'
K8S = 'ETSINFV.KUBERNETES.V_1'
OPENSTACK = 'ETSINFV.OPENSTACK_KEYSTONE.V_3'


class Failure(Exception):
    """An error that the user is shown instead of a traceback."""


def note(text):
    """Writes a line to standard error, which is the log."""
    sys.stderr.write(text + '\n')
    sys.stderr.flush()
