#!/usr/bin/env bash
# workers - a walk through a VNF that is a Kubernetes cluster: one master and one worker,
# on virtual machines, are built through git; another VNF runs on that cluster; workers are
# scaled to three and back to two while it does, and its PodDisruptionBudget is never
# violated; both are terminated.
#
#   make demo-workers              installs and starts an OpenStack (Debian 12, as root)
#   OS_CLOUD=… make demo-workers   uses that cloud of your clouds.yaml; it needs a network
#                                  net0 of 10.10.0.0/16, an image img1, flavour m1.tiny
#   KEEP=1 make demo-workers       leaves everything running at the end
#
# Nova's hypervisor is a fake, so hosts in network namespaces stand where its servers
# would. kubeadm makes them a cluster, whose kubelets run real containers; where this
# machine has no cgroups of version 1, the control plane is real, and kwok plays the kubelets.
# Everything is kept under DEMO_DATA (default: demo-data in the project's folder).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ROOT=$PWD
DATA=${DEMO_DATA:-$ROOT/demo-data}
CONTROLPLANE=$ROOT/test/controlplane/controlplane
GUARD_PID=
LEAST=2 # pods that the budget wants

LOOK="/usr/bin/openstack server list"

# shellcheck source=test/demo/common.sh
. test/demo/common.sh
# shellcheck source=test/demo/machines.sh
. test/demo/machines.sh

kube() { kubectl --kubeconfig "$DATA/cluster.kubeconfig" "$@"; }
nodes() { kube get nodes --no-headers -o custom-columns=NODE:.metadata.name,ADDRESS:'.status.addresses[?(@.type=="InternalIP")].address',READY:'.status.conditions[?(@.type=="Ready")].status',SINCE:.metadata.creationTimestamp | sed 's/^/   | /'; }
pods() { kube get pods --no-headers -o custom-columns=POD:.metadata.name,NODE:.spec.nodeName,READY:'.status.conditions[?(@.type=="Ready")].status' | sed 's/^/   | /'; }
# answers: what the workload's containers answer, where they are real
answers() {
  local pod
  [ -n "$MORE" ] || return 0
  hand "curl http://…     # each pod, through the cluster's API server"
  for pod in $(kube get pods -l app=web -o name); do
    kube get --raw "/api/v1/namespaces/default/pods/${pod#pod/}:80/proxy/" | sed 's/^/   | /'
  done
}
# story LOCATION: what the operation has done, as Jibe tells
story() { hand "jibe get operation ${1##*/}"; jibe get operation "${1##*/}" | sed -n '/^STEPS/,$p' | sed 's/^/   | /'; }
# count: how many pods of the workload are Ready and stay
count() { kube get pods -l app=web -o jsonpath='{range .items[*]}{.metadata.deletionTimestamp}{" "}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' | grep -c '^ True'; }
# guard: looks at the workload until it is killed; $DATA/guard.txt has how often, and the fewest
guard() {
  local looks=0 fewest=99 n
  while n=$(count); do
    looks=$((looks + 1)); [ "$n" -ge "$fewest" ] || fewest=$n
    echo "$looks $fewest" >"$DATA/guard.new" && mv "$DATA/guard.new" "$DATA/guard.txt"
  done
}
last_op() { jibe get operations | awk -v type="$1" '$2 == type && !id {id = $1} END {print id}'; } # TYPE

begin
"$CONTROLPLANE" build >/dev/null
PATH=$PATH:$("$CONTROLPLANE" path)
export PATH
cloud
CLUSTER_PACKAGE=k8s-cluster-1.0 MORE=
IMAGE=$(sed -n 's/^ *image: *//p' examples/packages/rolling-1.0/Files/kubernetes/deployment.yaml)
if [ -e /sys/fs/cgroup/memory/notify_on_release ]; then
  follow "real sshd at the addresses that Neutron gives, real kubeadm, kubelet and containerd; $IMAGE is a test's HTTP server" -nodes "$IMAGE"
  # The site's own pod network, and what kubeadm says of this machine's cgroups.
  CLUSTER_PACKAGE=$DATA/site/k8s-cluster-1.0
  rm -rf "$DATA/site"; mkdir -p "$DATA/site"
  cp -r examples/packages/k8s-cluster-1.0 "$DATA/site/"
  mkdir -p "$CLUSTER_PACKAGE/Files"
  cp test/nodes/files/network.yaml "$CLUSTER_PACKAGE/Files/"
  MORE='    cni: Files/network.yaml\n    ignore_preflight_errors: SystemVerification\n'
else
  follow "real sshd at the addresses that Neutron gives, and stand-ins of kubeadm and kubelet" -kubernetes
fi
serve

step "Putting VNF packages into the package repository: a cluster, and something to run on it"
publish "$CLUSTER_PACKAGE" rolling-1.0

step "Build the cluster by git: one master and one worker"
desired
printf ubuntu >"$DATA/password"
cp "$DATA/password" "$JIBE_DATA/secrets/password"
CLUSTER=$WORK/instances/site-a/k8s-cluster/vnf.yaml
WEB=$WORK/instances/site-a/web-on-edge/vnf.yaml
mkdir -p "$(dirname "$CLUSTER")" "$(dirname "$WEB")"
sed "s|file:/var/lib/jibe/secrets/machine-password|file:$JIBE_DATA/secrets/password|; s|^    script_path:|$MORE&|" examples/k8s-cluster/vnf.yaml >"$CLUSTER"
sed 's/^/   | /' "$CLUSTER"
t=$(now)
push 'Build the edge cluster'
await_op INSTANTIATE COMPLETED 1
took "$t"
ID=$(id_of k8s-cluster)
story "$(last_op INSTANTIATE)"
shows 2
MASTER=$(jibe get instance k8s-cluster | awk '/^CONNECTION/ {on = 1} on && $1 == "masterNode_CP1" {print $2; exit}')
jibe ssh --known-hosts "$DATA/known_hosts" --accept-new --password-file "$DATA/password" "ubuntu@$MASTER" -- sudo cat /etc/kubernetes/admin.conf >"$DATA/cluster.kubeconfig"
nodes

step "The cluster is a VIM of Jibe's now, with its credentials encrypted: another VNF runs on it"
git -C "$WORK" pull -q --rebase
cut -c1-110 "$WORK/vims/edge.yaml" | sed 's/^/   | /'
! grep -q 'PRIVATE KEY' "$WORK/vims/edge.yaml" || die "a key stands in git"
cp examples/k8s-cluster/on-edge.yaml "$WEB"
t=$(now)
push 'Run web on the edge cluster'
await_op INSTANTIATE COMPLETED 2
took "$t"
hand "kubectl create poddisruptionbudget web --selector app=web --min-available $LEAST"
kube create poddisruptionbudget web --selector app=web --min-available "$LEAST" >/dev/null
pods
answers
guard &
GUARD_PID=$!

step "Scale 1 -> 3 workers by ETSI's API (SOL003), with the number as a string"
hand "curl -X POST …/vnf_instances/$ID/scale -d @examples/k8s-cluster/scale_out.json"
t=$(now)
ask scale "$(cat examples/k8s-cluster/scale_out.json)"
took "$t"
story "$LOCATION"
shows 4
nodes

step "Scale 3 -> 2, naming the worker on which all pods run: it is drained before its machine is removed"
NODE=$(kube get pods -l app=web -o jsonpath='{.items[0].spec.nodeName}')
ADDRESS=$(kube get node "$NODE" -o jsonpath='{.status.addresses[?(@.type=="InternalIP")].address}')
SERVER=$(grep -wF "$ADDRESS" "$DATA/servers.txt" | cut -d' ' -f1)
[ -n "$SERVER" ] || die "no server has the address $ADDRESS"
hand "sed -i 's/worker_instance: 2/worker_instance: 1/' …/vnf.yaml; git commit; git push     # the newest would go"
hand "curl -X POST …/vnf_instances/$ID/scale -d '{\"type\": \"SCALE_IN\", …, \"additionalParams\": {\"vnfcInstanceId\": [\"…\"]}}'     # this one goes"
VNFC=$(jibe get instance k8s-cluster | awk -v server="$SERVER" '/^VNFCS/ {on = 1} on && $2 == server {print $NF; exit}')
t=$(now)
ask scale "{\"type\": \"SCALE_IN\", \"aspectId\": \"worker_instance\", \"additionalParams\": {\"vnfcInstanceId\": [\"$VNFC\"]}}"
took "$t"
story "$LOCATION"
shows 3
! grep -q "^$SERVER " "$DATA/servers.txt" || die "$SERVER is there yet"
nodes
wait_for 60 "all pods are Ready" sh -c "[ \$(kubectl --kubeconfig '$DATA/cluster.kubeconfig' get pods -l app=web --no-headers | grep -c Running) = 3 ]"
pods
answers
kill "$GUARD_PID" 2>/dev/null; wait "$GUARD_PID" 2>/dev/null || true
GUARD_PID=
read -r LOOKS FEWEST <"$DATA/guard.txt"
note "the workload was looked at $LOOKS times: never fewer than $FEWEST of its 3 pods were Ready (the budget wants $LEAST)"
[ "$LOOKS" -ge 20 ] && [ "$FEWEST" -ge "$LEAST" ] || die "the budget was violated, or nobody looked"

step "The cluster can't be terminated under the VNF that runs there"
api POST "/vnflcm/v2/vnf_instances/$ID/terminate" '{"terminationType": "FORCEFUL"}' | grep -o '"detail":"[^"]*"\|^409' | sed 's/^/   | /'

step "Terminate the one, then the other"
t=$(now)
CLUSTER_ID=$ID
ID=$(id_of web-on-edge)
ask terminate '{"terminationType": "FORCEFUL"}'
ID=$CLUSTER_ID
ask terminate '{"terminationType": "FORCEFUL"}'
took "$t"
git -C "$WORK" pull -q --rebase
wait_for 30 "the VIM is gone" sh -c "git -C '$WORK' pull -q --rebase && [ ! -e '$WORK/vims/edge.yaml' ]"
[ -z "$(servers)" ] || die "a server is left: $(servers)"
jibe get operations | sed 's/^/   /'

step "Done"
[ "${KEEP:-}" = 1 ] || note "nothing was left running (KEEP=1 leaves it); the data are in $DATA"
