#!/usr/bin/env bash
# install_k8s_cluster.sh - makes this machine a part of a Kubernetes cluster, as root.
#
#   JIBE_K8S_ACTION        install        what a node needs, and no more
#                          init           the first master of a new cluster
#                          join-master    another master
#                          join-worker    a worker
#                          balance        haproxy and keepalived on this master, for all
#                          reset          this machine is no part of a cluster any more
#                          remove-member  on a master that stays: the cluster forgets the
#                                         node JIBE_K8S_NODE_NAME, and its etcd does
#   JIBE_K8S_NODE_NAME     the node's name (default: the machine's name)
#   JIBE_K8S_NODE_ADDRESS  the node's address; needed by init, the joins and balance
#   JIBE_K8S_ENDPOINT      host:port of the API server (init: default the node's address, 6443)
#   JIBE_K8S_TOKEN         a bootstrap token (init: the cluster takes it for a day; may be left out)
#   JIBE_K8S_CA_HASH       "sha256:…" of the cluster's CA; the joins need it
#   JIBE_K8S_CERTIFICATE_KEY  what the CA's key is encrypted with while masters join
#                          (init: uploads it with this, also on a master that is one
#                          already; join-master needs it)
#   JIBE_K8S_POD_CIDR      the subnet of pods (init)
#   JIBE_K8S_SERVICE_CIDR  the subnet of Services (init)
#   JIBE_K8S_CNI           manifest of the pod network, a file or a URL (init; may be left out)
#   JIBE_K8S_CERT_SANS     more addresses in the API server's certificate (init)
#   JIBE_K8S_IGNORE_PREFLIGHT  checks of kubeadm's that only warn
#
# The installation, which init and the joins begin with, takes what the machine lacks from
#   JIBE_K8S_ARTIFACTS     this folder: debs/*.deb, bin/* (programs), cni/* (plugins) and
#                          images/*.tar, each of which may be left out; the folder is removed
#                          afterwards. Nothing is fetched from elsewhere then.
#   JIBE_K8S_ARTIFACTS_DIGEST  names its content, and is noted once all of it is installed;
#                          given alone, the machine has it already
#   JIBE_K8S_REPOSITORY    else from the system's packages (apt-get), and these: the rest of a
#                          line in sources.list, "https://host/path /"
#   JIBE_K8S_REPOSITORY_KEY  a file with the key that has signed them
#   JIBE_K8S_VERSION       1.33 or 1.33.2; default: what there is
#
# balance is told
#   JIBE_K8S_VIRTUAL_ADDRESS  which keepalived has on one of the masters
#   JIBE_K8S_BALANCER_PORT    where haproxy listens
#   JIBE_K8S_MASTERS          the addresses of all masters, this one among them
#   JIBE_K8S_ROUTER_ID        VRRP's number for them in their network
#   JIBE_K8S_PRIORITY         who has the greatest gets the address first
#
# Every action may be repeated: what is done already succeeds. After init and join-master,
# /etc/kubernetes/admin.conf is an admin's kubeconfig.
set -euo pipefail
PATH=$PATH:/usr/local/sbin:/usr/local/bin # many a sudo leaves out where artifacts are put

ADMIN=/etc/kubernetes/admin.conf
KUBELET=/etc/kubernetes/kubelet.conf
DONE=/etc/kubernetes/joined # kubeadm went through to its end on this machine
STATE=/var/lib/jibe-kubernetes
OLDEST=30 # the first minor version that this script knows

say() { echo "install_k8s_cluster.sh: ${JIBE_K8S_ACTION:-}: $*" >&2; }
die() { say "$*"; exit 1; }
need() { local n; for n in "$@"; do [ -n "${!n:-}" ] || die "$n is needed"; done; }
have() { command -v "$1" >/dev/null; }
kube() { kubectl --kubeconfig "$ADMIN" "$@"; }

# --- what a node needs ---

install_all() {
  local program
  mkdir -p "$STATE"
  have containerd || have crio || touch "$STATE/containerd" # the machine's owner hasn't set one up
  if airgapped; then from_artifacts; else from_packages; fi
  for program in kubeadm kubelet kubectl; do
    have "$program" || die "this machine has no $program: put it into its image, or into the artifacts of the package"
  done
  right_version
  kernel
  runtime
  systemctl enable kubelet
  images
  if [ -n "${JIBE_K8S_ARTIFACTS:-}" ]; then
    [ -z "${JIBE_K8S_ARTIFACTS_DIGEST:-}" ] || echo "$JIBE_K8S_ARTIFACTS_DIGEST" >"$STATE/artifacts"
    rm -rf -- "$JIBE_K8S_ARTIFACTS"
  fi
}

airgapped() { [ -n "${JIBE_K8S_ARTIFACTS:-}${JIBE_K8S_ARTIFACTS_DIGEST:-}" ]; }

# from_packages: only what is missing is asked for, so a machine whose image has all of it
# needs no package server.
from_packages() {
  local wanted=() of=
  have containerd || have crio || wanted+=(containerd)
  case ${JIBE_K8S_VERSION:-} in
    '') ;;
    *.*.*) of="=$JIBE_K8S_VERSION-*" ;;
    *) of="=$JIBE_K8S_VERSION.*" ;;
  esac
  have kubeadm || wanted+=("kubeadm$of")
  have kubelet || wanted+=("kubelet$of")
  have kubectl || wanted+=("kubectl$of")
  have iptables || wanted+=(iptables)
  have conntrack || wanted+=(conntrack)
  if [ ! -e /opt/cni/bin/loopback ] && [ ! -e /usr/lib/cni/loopback ] && have kubelet; then
    wanted+=(containernetworking-plugins) # the package of kubelet brings them by itself
  fi
  packages "${wanted[@]}"
}

packages() { # packages NAME[=VERSION]...
  local installing=$STATE/installing name
  # What a run that was cut short was installing may be there in part, its programs before
  # what they depend on.
  if [ -e "$installing" ]; then
    while read -r name; do
      case " ${*%%=*} " in *" ${name%%=*} "*) ;; *) set -- "$@" "$name" ;; esac
    done <"$installing"
  fi
  [ $# -gt 0 ] || return 0
  have apt-get || die "this machine lacks $*, and has no apt-get: put them into its image, or into the artifacts of the package"
  if [ -n "${JIBE_K8S_REPOSITORY:-}" ]; then
    need JIBE_K8S_REPOSITORY_KEY
    local key=/etc/apt/keyrings/jibe-kubernetes.gpg
    if grep -q 'BEGIN PGP PUBLIC KEY' "$JIBE_K8S_REPOSITORY_KEY"; then key=${key%.gpg}.asc; fi
    install -D -m 644 "$JIBE_K8S_REPOSITORY_KEY" "$key"
    echo "deb [signed-by=$key] $JIBE_K8S_REPOSITORY" >/etc/apt/sources.list.d/jibe-kubernetes.list
  fi
  local apt=(apt-get -q -y -o DPkg::Lock::Timeout=300)
  export DEBIAN_FRONTEND=noninteractive
  dpkg --configure -a || say "apt-get is to repair these packages"
  "${apt[@]}" update
  for name in "$@"; do
    apt-cache show "${name%%=*}" >/dev/null 2>&1 ||
      die "no package repository of this machine has ${name%%=*}: name one (package_repository), or put it into the image or the artifacts of the package"
  done
  mkdir -p "$STATE"
  printf '%s\n' "$@" >"$installing.part"
  mv -f "$installing.part" "$installing"
  "${apt[@]}" install --fix-broken --no-install-recommends -o Dpkg::Options::=--force-confold "$@"
  for name in kubeadm kubelet kubectl; do
    # Nobody but an administrator changes the version of a node.
    case " $* " in *" $name"[\ =]*) apt-mark hold "$name" ;; esac
  done
  rm -f "$installing"
}

from_artifacts() {
  [ -n "${JIBE_K8S_ARTIFACTS:-}" ] || return 0 # they are installed
  # An earlier run that has just ended, which this one waited for, has removed the folder.
  [ -d "$JIBE_K8S_ARTIFACTS" ] || [ -z "${JIBE_K8S_ARTIFACTS_DIGEST:-}" ] ||
    [ "$(cat "$STATE/artifacts" 2>/dev/null)" != "$JIBE_K8S_ARTIFACTS_DIGEST" ] || return 0
  [ -d "$JIBE_K8S_ARTIFACTS" ] || die "JIBE_K8S_ARTIFACTS: there is no folder $JIBE_K8S_ARTIFACTS"
  local all=("$JIBE_K8S_ARTIFACTS"/debs/*.deb) file
  if [ -e "${all[0]}" ]; then
    export DEBIAN_FRONTEND=noninteractive
    dpkg --install --skip-same-version --force-confold "${all[@]}"
    dpkg --configure -a # of those that a run that was cut short has unpacked
  fi
  for file in "$JIBE_K8S_ARTIFACTS"/bin/*; do
    [ ! -f "$file" ] || place "$file" /usr/local/bin
  done
  for file in "$JIBE_K8S_ARTIFACTS"/cni/*; do
    [ ! -f "$file" ] || place "$file" /opt/cni/bin
  done
  unit containerd.service "[Unit]
Description=container runtime
After=network.target
[Service]
ExecStartPre=-/sbin/modprobe overlay
ExecStart=$(command -v containerd || true)
Type=notify
Delegate=yes
KillMode=process
Restart=always
OOMScoreAdjust=-999
LimitNOFILE=infinity
TasksMax=infinity
[Install]
WantedBy=multi-user.target"
  unit kubelet.service "[Unit]
Description=kubelet
After=network-online.target
Wants=network-online.target
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=$(command -v kubelet || true) --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=$KUBELET --config=/var/lib/kubelet/config.yaml \$KUBELET_KUBEADM_ARGS \$KUBELET_EXTRA_ARGS
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target"
}

# place FILE FOLDER puts a program there, whole: it may be running.
place() {
  local to=$2/${1##*/}
  if cmp -s "$1" "$to"; then return 0; fi
  install -D -m 755 "$1" "$to.part"
  mv -f "$to.part" "$to"
}

# unit NAME TEXT makes a service of a program that came without one.
unit() {
  have "${1%.service}" || return 0
  if [ -e "/etc/systemd/system/$1" ] || [ -e "/lib/systemd/system/$1" ] || [ -e "/usr/lib/systemd/system/$1" ]; then return 0; fi
  echo "$2" >"/etc/systemd/system/$1"
  systemctl daemon-reload
}

# right_version refuses what this script doesn't know before kubeadm changes anything.
right_version() {
  local v minor
  v=$(kubeadm version -o short) || die "kubeadm doesn't tell its version"
  minor=${v#v1.}
  minor=${minor%%.*}
  case $v in v1.*.*) ;; *) die "kubeadm tells the version $v, which this script doesn't know" ;; esac
  [ "$minor" -ge "$OLDEST" ] || die "this machine has kubeadm $v, which is too old: 1.$OLDEST or newer is needed"
  case "${v#v}." in
    "${JIBE_K8S_VERSION:-1}."*) ;;
    *) die "this machine has kubeadm $v, and $JIBE_K8S_VERSION is wanted (kubernetes_version)" ;;
  esac
}

# kernel: as kubeadm and kubelets ask for it, now and after the next start.
kernel() {
  if [ "$(wc -l </proc/swaps)" -gt 1 ]; then
    swapoff -a
    sed -i -E 's/^([^#].*[[:space:]]swap[[:space:]].*)$/#\1/' /etc/fstab
  fi
  local module setting
  printf '%s\n' overlay br_netfilter >/etc/modules-load.d/jibe-kubernetes.conf
  for module in overlay br_netfilter; do
    # A kernel may have it built in; where it hasn't, the pod network says whether that matters.
    [ -d "/sys/module/$module" ] || modprobe "$module" || say "the kernel module $module can't be loaded"
  done
  : >/etc/sysctl.d/90-jibe-kubernetes.conf
  for setting in net.ipv4.ip_forward net.ipv6.conf.all.forwarding net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables; do
    [ ! -e "/proc/sys/${setting//.//}" ] || echo "$setting = 1" >>/etc/sysctl.d/90-jibe-kubernetes.conf
  done
  sysctl -q -p /etc/sysctl.d/90-jibe-kubernetes.conf
}

# runtime starts the machine's. A containerd that nobody has set up gets what kubelets need.
runtime() {
  if ! have containerd; then
    systemctl enable --now crio
    return
  fi
  local conf=/etc/containerd/config.toml pause plugins=/opt/cni/bin
  if [ -e "$STATE/containerd" ]; then
    [ -e "$plugins/loopback" ] || plugins=/usr/lib/cni
    pause=$(kubeadm config images list --kubernetes-version "$(kubeadm version -o short)" | grep /pause:)
    mkdir -p "${conf%/*}"
    containerd config default | sed -E \
      -e 's/^( *SystemdCgroup = ).*/\1true/' \
      -e "s#^( *(sandbox_image|sandbox) = ).*#\\1'$pause'#" \
      -e "s#^( *bin_dir = ).*#\\1'$plugins'#" \
      -e "s#^( *bin_dirs = ).*#\\1['$plugins']#" >"$STATE/containerd.toml"
    apply "$STATE/containerd.toml" "$conf" containerd restart
  elif grep -q '^disabled_plugins.*"cri"' "$conf" 2>/dev/null; then
    die "containerd of this machine has its interface for kubelets switched off: take \"cri\" out of disabled_plugins in $conf"
  fi
  systemctl enable --now containerd
  if cri_failed; then
    systemctl restart containerd
    if cri_failed; then die "containerd runs without its interface for kubelets, which failed as it started: its log says why"; fi
  fi
}

# cri_failed: containerd runs on without its interface for kubelets where that failed.
cri_failed() {
  [ -S /run/containerd/containerd.sock ] && have ctr || return 1
  ctr plugins list | awk '$2 == "cri" && $NF == "error" {failed = 1} END {exit !failed}'
}

# images: those of the package, so that none has to be pulled.
images() {
  local file
  for file in "${JIBE_K8S_ARTIFACTS:-/nowhere}"/images/*.tar; do
    [ ! -f "$file" ] || ctr -n k8s.io images import "$file"
  done
}

# --- the node ---

# is_member KUBECONFIG: true for a machine that has its place. One whose join ended half-way
# is none; one that had a place and lost it is never cleared: its etcd may be the last that
# has the cluster's data.
is_member() {
  [ -f "$DONE" ] || return 1
  kubectl --kubeconfig "$1" get node "$NAME" >/dev/null ||
    die "this machine joined a cluster, which doesn't answer or has no node $NAME (see above): try again, or reset the machine"
}

# prepare: all that is needed, and nothing of an attempt that ended half-way, as kubeadm
# refuses what that left.
prepare() {
  install_all
  kubeadm reset --force
  # The kubelet would else take the address that leads to the default gateway.
  local file=/etc/default/kubelet args=
  [ ! -f "$file" ] || args=$(sed -n 's/^KUBELET_EXTRA_ARGS=//p' "$file" | tail -n 1 | sed -E 's/^"(.*)"$/\1/; s/ *--node-ip=[^ ]*//')
  mkdir -p "${file%/*}"
  echo "KUBELET_EXTRA_ARGS=\"${args:+$args }--node-ip=$JIBE_K8S_NODE_ADDRESS\"" >"$file"
}

ignored() {
  [ -z "${JIBE_K8S_IGNORE_PREFLIGHT:-}" ] || echo "--ignore-preflight-errors=$JIBE_K8S_IGNORE_PREFLIGHT"
}

init() {
  need JIBE_K8S_NODE_ADDRESS
  if is_member "$ADMIN"; then
    # What it prints is the key.
    [ -z "${JIBE_K8S_CERTIFICATE_KEY:-}" ] ||
      kubeadm init phase upload-certs --upload-certs --certificate-key "$JIBE_K8S_CERTIFICATE_KEY" >/dev/null
  else
    prepare
    local args=(--apiserver-advertise-address "$JIBE_K8S_NODE_ADDRESS" --node-name "$NAME")
    args+=(--control-plane-endpoint "${JIBE_K8S_ENDPOINT:-$JIBE_K8S_NODE_ADDRESS:6443}")
    args+=(--kubernetes-version "$(kubeadm version -o short)") # else it asks the internet
    args+=(--skip-token-print --skip-certificate-key-print)    # what this prints is kept in logs
    [ -z "${JIBE_K8S_POD_CIDR:-}" ] || args+=(--pod-network-cidr "$JIBE_K8S_POD_CIDR")
    [ -z "${JIBE_K8S_SERVICE_CIDR:-}" ] || args+=(--service-cidr "$JIBE_K8S_SERVICE_CIDR")
    [ -z "${JIBE_K8S_CERT_SANS:-}" ] || args+=(--apiserver-cert-extra-sans "$JIBE_K8S_CERT_SANS")
    [ -z "${JIBE_K8S_TOKEN:-}" ] || args+=(--token "$JIBE_K8S_TOKEN")
    [ -z "${JIBE_K8S_CERTIFICATE_KEY:-}" ] || args+=(--upload-certs --certificate-key "$JIBE_K8S_CERTIFICATE_KEY")
    # shellcheck disable=SC2046 # one word, or none
    kubeadm init "${args[@]}" $(ignored)
    touch "$DONE"
  fi
  [ -z "${JIBE_K8S_CNI:-}" ] || kube apply -f "$JIBE_K8S_CNI"
}

join_master() {
  need JIBE_K8S_NODE_ADDRESS JIBE_K8S_CERTIFICATE_KEY
  join --control-plane --apiserver-advertise-address "$JIBE_K8S_NODE_ADDRESS" --certificate-key "$JIBE_K8S_CERTIFICATE_KEY"
}

join() { # join ARG...
  need JIBE_K8S_NODE_ADDRESS JIBE_K8S_ENDPOINT JIBE_K8S_CA_HASH
  if is_member "$KUBELET"; then return 0; fi
  need JIBE_K8S_TOKEN
  prepare
  # shellcheck disable=SC2046 # one word, or none
  kubeadm join "$JIBE_K8S_ENDPOINT" --token "$JIBE_K8S_TOKEN" --discovery-token-ca-cert-hash "$JIBE_K8S_CA_HASH" --node-name "$NAME" "$@" $(ignored)
  touch "$DONE"
}

reset() {
  if have kubeadm; then kubeadm reset --force; fi
  rm -rf /etc/cni/net.d "$DONE"
}

remove_member() {
  need JIBE_K8S_NODE_NAME
  [ -f "$ADMIN" ] || die "this machine is no master: it has no $ADMIN"
  # Masters with an etcd of somebody else's have no member of it.
  [ ! -f /etc/kubernetes/manifests/etcd.yaml ] || remove_etcd_member
  kube delete node "$NAME" --ignore-not-found
}

# remove_etcd_member: a worker has none, and one that is gone already needs nothing.
remove_etcd_member() {
  local etcd id own pki=/etc/kubernetes/pki/etcd
  # The node may have another name than its machine.
  own=$(sed -n 's/^ *- --name=//p' /etc/kubernetes/manifests/etcd.yaml)
  etcd=$(kube -n kube-system get pods -l component=etcd -o name --field-selector "spec.nodeName=$own")
  [ -n "$etcd" ] || die "this machine runs no etcd: run it on a master that stays"
  etcdctl() {
    kube -n kube-system exec "$etcd" -- etcdctl --endpoints https://127.0.0.1:2379 \
      --cacert "$pki/ca.crt" --cert "$pki/server.crt" --key "$pki/server.key" "$@"
  }
  id=$(etcdctl member list | awk -F', ' -v name="$NAME" '$3 == name {print $1}')
  [ -z "$id" ] || etcdctl member remove "$id"
}

# --- the balancer ---

balance() {
  need JIBE_K8S_NODE_ADDRESS JIBE_K8S_VIRTUAL_ADDRESS JIBE_K8S_BALANCER_PORT JIBE_K8S_MASTERS JIBE_K8S_ROUTER_ID JIBE_K8S_PRIORITY
  local wanted=() interface
  interface=$(ip -o address show to "$JIBE_K8S_NODE_ADDRESS" | awk '{print $2; exit}')
  [ -n "$interface" ] || die "this machine has no interface with the address $JIBE_K8S_NODE_ADDRESS"
  # What a master needs comes before what it needs for the others.
  [ -f "$DONE" ] || install_all
  have haproxy || wanted+=(haproxy)
  have keepalived || wanted+=(keepalived)
  if [ ${#wanted[@]} -gt 0 ] && airgapped; then die "the artifacts of the package have no ${wanted[*]}"; fi
  packages "${wanted[@]}"
  mkdir -p "$STATE"
  haproxy_conf >"$STATE/haproxy.cfg"
  haproxy -c -q -f "$STATE/haproxy.cfg" || die "haproxy refuses what it was to be told (see above)"
  keepalived_conf "$interface" >"$STATE/keepalived.conf"
  apply "$STATE/haproxy.cfg" /etc/haproxy/haproxy.cfg haproxy reload-or-restart
  apply "$STATE/keepalived.conf" /etc/keepalived/keepalived.conf keepalived reload-or-restart
}

# apply NEW FILE SERVICE VERB: a service whose file has changed is told, also by the next run
# where this one is cut short; another is left alone.
apply() {
  if ! cmp -s "$1" "$2" || [ -e "$1.pending" ]; then
    touch "$1.pending"
    install -D -m 644 "$1" "$2.part"
    mv -f "$2.part" "$2"
    systemctl enable "$3"
    systemctl "$4" "$3"
    rm -f "$1.pending"
  fi
  systemctl enable --now "$3"
}

haproxy_conf() {
  local bind="*:$JIBE_K8S_BALANCER_PORT" address server
  case $JIBE_K8S_VIRTUAL_ADDRESS in *:*) bind=":::$JIBE_K8S_BALANCER_PORT v4v6" ;; esac
  cat <<CONF
# Written by install_k8s_cluster.sh: what is changed here is written over.
global
$(if id -u haproxy >/dev/null 2>&1; then printf '    user haproxy\n    group haproxy'; fi)

defaults
    mode tcp
    option redispatch
    option clitcpka
    option srvtcpka
    timeout connect 5s
    timeout client 10m
    timeout server 10m

frontend kubernetes
    bind $bind
    default_backend masters

backend masters
    balance roundrobin
    option httpchk GET /readyz
    http-check expect status 200
    default-server check check-ssl verify none inter 2s fall 2 rise 2 on-marked-down shutdown-sessions
CONF
  for address in $JIBE_K8S_MASTERS; do
    server=$address
    case $address in *:*) server="[$address]" ;; esac
    echo "    server ${address//:/-} $server:6443"
  done
}

keepalived_conf() { # keepalived_conf INTERFACE
  local address
  cat <<CONF
# Written by install_k8s_cluster.sh: what is changed here is written over.
global_defs {
    script_user root
    enable_script_security
}

vrrp_script haproxy {
    script "/usr/bin/pgrep -x haproxy"
    interval 2
    fall 2
    rise 2
}

vrrp_instance kubernetes {
    state BACKUP
    nopreempt
    interface $1
    virtual_router_id $JIBE_K8S_ROUTER_ID
    priority $JIBE_K8S_PRIORITY
    advert_int 1
    unicast_src_ip $JIBE_K8S_NODE_ADDRESS
    unicast_peer {
CONF
  for address in $JIBE_K8S_MASTERS; do
    [ "$address" = "$JIBE_K8S_NODE_ADDRESS" ] || echo "        $address"
  done
  cat <<CONF
    }
    virtual_ipaddress {
        $JIBE_K8S_VIRTUAL_ADDRESS
    }
    track_script {
        haproxy
    }
}
CONF
}

main() {
  [ "$(id -u)" = 0 ] || die "root is needed"
  NAME=${JIBE_K8S_NODE_NAME:-$(hostname)}
  # kubeadm lowers it too.
  NAME=${NAME,,}
  case ${JIBE_K8S_ACTION:-} in
    install) install_all ;;
    init) init ;;
    join-master) join_master ;;
    join-worker) join ;;
    balance) balance ;;
    reset) reset ;;
    remove-member) remove_member ;;
    *) die "JIBE_K8S_ACTION is install, init, join-master, join-worker, balance, reset or remove-member" ;;
  esac
}

main "$@"
