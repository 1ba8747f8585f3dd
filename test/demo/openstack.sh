#!/usr/bin/env bash
# openstack - a walk through Jibe with virtual machines: a VNF is instantiated, scaled,
# healed, upgraded one server at a time; another one blue-green behind a load balancer, a
# bad upgrade of it is taken back; a third has the templates, and is upgraded by the
# request, that clients of other managers know; all are terminated. Through git and ETSI's
# API, on real Keystone, Heat, Nova, Neutron, Glance and Cinder.
#
#   make demo-openstack            installs and starts an OpenStack (Debian 12, as root)
#   OS_CLOUD=… make demo-openstack uses that cloud of your clouds.yaml; it needs a network
#                                  net0 of 10.10.0.0/16, images img1 and img2, flavour m1.tiny
#   KEEP=1 make demo-openstack     leaves everything running at the end
#
# Nova's hypervisor is a fake, so hosts in network namespaces (sshd, a web server, one
# haproxy) stand where its servers would: at their addresses, as long as they live.
# Everything is kept under DEMO_DATA (default: demo-data in the project's folder).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ROOT=$PWD
DATA=${DEMO_DATA:-$ROOT/demo-data}
BALANCER=10.10.200.50

LOOK="/usr/bin/openstack stack list, curl http://$BALANCER/"

# shellcheck source=test/demo/common.sh
. test/demo/common.sh
# shellcheck source=test/demo/machines.sh
. test/demo/machines.sh

begin
cloud
follow "real sshd and web servers at the addresses that Neutron gives, and an haproxy at $BALANCER" -balancer "$BALANCER"
serve

step "Putting VNF packages into the package repository: BaseHOT templates, scripts, two versions each"
publish vm-asg-1.{0,1} vm-blue-green-1.{0,1} vm-sample-1.{0,1}

step "Instantiate by git: one server of each VDU, in one Heat stack"
desired
WEB=$WORK/instances/site-a/web/vnf.yaml
SHOP=$WORK/instances/site-b/shop/vnf.yaml
mkdir -p "$(dirname "$WEB")" "$(dirname "$SHOP")"
sed 's/^name: .*/name: web/; s/^levels:.*/levels: {VDU1_aspect: 0}/' examples/vm-rolling/vnf.yaml >"$WEB"
sed 's/^/   | /' "$WEB"
jibe plan "$WORK" | sed 's/^/   /' || [ "${PIPESTATUS[0]}" = 2 ]
t=$(now)
push 'Run the web servers at site A'
await_op INSTANTIATE COMPLETED 1
took "$t"
os stack list -f value -c 'Stack Name' -c 'Stack Status' | sed 's/^/   | /'
shows 2
ID=$(id_of web)
[ -n "$ID" ] || die "no instance id"

step "Scale 1 -> 3 by git"
hand "sed -i 's/VDU1_aspect: 0/VDU1_aspect: 2/' instances/site-a/web/vnf.yaml; git commit -am …; git push"
edit 's/VDU1_aspect: 0/VDU1_aspect: 2/' "$WEB"
t=$(now)
push 'More web servers for the evening'
await_op SCALE COMPLETED 1
took "$t"
shows 4

step "Scale 3 -> 2 by ETSI's API (SOL003): the newest one goes"
hand "curl -X POST …/vnf_instances/$ID/scale -d '{\"type\": \"SCALE_IN\", \"aspectId\": \"VDU1_aspect\", \"numberOfSteps\": 1}'"
t=$(now)
ask scale '{"type": "SCALE_IN", "aspectId": "VDU1_aspect", "numberOfSteps": 1}'
took "$t"
shows 3

step "Heal one VNFC: its server is replaced, the others are not touched"
cp "$DATA/servers.txt" "$DATA/before.txt"
SICK=$(sed -n 's/ .* img1$//p' "$DATA/before.txt" | head -1)
hand "jibe heal web $SICK --wait"
t=$(now)
jibe heal web "$SICK" --cause 'it answers slowly' --wait >"$DATA/heal.txt" 2>&1 || die "the heal failed: $(cat "$DATA/heal.txt")"
took "$t"
shows 3
! grep -q "^$SICK " "$DATA/servers.txt" || die "$SICK was not replaced"
[ "$(sort <(cut -d' ' -f1 "$DATA/before.txt") <(cut -d' ' -f1 "$DATA/servers.txt") | uniq -d | wc -l)" = 2 ] || die "other servers were touched"

step "Change the package, rolling (SOL003): one server after the other, its coordination script after each"
hand "curl -X POST …/vnf_instances/$ID/change_vnfpkg -d @examples/vm-rolling/change_vnfpkg.json"
t=$(now)
ask change_vnfpkg "$(cat examples/vm-rolling/change_vnfpkg.json)"
took "$t"
shows 3
note "what the hosts tell that the script has configured:"
for a in $(grep -o '10\.10\.[0-9.]*' "$DATA/servers.txt"); do curl -sS -m 10 "http://$a:8080/" | cut -c1-160 | sed "s/^/   | $a /"; echo; done

step "A second VNF, with a load balancer before it"
sed "s/^name: .*/name: shop/; s/^levels:.*/levels: {VDU1_aspect: 0}/; /^update:/,\$d" examples/vm-blue-green/vnf.yaml >"$SHOP"
git -C "$WORK" pull -q --rebase
t=$(now)
push 'Open the shop at site B'
await_op INSTANTIATE COMPLETED 2
took "$t"
ID=$(id_of shop)
os stack list -f value -c 'Stack Name' -c 'Stack Status' | sed 's/^/   | /'

step "A bad blue-green change: the script can't log in to the new server; it fails, and is taken back"
t=$(now)
ask change_vnfpkg "$(sed "s/10\.10\.0\.50/$BALANCER/; /new_vnfc_param/s/\"password\": \"ubuntu\"/\"password\": \"forgotten\"/" examples/vm-blue-green/change_vnfpkg.json)" FAILED_TEMP
jibe get operations | grep FAILED_TEMP | sed 's/^/   | /'
os stack list -f value -c 'Stack Name' -c 'Stack Status' | sed 's/^/   | /'
hand "jibe rollback ${LOCATION##*/}"
jibe rollback "${LOCATION##*/}" | sed 's/^/   /'
await_op CHANGE_VNFPKG ROLLED_BACK 1
took "$t"
os stack list -f value -c 'Stack Name' -c 'Stack Status' | sed 's/^/   | /'

step "The same with the right one, by git: a second stack, the scripts, then the first one goes"
printf ubuntu >"$JIBE_DATA/secrets/password"
git -C "$WORK" pull -q --rebase
sed -n '/^update:/,$p' examples/vm-blue-green/vnf.yaml | sed "s/10\.10\.0\.50/$BALANCER/; s|file:/var/lib/jibe/secrets/[a-z-]*|file:$JIBE_DATA/secrets/password|" >>"$SHOP"
sed -i 's/^vnfdId: .*/vnfdId: 3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b61/' "$SHOP"
t=$(now)
push 'Renew the shop'
await_op CHANGE_VNFPKG COMPLETED 2
took "$t"
os stack list -f value -c 'Stack Name' -c 'Stack Status' | sed 's/^/   | /'
note "through the load balancer:"
wait_for 60 "the load balancer answers" curl -fsS -m 5 "http://$BALANCER/"
curl -fsS -m 10 "http://$BALANCER/" | sed 's/^/   | /'; echo

step "A third VNF, with the sample templates that clients of other managers know"
SHOP_ID=$ID
SAMPLE=$WORK/instances/site-c/sample/vnf.yaml
git -C "$WORK" pull -q --rebase
mkdir -p "$(dirname "$SAMPLE")"
sed 's/^name: .*/name: sample/' examples/vm-sample/vnf.yaml >"$SAMPLE"
t=$(now)
push 'Run the sample at site C'
await_op INSTANTIATE COMPLETED 3
took "$t"
ID=$(id_of sample)

step "Their request: blue-green, ./paths, names of classes, vdu_params as one object, CP1 for the port cp"
hand "curl -X POST …/vnf_instances/$ID/change_vnfpkg -d @examples/vm-sample/change_vnfpkg.json"
t=$(now)
ask change_vnfpkg "$(sed "s/10\.10\.0\.50/$BALANCER/" examples/vm-sample/change_vnfpkg.json)"
took "$t"
os stack list -f value -c 'Stack Name' -c 'Stack Status' | sed 's/^/   | /'
curl -fsS -m 10 "http://$BALANCER/" | sed 's/^/   | /'; echo

step "And back, rolling, by the same request: one server after the other"
t=$(now)
ask change_vnfpkg "$(sed 's/9e1b71/9e1b70/; s/Blue-Green/RollingUpdate/; /external_lb_param/d; s/^    },$/    }/' examples/vm-sample/change_vnfpkg.json)"
took "$t"

step "What happened"
jibe get instances | sed 's/^/   /'
jibe get operations | sed 's/^/   /'

step "Terminate: one by ETSI's API, two by git"
t=$(now)
ID=$SHOP_ID
ask terminate '{"terminationType": "FORCEFUL"}'
git -C "$WORK" pull -q --rebase
git -C "$WORK" rm -rq instances/site-a instances/site-c
push 'Close the sites A and C'
wait_for "$PATIENCE" "sites A and C are closed" sh -c '! jibe get instances | grep -qE " (web|sample) "'
took "$t"
[ -z "$(os stack list -f value)" ] || die "a stack is left: $(os stack list)"
[ -z "$(os server list -f value)" ] || die "a server is left: $(os server list)"
[ -z "$(os port list -f value)" ] || die "a port is left: $(os port list)"
[ -z "$(os volume list -f value)" ] || die "a volume is left: $(os volume list)"
note "no stack, no server, no port, no volume is left"

step "Done"
[ "${KEEP:-}" = 1 ] || note "nothing was left running (KEEP=1 leaves it); the data are in $DATA"
