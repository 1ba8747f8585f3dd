#!/usr/bin/env bash
# demo - a walk through Jibe: a CNF is instantiated, scaled and terminated through git
# and through ETSI's API, on a real Kubernetes control plane.
#
#   make demo            uses KUBECONFIG's cluster if it is set, else builds and starts a
#                        local control plane (the first build takes about 8 minutes)
#   KEEP=1 make demo     leaves everything running at the end and says how to go on
#
# Everything is kept under DEMO_DATA (default: demo-data in the project's folder).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ROOT=$PWD
DATA=${DEMO_DATA:-$ROOT/demo-data}
CONTROLPLANE=$ROOT/test/controlplane/controlplane
CLUSTER=$DATA/cluster
OWN_CLUSTER=
SERVER_PID=

if [ -t 1 ]; then BOLD=$'\e[1m' DIM=$'\e[2m' OFF=$'\e[0m'; else BOLD='' DIM='' OFF=''; fi
step() { printf '\n%s== %s%s\n' "$BOLD" "$*" "$OFF"; }
hand() { printf '%s   by hand: %s%s\n' "$DIM" "$*" "$OFF"; }
note() { printf '   %s\n' "$*"; }
now() { date +%s%N; }
took() { awk -v a="$1" -v b="$(now)" 'BEGIN {printf "   done in %.2f s\n", (b - a) / 1e9}'; }
die() { printf 'demo: %s\n' "$*" >&2; [ ! -s "$DATA/serve.log" ] || { echo "the end of $DATA/serve.log:" >&2; tail -n 20 "$DATA/serve.log" >&2; }; exit 1; }

finish() {
  rc=$?
  if [ "$rc" = 0 ] && [ "${KEEP:-}" = 1 ]; then keep; return; fi
  if [ -n "$SERVER_PID" ]; then kill "$SERVER_PID" 2>/dev/null && wait "$SERVER_PID" 2>/dev/null || true; fi
  if [ -n "$OWN_CLUSTER" ]; then "$CONTROLPLANE" stop --dir "$CLUSTER" >/dev/null 2>&1 || true; fi
  exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT TERM

keep() {
  disown -a
  cat <<TXT

Left running (KEEP=1). To go on:
  export KUBECONFIG=$KUBECONFIG JIBE_SERVER=$JIBE_SERVER JIBE_DATA=$JIBE_DATA PATH=$PATH
  cd $WORK                 # a clone of the desired repository
  jibe get instances       # and: jibe get operations --watch, jibe plan
To stop: kill $SERVER_PID${OWN_CLUSTER:+; $CONTROLPLANE wipe --dir $CLUSTER}
TXT
}

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
kube() { "$KUBECTL" --kubeconfig "$KUBECONFIG" "$@"; }
ready_pods() { # VDU, number
  local n; n=$(kube -n demo get pods -l "vnf.jibe.dev/vdu=$1" -o jsonpath='{range .items[?(@.status.phase=="Running")]}{.metadata.name}{"\n"}{end}' | grep -c .) || n=0
  [ "$n" = "$2" ]
}
api() { # METHOD PATH [BODY]: prints status, Location and body
  local body=(); [ $# -lt 3 ] || body=(-H 'Content-Type: application/json' -d "$3")
  curl -sS -X "$1" -H "Authorization: Bearer $TOKEN" -H 'Version: 2.0.0' "${body[@]}" -w '\n%{http_code} %header{location}\n' "$JIBE_SERVER$2"
}
await_state() { # LOCATION STATE
  local until=$((SECONDS + 120)) body
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
push() { # MESSAGE
  git -C "$WORK" add -A
  git -C "$WORK" commit -qm "$1"
  git -C "$WORK" push -q 2>&1 | sed 's/^/   /'
}

need git git; need curl curl
export PATH=$ROOT/bin:$PATH:/usr/local/go/bin
command -v go >/dev/null || die "Go is missing: install Go 1.26 or newer (https://go.dev/dl)"

step "Building jibe"
t=$(now); make -s build; took "$t"

if [ -n "${KUBECONFIG:-}" ]; then
  step "Using the cluster of KUBECONFIG=$KUBECONFIG"
  command -v kubectl >/dev/null || need kubectl kubernetes-client
  KUBECTL=kubectl
else
  step "Starting a real control plane (etcd, kube-apiserver, controller-manager, scheduler; kwok plays the nodes)"
  t=$(now)
  OWN_CLUSTER=1
  KUBECONFIG=$("$CONTROLPLANE" start --dir "$CLUSTER")
  export KUBECONFIG
  KUBECTL=$("$CONTROLPLANE" path)/kubectl
  took "$t"
fi
PATH=$(dirname "$(command -v "$KUBECTL")"):$PATH

step "Starting jibe on a new data directory"
rm -rf "$DATA/jibe" "$DATA/work" "$DATA/packages" "$DATA/serve.log"
mkdir -p "$DATA"
export JIBE_DATA=$DATA/jibe
hand "jibe serve --data $JIBE_DATA"
t=$(now)
jibe serve --data "$JIBE_DATA" --listen 127.0.0.1:0 >"$DATA/serve.out" 2>"$DATA/serve.log" &
SERVER_PID=$!
wait_for 30 "jibe serves" grep -q '^jibe .* serves ' "$DATA/serve.out"
JIBE_SERVER=$(sed -n 's/^jibe .* serves //p' "$DATA/serve.out")
export JIBE_SERVER
TOKEN=$(sed -n 's/.*token: *//p' "$JIBE_DATA/tokens.yaml")
sed 's/^/   /' "$DATA/serve.out"
took "$t"

export GIT_AUTHOR_NAME=Demo GIT_AUTHOR_EMAIL=demo@example.com GIT_COMMITTER_NAME=Demo GIT_COMMITTER_EMAIL=demo@example.com
step "Putting a VNF package into the package repository"
hand "git clone $JIBE_DATA/packages/packages.git; cp -r examples/packages/webapp .; git push"
t=$(now)
git clone -q "$JIBE_DATA/packages/packages.git" "$DATA/packages" 2>/dev/null
cp -r examples/packages/webapp "$DATA/packages/"
jibe package validate "$DATA/packages/webapp" | sed 's/^/   /'
git -C "$DATA/packages" add -A
git -C "$DATA/packages" commit -qm 'Add the web application'
git -C "$DATA/packages" push -q origin HEAD:main
wait_for 20 "the package is known" sh -c 'jibe get packages | grep -q webapp'
jibe get packages | sed 's/^/   /'
took "$t"
VNFD=$(jibe get packages -o json | sed -n 's/.*"vnfdId": "\(.*\)".*/\1/p' | head -1)

step "Committing an instance: git says what should run, and it runs"
WORK=$DATA/work
hand "git clone $JIBE_DATA/desired.git; edit vims/local.yaml and instances/site-a/web/vnf.yaml; git push"
git clone -q "$JIBE_DATA/desired.git" "$WORK"
mkdir -p "$WORK/vims" "$WORK/instances/site-a/web"
cat >"$WORK/vims/local.yaml" <<YAML
type: kubernetes
default: true
kubeconfig: file:$KUBECONFIG
YAML
cat >"$WORK/instances/site-a/web/vnf.yaml" <<YAML
name: web-site-a
vnfdId: $VNFD
state: instantiated
flavour: simple
levels: {vdu1_aspect: 1}      # absolute scale levels
params:
  namespace: demo
YAML
kube create namespace demo >/dev/null 2>&1 || true
sed 's/^/   | /' "$WORK/instances/site-a/web/vnf.yaml"
jibe validate "$WORK" | sed 's/^/   /'
note "jibe plan says what the push will do:"
jibe plan "$WORK" | sed 's/^/   /' || [ "${PIPESTATUS[0]}" = 2 ]
t=$(now)
push 'Run the web application at site A'
wait_for 120 "2 pods of VDU1" ready_pods VDU1 2
took "$t"
kube -n demo get pods | sed 's/^/   /'

step "Scaling by git: levels {vdu1_aspect: 3}"
hand "sed -i 's/vdu1_aspect: 1/vdu1_aspect: 3/' instances/site-a/web/vnf.yaml; git commit -am …; git push"
git -C "$WORK" pull -q --rebase
sed -i 's/vdu1_aspect: 1/vdu1_aspect: 3/' "$WORK/instances/site-a/web/vnf.yaml"
t=$(now)
push 'More web servers for the evening'
wait_for 120 "4 pods of VDU1" ready_pods VDU1 4
took "$t"

step "A bad push is refused at the door"
sed -i 's/vdu1_aspect: 3/vdu1_aspect: 99/' "$WORK/instances/site-a/web/vnf.yaml"
git -C "$WORK" commit -qam 'Far too many'
if git -C "$WORK" push -q >"$DATA/refused.txt" 2>&1; then die "the bad push was accepted"; fi
grep -v '^error\|^To ' "$DATA/refused.txt" | sed 's/^/   /'
git -C "$WORK" reset -q --hard origin/main

step "Scaling by ETSI's API (SOL003): SCALE_OUT by 1"
wait_for 60 "the instance is at rest" sh -c 'jibe get instances | grep -q "vdu1_aspect=3"'
ID=$(jibe get instances -o json | sed -n 's/^    "id": "\(.*\)",*$/\1/p' | head -1)
[ -n "$ID" ] || die "no instance id"
hand "curl -X POST -H 'Authorization: Bearer …' -H 'Version: 2.0.0' $JIBE_SERVER/vnflcm/v2/vnf_instances/$ID/scale -d '{\"type\": \"SCALE_OUT\", \"aspectId\": \"vdu1_aspect\"}'"
t=$(now)
ANSWER=$(api POST "/vnflcm/v2/vnf_instances/$ID/scale" '{"type": "SCALE_OUT", "aspectId": "vdu1_aspect", "numberOfSteps": 1}')
case $ANSWER in *"202 "*) ;; *) die "scale was not accepted: $ANSWER" ;; esac
await_state "${ANSWER##* }" COMPLETED
ready_pods VDU1 5 || die "not 5 pods"
took "$t"
note "and git has the commit:"
git -C "$WORK" pull -q --rebase
git -C "$WORK" log -1 --format='%h %s%n%n%b' | sed 's/^/   | /'
grep vdu1_aspect "$WORK/instances/site-a/web/vnf.yaml" | sed 's/^/   | /'

step "Scaling in by git: levels {vdu1_aspect: 0}"
sed -i 's/vdu1_aspect: 4/vdu1_aspect: 0/' "$WORK/instances/site-a/web/vnf.yaml"
t=$(now)
push 'Fewer web servers for the night'
wait_for 120 "1 pod of VDU1" ready_pods VDU1 1
took "$t"

step "What happened"
wait_for 60 "the scale-in is done" sh -c 'jibe get instances | grep -q "vdu1_aspect=0"'
jibe get instances | sed 's/^/   /'
jibe get operations | sed 's/^/   /'

step "Terminating by git: the directory goes, and so does the VNF"
hand "git rm -r instances/site-a/web; git commit; git push"
git -C "$WORK" rm -rq instances/site-a/web
t=$(now)
push 'Close site A'
wait_for 120 "no pods" ready_pods VDU1 0
wait_for 120 "the instance is gone" sh -c 'jibe get instances | grep -q "no instances"'
took "$t"
git -C "$WORK" fetch -q origin 'refs/notes/*:refs/notes/*' || true
note "the audit trail, git log --notes=jibe:"
git -C "$WORK" log --notes=jibe --format='%h %an: %s%n%N' | sed '/^$/d; s/^/   | /'

step "Done"
[ "${KEEP:-}" = 1 ] || note "nothing was left running (KEEP=1 make demo leaves it); the data are in $DATA"
