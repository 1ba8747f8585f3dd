# shellcheck shell=bash disable=SC2154 # read by the demos, which set what is used here
# What all demos use: how they speak, wait, and talk to Jibe.

if [ -t 1 ]; then BOLD=$'\e[1m' DIM=$'\e[2m' OFF=$'\e[0m'; else BOLD='' DIM='' OFF=''; fi
step() { printf '\n%s== %s%s\n' "$BOLD" "$*" "$OFF"; }
hand() { printf '%s   by hand: %s%s\n' "$DIM" "$*" "$OFF"; }
note() { printf '   %s\n' "$*"; }
now() { date +%s%N; }
took() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "   done in %.2f s\n", (b - a) / 1e9}'; }
die() { printf 'demo: %s\n' "$*" >&2; [ ! -s "$DATA/serve.log" ] || { echo "the end of $DATA/serve.log:" >&2; tail -n 20 "$DATA/serve.log" >&2; }; exit 1; }

need() { command -v "$1" >/dev/null && return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing $2 (apt-get)"; apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$2" >/dev/null && return 0
  fi
  die "the command $1 is missing (Debian: apt-get install $2)"; }

# wait_for SECONDS WHAT COMMAND...: until the command succeeds
wait_for() {
  local until=$((SECONDS + $1)) what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$until" ] || die "never: $what"
    sleep 0.05
  done
}
api() { # METHOD PATH [BODY]: prints status, Location and body
  local body=(); [ $# -lt 3 ] || body=(-H 'Content-Type: application/json' -d "$3")
  curl -sS -X "$1" -H "Authorization: Bearer $TOKEN" -H 'Version: 2.0.0' "${body[@]}" -w '\n%{http_code} %header{location}\n' "$JIBE_SERVER$2"
}
await_state() { # LOCATION STATE
  local until=$((SECONDS + ${PATIENCE:-120})) body
  while :; do
    body=$(curl -sS -H "Authorization: Bearer $TOKEN" -H 'Version: 2.0.0' "$1")
    case $body in
      *"\"operationState\":\"$2\""*) return 0 ;;
      *'"operationState":"FAILED_TEMP"'* | *'"operationState":"ROLLED_BACK"'*) die "the operation failed: $body" ;;
    esac
    [ "$SECONDS" -lt "$until" ] || die "the operation never became $2: $body"
    sleep 0.05
  done
}
at_rest() { ! jibe get operations -o json | grep -E '"operationState": "(STARTING|PROCESSING|ROLLING_BACK|FAILED_TEMP)"'; }
push() { # MESSAGE [OPTION OF GIT PUSH…]
  git -C "$WORK" add -A
  git -C "$WORK" commit -qm "$1"
  shift
  git -C "$WORK" push -q "$@" 2>&1 | sed 's/^/   /'
}

# announce tells how long the first demo takes, where the control plane isn't built yet. Tests use the same build.
announce() {
  [ -z "${KUBECONFIG:-}" ] && ! "$CONTROLPLANE" cached >/dev/null || return 0
  note "The first time, a control plane is built from source: this demo takes about 11 minutes on two"
  note "processors, and 1 to 2 from then on (make test-all uses the same build)."
  note "In a hurry? make try shows Jibe on a simulated VIM, seconds after it is compiled."
}

# end_former ends the jibe that a former demo left running (KEEP=1): its data go.
end_former() {
  local pid
  pid=$(cat "$DATA/serve.pid" 2>/dev/null) || return 0
  if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF " serve --data $DATA/jibe "; then
    note "ending the jibe of the last demo, process $pid, which was left running"
    kill "$pid" 2>/dev/null || true
    wait_for 30 "process $pid has ended" sh -c "! kill -0 $pid"
  fi
  rm -f "$DATA/serve.pid"
}

# cluster uses that of KUBECONFIG, or starts an empty one in $CLUSTER: KUBECONFIG, KUBECTL, and OWN_CLUSTER where it is ours.
cluster() {
  end_former
  if [ -n "${KUBECONFIG:-}" ]; then
    step "Using the cluster of KUBECONFIG=$KUBECONFIG"
    command -v kubectl >/dev/null || need kubectl kubernetes-client
    KUBECTL=kubectl
  else
    step "Starting a real control plane (etcd, kube-apiserver, controller-manager, scheduler; kwok plays the nodes)"
    t=$(now)
    # shellcheck disable=SC2034 # read by the demos
    OWN_CLUSTER=1
    "$CONTROLPLANE" wipe --dir "$CLUSTER" >/dev/null 2>&1 || die "what the last demo left in $CLUSTER can't be removed" # Jibe's data are new, too
    KUBECONFIG=$("$CONTROLPLANE" start --dir "$CLUSTER")
    export KUBECONFIG
    KUBECTL=$("$CONTROLPLANE" path)/kubectl
    took "$t"
  fi
  PATH=$(dirname "$(command -v "$KUBECTL")"):$PATH
}
kube() { "$KUBECTL" --kubeconfig "$KUBECONFIG" "$@"; }

# namespace makes an empty one. One that a former demo made goes with all that is in it; any other is left alone.
namespace() { # NAME
  local made
  if made=$(kube get namespace "$1" -o 'jsonpath=made by {.metadata.labels.jibe-demo}' 2>/dev/null); then
    [ "$made" = 'made by make' ] || die "the cluster has a namespace $1 that no demo made: use another cluster, or, if nothing in it is needed, kubectl delete namespace $1"
    note "removing namespace $1, which the last demo left"
    kube delete namespace "$1" --timeout 120s >/dev/null || die "namespace $1 of the last demo doesn't go"
  fi
  kube create namespace "$1" >/dev/null || die "namespace $1 can't be made"
  kube label namespace "$1" jibe-demo=make >/dev/null
}

# serve starts Jibe on a new data directory: SERVER_PID, JIBE_SERVER, JIBE_DATA, TOKEN.
serve() {
  step "Starting jibe on a new data directory"
  end_former
  rm -rf "$DATA/jibe" "$DATA/work" "$DATA/packages" "$DATA/serve.log" "$DATA/serve.out"
  mkdir -p "$DATA"
  export JIBE_DATA=$DATA/jibe
  hand "jibe serve --data $JIBE_DATA --allow-hooks=packages --egress-allow 127.0.0.0/8"
  t=$(now)
  jibe serve --data "$JIBE_DATA" --allow-hooks=packages --egress-allow 127.0.0.0/8 --listen 127.0.0.1:0 >"$DATA/serve.out" 2>"$DATA/serve.log" &
  SERVER_PID=$!
  echo "$SERVER_PID" >"$DATA/serve.pid"
  wait_for 30 "jibe serves" grep -q '^jibe .* serves ' "$DATA/serve.out"
  JIBE_SERVER=$(sed -n 's/^jibe .* serves //p' "$DATA/serve.out")
  export JIBE_SERVER
  TOKEN=$(sed -n 's/.*token: *//p' "$JIBE_DATA/tokens.yaml")
  sed 's/^/   /' "$DATA/serve.out"
  took "$t"
}

export GIT_AUTHOR_NAME=Demo GIT_AUTHOR_EMAIL=demo@example.com GIT_COMMITTER_NAME=Demo GIT_COMMITTER_EMAIL=demo@example.com
