# shellcheck shell=bash disable=SC2154 # read by the demos with virtual machines, which set what is used here
# What the demos with virtual machines share: a cloud, hosts that follow its servers, and
# how they are looked at.

OPENSTACK=$ROOT/test/openstack/openstack
CLOUD_DIR=$DATA/openstack
OWN_CLOUD=
SERVER_PID=
FOLLOW_PID=
PATIENCE=900
SUBNET=10.10.0.0/16

# keep: what is left running, and LOOK, which is a command more to look at it
keep() {
  disown -a
  cat <<TXT

Left running (KEEP=1). To go on:
  export OS_CLIENT_CONFIG_FILE=$OS_CLIENT_CONFIG_FILE OS_CLOUD=$OS_CLOUD JIBE_SERVER=$JIBE_SERVER JIBE_DATA=$JIBE_DATA PATH=$PATH
  cd $WORK                 # a clone of the desired repository
  jibe get instances       # and: $LOOK
To stop: kill $SERVER_PID $FOLLOW_PID${OWN_CLOUD:+; $OPENSTACK wipe --dir $CLOUD_DIR}
TXT
}

finish() {
  rc=$?
  if [ "$rc" = 0 ] && [ "${KEEP:-}" = 1 ]; then keep; return; fi
  for pid in $SERVER_PID $FOLLOW_PID; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
  if [ -n "$OWN_CLOUD" ]; then "$OPENSTACK" stop --dir "$CLOUD_DIR" >/dev/null 2>&1 || true; fi
  exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT TERM

# begin: what is needed is there, and built
begin() {
  need git git; need curl curl
  export PATH=$ROOT/bin:$PATH:/usr/local/go/bin
  command -v go >/dev/null || die "Go is missing: install Go 1.26 or newer (https://go.dev/dl)"
  [ "$(id -u)" = 0 ] || die "hosts in network namespaces need root: run this as root"
  step "Building jibe"
  t=$(now); make -s build; go build -o "$ROOT/.cache/follow" ./test/netns/follow; took "$t"
  mkdir -p "$DATA"
}

# cloud: OS_CLOUD and OS_CLIENT_CONFIG_FILE lead to one
cloud() {
  if [ -n "${OS_CLOUD:-}" ]; then
    step "Using the cloud $OS_CLOUD"
    export OS_CLIENT_CONFIG_FILE=${OS_CLIENT_CONFIG_FILE:-$HOME/.config/openstack/clouds.yaml}
  else
    step "Starting a real OpenStack (Keystone, Heat, Nova, Neutron, Glance, Cinder; Nova's fake plays the hypervisor)"
    t=$(now)
    OWN_CLOUD=1
    # The last one's data go: what it left is nobody's.
    "$OPENSTACK" wipe --dir "$CLOUD_DIR" 2>/dev/null
    OS_CLIENT_CONFIG_FILE=$("$OPENSTACK" start --dir "$CLOUD_DIR")
    export OS_CLIENT_CONFIG_FILE OS_CLOUD=jibe
    took "$t"
  fi
}

# follow WHAT ARG...: hosts follow the cloud's servers
follow() {
  step "Hosts follow the servers: $1"; shift
  "$ROOT/.cache/follow" -cloud "$OS_CLOUD" -subnet "$SUBNET" "$@" 2>"$DATA/follow.log" &
  FOLLOW_PID=$!
  wait_for 120 "hosts follow the servers" sh -c "grep -q 'msg=following' '$DATA/follow.log'"
}

# publish PACKAGE...: into the package repository; one of the examples, or a folder
publish() {
  hand "git clone $JIBE_DATA/packages/packages.git; cp -r examples/packages/${1##*/} …; git push"
  git clone -q "$JIBE_DATA/packages/packages.git" "$DATA/packages" 2>/dev/null
  local p
  for p in "$@"; do
    case $p in /*) cp -r "$p" "$DATA/packages/" ;; *) cp -r "examples/packages/$p" "$DATA/packages/" ;; esac
  done
  git -C "$DATA/packages" add -A
  git -C "$DATA/packages" commit -qm 'Add packages'
  git -C "$DATA/packages" push -q origin HEAD:main
  wait_for 60 "the packages are known" sh -c "[ \$(jibe get packages | grep -c ' packages ') = $# ]"
  jibe get packages | sed 's/^/   /'
}

# desired: a clone of the desired repository with the VIM openstack-a
desired() {
  WORK=$DATA/work
  git clone -q "$JIBE_DATA/desired.git" "$WORK"
  mkdir -p "$WORK/vims" "$WORK/projects"
  printf 'secrets: ["file:%s/secrets/"]\n' "$JIBE_DATA" >"$WORK/projects/default.yaml"
  cp "$OS_CLIENT_CONFIG_FILE" "$JIBE_DATA/secrets/clouds.yaml"
  printf 'type: openstack\nclouds: file:%s\ncloud: %s\n' "$JIBE_DATA/secrets/clouds.yaml" "$OS_CLOUD" >"$WORK/vims/openstack-a.yaml"
  sed -i 's/^- name: packages$/&\n  hooks: true/' "$WORK/repositories.yaml"
}

os() { /usr/bin/openstack "$@"; }
# servers: those of one VNF, as Nova has them
servers() { os server list -f value -c ID -c Status -c Image -c Networks --sort-column ID; }
shows() { # NUMBER
  servers >"$DATA/servers.txt"
  sed 's/^/   | /' "$DATA/servers.txt"
  [ "$(grep -c ' ACTIVE ' "$DATA/servers.txt")" = "$1" ] || die "not $1 servers"
}
# ops TYPE STATE: how many such operations there are
ops() { jibe get operations --limit 0 | grep -c " $1 .* $2" || true; }
# await_op TYPE STATE NUMBER: until so many such operations are there
await_op() {
  local until=$((SECONDS + PATIENCE))
  until [ "$(ops "$1" "$2")" -ge "$3" ]; do
    if [ "$2" != FAILED_TEMP ] && jibe get operations | grep -q ' FAILED_TEMP'; then die "an operation failed: $(jibe get operations -o json | grep '"detail"')"; fi
    [ "$SECONDS" -lt "$until" ] || die "no $1 became $2"
    sleep 0.2
  done
}
# ask PATH BODY: a request for the instance $ID, whose operation is waited for
ask() {
  local answer
  answer=$(api POST "/vnflcm/v2/vnf_instances/$ID/$1" "$2")
  case $answer in *"202 "*) ;; *) die "$1 was not accepted: $answer" ;; esac
  LOCATION=${answer##* }
  await_state "$LOCATION" "${3:-COMPLETED}"
}
id_of() { jibe get instances -o wide | awk -v name="$1" '$3 == name {print $1}'; } # NAME
edit() { git -C "$WORK" pull -q --rebase; sed -i "$1" "$2"; }
