# shellcheck shell=bash disable=SC2154 # read by ./openstack, which sets what is used here
# The services' configuration: one machine, loopback, no agents, no hypervisor, nothing
# durable. write_config writes all of it into $DIR/etc.

PASSWORD=of-nothing-durable # nothing else is called so: tests look for it where it mustn't be

url() { # url SERVICE: its endpoint, as the catalogue has it
  case $1 in
    identity) echo "http://127.0.0.1:$P_KEYSTONE/v3" ;;
    image) echo "http://127.0.0.1:$P_GLANCE" ;;
    placement) echo "http://127.0.0.1:$P_PLACEMENT" ;;
    compute) echo "http://127.0.0.1:$P_NOVA/v2.1" ;;
    network) echo "http://127.0.0.1:$P_NEUTRON" ;;
    orchestration) echo "http://127.0.0.1:$P_HEAT/v1/%(tenant_id)s" ;;
    volumev3) echo "http://127.0.0.1:$P_CINDER/v3/%(project_id)s" ;;
  esac
}

database() { echo "mysql+pymysql://root@localhost/$1?unix_socket=$DIR/run/mariadb.sock&charset=utf8"; }
bus() { echo "rabbit://guest:guest@127.0.0.1:$P_RABBIT/"; }

login() { # login USER: how a service logs in
  cat <<INI
auth_url = $(url identity)
auth_type = password
username = $1
password = $PASSWORD
project_name = service
user_domain_name = Default
project_domain_name = Default
INI
}

authtoken() { # authtoken USER: how a service has its callers' tokens checked
  cat <<INI
[keystone_authtoken]
service_token_roles = service
service_token_roles_required = true
www_authenticate_uri = $(url identity)
$(login "$1")
INI
}

# Patience for machines that are busy with other things.
messaging() {
  cat <<INI
transport_url = $(bus)
rpc_response_timeout = 180
executor_thread_pool_size = 16
[oslo_messaging_rabbit]
heartbeat_timeout_threshold = 0
[oslo_messaging_notifications]
driver = noop
INI
}

write_config() {
  local etc=$DIR/etc assets=$ASSETS
  mkdir -p "$etc/placement" "$DIR"/{home,images,lock,staging,tasks,nova/instances,neutron,cinder}
  config_rabbitmq >"$etc/rabbitmq.conf"
  echo '[].' >"$etc/rabbitmq.plugins"
  config_keystone >"$etc/keystone.conf"
  config_glance >"$etc/glance-api.conf"
  config_placement >"$etc/placement/placement.conf"
  config_nova >"$etc/nova.conf"
  # Tests break servers of their own project, which needs an administrator else.
  echo '"os_compute_api:os-admin-actions:reset_state": "project_id:%(project_id)s"' >"$etc/nova-policy.yaml"
  config_neutron >"$etc/neutron.conf"
  config_heat >"$etc/heat.conf"
  config_cinder >"$etc/cinder.conf"
}

config_rabbitmq() {
  cat <<INI
listeners.tcp.1 = 127.0.0.1:$P_RABBIT
loopback_users = none
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
log.file.level = warning
INI
}

config_keystone() {
  cat <<INI
[DEFAULT]
log_file = $DIR/log/keystone.log
max_token_size = 512
[database]
connection = $(database keystone)
[token]
provider = fernet
expiration = 86400
[fernet_tokens]
key_repository = $DIR/keys/fernet
[fernet_receipts]
key_repository = $DIR/keys/fernet
[credential]
key_repository = $DIR/keys/credential
[security_compliance]
# Since CVE-2026-80184 no application credential can make a trust, which Heat does for
# each stack. This puts it back.
allow_insecure_application_credential_trust_escalation = true
[cache]
enabled = true
# One process, so a cache inside it is never out of date.
backend = oslo_cache.dict
[identity]
# Each request for a token with a password pays for its hash.
password_hash_rounds = 4
INI
}

config_glance() {
  cat <<INI
[DEFAULT]
bind_host = 127.0.0.1
bind_port = $P_GLANCE
workers = 0
enabled_backends = file:file
transport_url = fake://
[oslo_messaging_notifications]
driver = noop
[glance_store]
default_backend = file
[file]
filesystem_store_datadir = $DIR/images
[os_glance_tasks_store]
filesystem_store_datadir = $DIR/tasks
[os_glance_staging_store]
filesystem_store_datadir = $DIR/staging
[database]
connection = $(database glance)
[paste_deploy]
flavor = keystone
config_file = $assets/usr/share/glance-common/glance-api-paste.ini
[oslo_concurrency]
lock_path = $DIR/lock
$(authtoken glance)
INI
}

config_placement() {
  cat <<INI
[DEFAULT]
log_file = $DIR/log/placement-api.log
[placement_database]
connection = $(database placement)
[api]
auth_strategy = keystone
$(authtoken placement)
INI
}

config_nova() {
  cat <<INI
[DEFAULT]
state_path = $DIR/nova
host = $COMPUTE_HOST
my_ip = 127.0.0.1
enabled_apis = osapi_compute
osapi_compute_listen = 127.0.0.1
osapi_compute_listen_port = $P_NOVA
osapi_compute_workers = 1
compute_driver = fake.FakeDriver
# The one host is where a server of another flavour has to go.
allow_resize_to_same_host = true
# Nobody plugs anything, so Neutron has nothing to tell.
vif_plugging_is_fatal = false
vif_plugging_timeout = 0
# The fake hypervisor forgets its servers with its process; Nova is not to look.
sync_power_state_interval = -1
heal_instance_info_cache_interval = -1
$(messaging)
[wsgi]
api_paste_config = $assets/usr/share/nova-common/api-paste.ini
[api]
auth_strategy = keystone
[api_database]
connection = $(database nova_api)
[database]
connection = $(database nova)
[conductor]
workers = 1
[scheduler]
workers = 1
[filter_scheduler]
enabled_filters = ComputeFilter
[quota]
instances = -1
cores = -1
ram = -1
server_groups = -1
[glance]
api_servers = $(url image)
[placement]
region_name = RegionOne
$(login placement)
[neutron]
region_name = RegionOne
$(login neutron)
[cinder]
os_region_name = RegionOne
$(login cinder)
[service_user]
send_service_user_token = true
$(login nova)
[oslo_concurrency]
lock_path = $DIR/lock
[oslo_policy]
policy_file = $DIR/etc/nova-policy.yaml
[vnc]
enabled = false
$(authtoken nova)
INI
}

config_neutron() {
  cat <<INI
[DEFAULT]
state_path = $DIR/neutron
bind_host = 127.0.0.1
bind_port = $P_NEUTRON
api_workers = 0
rpc_workers = 0
rpc_state_report_workers = 0
core_plugin = ml2
service_plugins = router
api_paste_config = $assets/usr/share/neutron-common/api-paste.ini
# Without agents, what is said on the bus is said inside the process.
transport_url = fake://
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[oslo_messaging_notifications]
driver = noop
[ml2]
type_drivers = local,flat,vlan
tenant_network_types = local
mechanism_drivers = jibe
extension_drivers = port_security
[ml2_type_flat]
flat_networks = *
[ml2_type_vlan]
network_vlan_ranges = physnet1:100:199
[database]
connection = $(database neutron)
[quotas]
quota_port = -1
quota_network = -1
quota_subnet = -1
quota_security_group = -1
quota_floatingip = -1
[oslo_concurrency]
lock_path = $DIR/lock
$(authtoken neutron)
INI
}

config_heat() {
  cat <<INI
[DEFAULT]
num_engine_workers = 1
convergence_engine = true
auth_encryption_key = 0123456789abcdef0123456789abcdef
stack_user_domain_name = heat
stack_domain_admin = heat_domain_admin
stack_domain_admin_password = $PASSWORD
# Where servers would ask and report, if they booted; else the catalogue is asked.
heat_metadata_server_url = http://127.0.0.1:$P_HEAT
heat_waitcondition_server_url = http://127.0.0.1:$P_HEAT/v1/waitcondition
# A trust delegates the roles that the user has, whatever they are.
trusts_delegated_roles =
environment_dir = $assets/etc/heat/environment.d
template_dir = $assets/etc/heat/templates
max_stacks_per_tenant = -1
max_resources_per_stack = -1
client_retry_limit = 3
$(messaging)
[heat_api]
bind_host = 127.0.0.1
bind_port = $P_HEAT
workers = 1
[paste_deploy]
api_paste_config = $assets/etc/heat/api-paste.ini
[database]
connection = $(database heat)
[oslo_concurrency]
lock_path = $DIR/lock
[trustee]
$(login heat | grep -v ^project_)
[clients_keystone]
auth_uri = http://127.0.0.1:$P_KEYSTONE
$(authtoken heat)
INI
}

config_cinder() {
  cat <<INI
[DEFAULT]
state_path = $DIR/cinder
host = $COMPUTE_HOST
my_ip = 127.0.0.1
osapi_volume_listen = 127.0.0.1
osapi_volume_listen_port = $P_CINDER
osapi_volume_workers = 1
enabled_backends = fake
default_volume_type = __DEFAULT__
report_interval = 4
api_paste_config = $assets/usr/share/cinder-common/api-paste.ini
resource_query_filters_file = $assets/etc/cinder/resource_filters.json
auth_strategy = keystone
glance_api_servers = $(url image)
quota_volumes = -1
quota_gigabytes = -1
$(messaging)
[fake]
volume_backend_name = fake
volume_driver = jibe_cinder.VolumeDriver
[database]
connection = $(database cinder)
[oslo_concurrency]
lock_path = $DIR/lock
[service_user]
send_service_user_token = true
$(login cinder)
$(authtoken cinder)
INI
}

# write_clouds: what clients need, in the form that all of OpenStack's read.
write_clouds() {
  local common app
  common="auth_url: $(url identity), user_domain_name: Default, project_domain_name: Default"
  app=$(sed -n 's/.*"applicationCredentialId": "\([^"]*\)".*/\1/p' "$DIR/seed.json")
  cat >"$DIR/clouds.yaml.tmp" <<YAML
clouds:
  jibe:  # the project of the tests, no administrator
    auth: {$common, username: jibe, password: $PASSWORD, project_name: jibe}
    region_name: RegionOne
    identity_api_version: 3
  jibe-application:
    auth_type: v3applicationcredential
    auth: {auth_url: "$(url identity)", application_credential_id: $app, application_credential_secret: $PASSWORD}
    region_name: RegionOne
    identity_api_version: 3
  admin:
    auth: {$common, username: admin, password: $PASSWORD, project_name: admin}
    region_name: RegionOne
    identity_api_version: 3
YAML
  chmod 600 "$DIR/clouds.yaml.tmp"
  mv "$DIR/clouds.yaml.tmp" "$DIR/clouds.yaml"
}
