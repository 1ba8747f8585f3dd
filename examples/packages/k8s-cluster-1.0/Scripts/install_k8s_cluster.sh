#!/usr/bin/env bash
# install_k8s_cluster.sh - makes this host a part of a Kubernetes cluster, as root.
#
#   JIBE_K8S_ACTION        init           the first master of a new cluster
#                          join-master    another master
#                          join-worker    a worker
#                          reset          this host is no part of a cluster any more
#                          remove-member  on a master that stays: the cluster forgets the
#                                         node JIBE_K8S_NODE_NAME, and its etcd does
#   JIBE_K8S_NODE_NAME     the node's name (default: the host's name)
#   JIBE_K8S_NODE_ADDRESS  the node's address; needed by all but reset and remove-member
#   JIBE_K8S_ENDPOINT      host:port of the API server (init: default the node's address, 6443)
#   JIBE_K8S_TOKEN         a bootstrap token (init: the cluster takes it for a day; may be left out)
#   JIBE_K8S_CA_HASH       "sha256:…" of the cluster's CA; the joins need it
#   JIBE_K8S_CERTIFICATE_KEY  what the CA's key is encrypted with while masters join
#                          (init: uploads it with this, also on a master that is one
#                          already; join-master needs it)
#   JIBE_K8S_POD_CIDR      the subnet of pods (init)
#   JIBE_K8S_SERVICE_CIDR  the subnet of Services (init; the stand-in has one of its own)
#   JIBE_K8S_CNI           manifest of the pod network, a file or a URL (init; may be left out)
#
# A host that has kubeadm uses it. One of a test's that has not uses stand-ins that say so
# by their names: jibe-test-kubernetes is a real control plane without kubelets, and
# jibe-test-join joins and registers as a kubelet does, but runs no pods.
#
# Every action may be repeated: what is done already succeeds. After init and join-master,
# /etc/kubernetes/admin.conf is an admin's kubeconfig.
set -euo pipefail

ADMIN=/etc/kubernetes/admin.conf
KUBELET=/etc/kubernetes/kubelet.conf
DONE=/etc/kubernetes/joined # kubeadm went through to its end on this host

die() { echo "install_k8s_cluster.sh: ${JIBE_K8S_ACTION:-}: $*" >&2; exit 1; }
need() { local n; for n in "$@"; do [ -n "${!n:-}" ] || die "$n is needed"; done; }
real() { command -v kubeadm >/dev/null; }
kube() { kubectl --kubeconfig "$ADMIN" "$@"; }

init() {
  need JIBE_K8S_NODE_ADDRESS
  local endpoint=${JIBE_K8S_ENDPOINT:-$JIBE_K8S_NODE_ADDRESS:6443}
  if real; then init_real "$endpoint"; else init_test "$endpoint"; fi
  [ -z "${JIBE_K8S_CNI:-}" ] || kube apply -f "$JIBE_K8S_CNI"
}

init_real() { # init_real ENDPOINT
  if done_already "$ADMIN"; then
    # What it prints is the key.
    [ -z "${JIBE_K8S_CERTIFICATE_KEY:-}" ] ||
      kubeadm init phase upload-certs --upload-certs --certificate-key "$JIBE_K8S_CERTIFICATE_KEY" >/dev/null
    return 0
  fi
  local args=(--apiserver-advertise-address "$JIBE_K8S_NODE_ADDRESS" --control-plane-endpoint "$1" --node-name "$NAME")
  args+=(--skip-token-print --skip-certificate-key-print) # what this prints is kept in logs
  [ -z "${JIBE_K8S_POD_CIDR:-}" ] || args+=(--pod-network-cidr "$JIBE_K8S_POD_CIDR")
  [ -z "${JIBE_K8S_SERVICE_CIDR:-}" ] || args+=(--service-cidr "$JIBE_K8S_SERVICE_CIDR")
  [ -z "${JIBE_K8S_TOKEN:-}" ] || args+=(--token "$JIBE_K8S_TOKEN")
  [ -z "${JIBE_K8S_CERTIFICATE_KEY:-}" ] || args+=(--upload-certs --certificate-key "$JIBE_K8S_CERTIFICATE_KEY")
  kubeadm init "${args[@]}"
  touch "$DONE"
}

# done_already KUBECONFIG: true for a host that has its place. One whose join ended half-way
# is cleared, as kubeadm refuses what that left; one that had a place is never: its etcd may
# be the last that has the cluster's data.
done_already() {
  if [ ! -f "$DONE" ]; then
    kubeadm reset --force
    return 1
  fi
  kubectl --kubeconfig "$1" get node "$NAME" >/dev/null ||
    die "this host joined a cluster, which doesn't answer or has no node $NAME (see above): try again, or reset the host"
}

init_test() { # init_test ENDPOINT
  [ "$1" = "$JIBE_K8S_NODE_ADDRESS:6443" ] || die "JIBE_K8S_ENDPOINT $1: the stand-in has its API server at the master's address, port 6443"
  jibe-test-kubernetes init "$JIBE_K8S_NODE_ADDRESS" "${JIBE_K8S_POD_CIDR:-}"
  [ -z "${JIBE_K8S_TOKEN:-}" ] || jibe-test-join token | kube apply -f -
  # The master's own node comes with a token of its own, as kubeadm's does with the admin's rights.
  local own
  own=$(od -An -N11 -tx1 /dev/urandom | tr -d ' \n')
  own=${own:0:6}.${own:6:16}
  JIBE_K8S_TOKEN=$own jibe-test-join token | kube apply -f -
  JIBE_K8S_TOKEN=$own jibe-test-join join -endpoint "$1" -ca-hash "$(jibe-test-join hash -conf "$ADMIN")" \
    -name "$NAME" -address "$JIBE_K8S_NODE_ADDRESS"
  kube -n kube-system delete secret "bootstrap-token-${own%.*}"
  kube label --overwrite node "$NAME" node-role.kubernetes.io/control-plane=
  kube taint --overwrite node "$NAME" node-role.kubernetes.io/control-plane=:NoSchedule
}

join_worker() {
  need JIBE_K8S_NODE_ADDRESS JIBE_K8S_ENDPOINT JIBE_K8S_CA_HASH
  if ! real; then
    jibe-test-join join -endpoint "$JIBE_K8S_ENDPOINT" -ca-hash "$JIBE_K8S_CA_HASH" -name "$NAME" -address "$JIBE_K8S_NODE_ADDRESS"
    return
  fi
  join_real
}

join_master() {
  need JIBE_K8S_NODE_ADDRESS JIBE_K8S_ENDPOINT JIBE_K8S_CA_HASH
  real || die "this host has no kubeadm, and the stand-in has one master only"
  need JIBE_K8S_CERTIFICATE_KEY
  join_real --control-plane --apiserver-advertise-address "$JIBE_K8S_NODE_ADDRESS" --certificate-key "$JIBE_K8S_CERTIFICATE_KEY"
}

join_real() { # join_real ARG...
  if done_already "$KUBELET"; then return 0; fi
  need JIBE_K8S_TOKEN
  kubeadm join "$JIBE_K8S_ENDPOINT" --token "$JIBE_K8S_TOKEN" --discovery-token-ca-cert-hash "$JIBE_K8S_CA_HASH" --node-name "$NAME" "$@"
  touch "$DONE"
}

reset() {
  if real; then
    kubeadm reset --force
    rm -rf /etc/cni/net.d "$DONE"
  else
    jibe-test-join reset
    jibe-test-kubernetes reset
  fi
}

remove_member() {
  need JIBE_K8S_NODE_NAME
  [ -f "$ADMIN" ] || die "this host is no master: it has no $ADMIN"
  ! real || remove_etcd_member
  kube delete node "$NAME" --ignore-not-found
}

# remove_etcd_member: a worker has none, and one that is gone already needs nothing.
remove_etcd_member() {
  local etcd id own pki=/etc/kubernetes/pki/etcd
  # The node may have another name than its host.
  own=$(sed -n 's/^ *- --name=//p' /etc/kubernetes/manifests/etcd.yaml)
  etcd=$(kube -n kube-system get pods -l component=etcd -o name --field-selector "spec.nodeName=$own")
  [ -n "$etcd" ] || die "this host runs no etcd: run it on a master that stays"
  etcdctl() {
    kube -n kube-system exec "$etcd" -- etcdctl --endpoints https://127.0.0.1:2379 \
      --cacert "$pki/ca.crt" --cert "$pki/server.crt" --key "$pki/server.key" "$@"
  }
  id=$(etcdctl member list | awk -F', ' -v name="$NAME" '$3 == name {print $1}')
  [ -z "$id" ] || etcdctl member remove "$id"
}

main() {
  [ "$(id -u)" = 0 ] || die "root is needed"
  NAME=${JIBE_K8S_NODE_NAME:-$(hostname)}
  # kubeadm lowers it too.
  NAME=${NAME,,}
  case ${JIBE_K8S_ACTION:-} in
    init) init ;;
    join-master) join_master ;;
    join-worker) join_worker ;;
    reset) reset ;;
    remove-member) remove_member ;;
    *) die "JIBE_K8S_ACTION is init, join-master, join-worker, reset or remove-member" ;;
  esac
}

main "$@"
