#!/usr/bin/env bash
# demo - a walk through Jibe: a CNF is instantiated, scaled, healed, kept as git says,
# another one upgraded and a bad upgrade taken back, and both terminated, through git and
# through ETSI's API, on a real Kubernetes control plane.
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
WATCH_PID=

# shellcheck source=test/demo/common.sh
. test/demo/common.sh

finish() {
  rc=$?
  if [ "$rc" = 0 ] && [ "${KEEP:-}" = 1 ]; then keep; return; fi
  if [ -n "$WATCH_PID" ]; then kill "$WATCH_PID" 2>/dev/null || true; fi
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
  jibe ui                  # a link that opens the web page
To stop: kill $SERVER_PID${OWN_CLUSTER:+; $CONTROLPLANE wipe --dir $CLUSTER}
TXT
}

ready_pods() { # VDU, number
  local n; n=$(kube -n demo get pods -l "vnf.jibe.dev/vdu=$1" -o jsonpath='{range .items[?(@.status.phase=="Running")]}{.metadata.name}{"\n"}{end}' | grep -c .) || n=0
  [ "$n" = "$2" ]
}
# watch_object FIELD KIND NAME: begins to write down every change that the API server
# tells of, "<seconds since 1970> <type of event> <field>" a line, into $SEEN
watch_object() {
  SEEN=$DATA/watch.txt
  : >"$SEEN"
  "$KUBECTL" --kubeconfig "$KUBECONFIG" -n demo get "$2" "$3" --watch --output-watch-events \
    -o "jsonpath={.type}{' '}{.object$1}{'\n'}" 2>/dev/null > >(while read -r line; do echo "$EPOCHREALTIME $line"; done >"$SEEN") &
  WATCH_PID=$!
  wait_for 20 "$2 $3 is watched" test -s "$SEEN"
}
# put_back FORMER: whether the field was something else, or nothing, and then what is wanted
put_back() { awk -v want="$1" '{ok = $2 != "DELETED" && (want == "" ? $3 != first : $3 == want)} NR == 1 {first = $3; next} !ok {off = 1} off && ok {n++} END {exit !n}' "$SEEN"; }
# after_ms FORMER: how long it was wrong as the API server's watch saw it
after_ms() { awk -v want="$1" '{ok = $2 != "DELETED" && (want == "" ? $3 != first : $3 == want)} NR == 1 {first = $3; next} !ok && !at {at = $1} at && ok {printf "%.0f", ($1 - at) * 1000; exit}' "$SEEN"; }
unwatch() { kill "$WATCH_PID" 2>/dev/null || true; WATCH_PID=; }
pods() { kube -n demo get pods -l 'vnf.jibe.dev/vdu=VDU1' --sort-by=.metadata.name -o jsonpath='{range .items[?(@.status.phase=="Running")]}{.metadata.name} {.metadata.uid}{"\n"}{end}'; }
need git git; need curl curl
export PATH=$ROOT/bin:$PATH:/usr/local/go/bin
command -v go >/dev/null || die "Go is missing: install Go 1.26 or newer (https://go.dev/dl)"

announce
step "Building jibe"
t=$(now); make -s build; took "$t"

cluster

serve

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
hand "kubectl config view --raw --minify --flatten >$JIBE_DATA/secrets/local"
kube config view --raw --minify --flatten >"$JIBE_DATA/secrets/local"
hand "git clone $JIBE_DATA/desired.git; edit vims/local.yaml and instances/site-a/web/vnf.yaml; git push"
git clone -q "$JIBE_DATA/desired.git" "$WORK"
mkdir -p "$WORK/vims" "$WORK/instances/site-a/web"
cat >"$WORK/vims/local.yaml" <<YAML
type: kubernetes
default: true
kubeconfig: file:$JIBE_DATA/secrets/local
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
namespace demo
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

step "A bad push is refused"
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

step "Healing one pod by ETSI's API: only that one is made anew"
wait_for 60 "the instance is at rest" at_rest
pods >"$DATA/before.txt"
SICK=$(sed -n '2s/ .*//p' "$DATA/before.txt")
kube -n demo get pods -l 'vnf.jibe.dev/vdu=VDU1' | sed "s/^/   /; s/^   $SICK .*/&   <- the sick one/"
hand "jibe heal web-site-a $SICK --cause 'it answers slowly' --wait"
t=$(now)
jibe heal web-site-a "$SICK" --cause 'it answers slowly' --wait >"$DATA/heal.txt" 2>&1 || die "the heal failed: $(cat "$DATA/heal.txt")"
took "$t"
sed 's/^/   /' "$DATA/heal.txt"
pods >"$DATA/after.txt"
[ "$(wc -l <"$DATA/after.txt")" = 5 ] || die "not 5 pods after the heal"
! grep -q "^$SICK " "$DATA/after.txt" || die "$SICK was not replaced"
[ "$(sort "$DATA/before.txt" "$DATA/after.txt" | uniq -d | wc -l)" = 4 ] || die "other pods were touched"
kube -n demo get pods -l 'vnf.jibe.dev/vdu=VDU1' | awk -v known="$(cut -d' ' -f1 "$DATA/before.txt" | tr '\n' ' ')" \
  'NR > 1 && !index(known, $1) {$0 = $0 "   <- its successor"} {print "   " $0}'
note "in git it is a tombstone: that incarnation must not exist"
git -C "$WORK" pull -q --rebase
git -C "$WORK" log -1 --format='%h %s%n%n%b' | sed 's/^/   | /'

step "Somebody meddles by hand: it is put back"
hand "kubectl -n demo scale deployment/vdu1 --replicas=2"
watch_object .spec.replicas deployment vdu1
kube -n demo scale deployment/vdu1 --replicas=2 | sed 's/^/   /'
wait_for 60 "the Deployment has 5 replicas again" put_back 5
note "5 replicas again, $(after_ms 5) ms after the API server had reported 2"
unwatch
wait_for 60 "the repair has ended" at_rest # else it would repair the Service as well
hand "kubectl -n demo delete service webapp"
watch_object .metadata.uid service webapp
kube -n demo delete service webapp | sed 's/^/   /'
wait_for 60 "the Service is there again" put_back ''
note "there again, $(after_ms '') ms after the API server had reported that it was gone"
unwatch
wait_for 120 "5 pods of VDU1" ready_pods VDU1 5
wait_for 60 "the instance is at rest" at_rest
jibe get drift | grep -q 'nothing has drifted' || die "drift is left: $(jibe get drift)"
note "each repair is an operation like any other, AUTO says that nobody asked for it:"
jibe get operations >"$DATA/operations.txt"
sed 's/^/   /' "$DATA/operations.txt"
[ "$(grep -c ' HEAL .* COMPLETED .* true' "$DATA/operations.txt")" -ge 2 ] || die "the repairs are not there"

step "drift: report only shows it: what, since when, and who did it"
hand "echo 'drift: report' >> instances/site-a/web/vnf.yaml; git commit -am …; git push"
hand "kubectl -n demo set image deployment/vdu1 vdu1=registry.k8s.io/pause:3.9"
git -C "$WORK" pull -q --rebase
echo 'drift: report' >>"$WORK/instances/site-a/web/vnf.yaml"
push 'Leave site A alone for the measurements'
wait_for 60 "the instance is only reported on" sh -c 'jibe get instances | grep -q "drift reported only"'
kube -n demo set image deployment/vdu1 vdu1=registry.k8s.io/pause:3.9 | sed 's/^/   /'
wait_for 60 "the drift is seen" sh -c 'jibe get drift | grep -q "pause:3.9.* kubectl.* reported"'
jibe get drift | sed 's/^/   /'
note "and without that line it is repaired:"
sed -i '/^drift: report$/d' "$WORK/instances/site-a/web/vnf.yaml"
t=$(now)
push 'The measurements are done'
wait_for 120 "the image is that of the package" sh -c "'$KUBECTL' --kubeconfig '$KUBECONFIG' -n demo get deployment vdu1 -o jsonpath='{.spec.template.spec.containers[0].image}' | grep -q 'pause:3.10'"
took "$t"
wait_for 120 "nothing has drifted any more" sh -c 'jibe get drift | grep -q "nothing has drifted"'
wait_for 60 "the instance is at rest" at_rest

step "Scaling in by git: levels {vdu1_aspect: 0}"
git -C "$WORK" pull -q --rebase
sed -i 's/vdu1_aspect: 4/vdu1_aspect: 0/' "$WORK/instances/site-a/web/vnf.yaml"
t=$(now)
push 'Fewer web servers for the night'
wait_for 120 "1 pod of VDU1" ready_pods VDU1 1
took "$t"
wait_for 60 "the scale-in is done" sh -c 'jibe get instances | grep -q "vdu1_aspect=0"'

# shellcheck source=test/demo/upgrade.sh
. test/demo/upgrade.sh

step "What happened"
jibe get instances | sed 's/^/   /'
jibe get operations | sed 's/^/   /'

step "Terminating by git: the directories go, and so do the VNFs"
note "both are all that runs: a push that ends more than a fifth must say how many it means"
hand "git rm -r instances/site-a instances/site-b; git commit; git push -o terminate=2"
git -C "$WORK" rm -rq instances/site-a instances/site-b
t=$(now)
push 'Close both sites' -o terminate=2
wait_for 120 "no pods" ready_pods VDU1 0
wait_for 120 "the instances are gone" sh -c 'jibe get instances | grep -q "no instances"'
took "$t"
git -C "$WORK" fetch -q origin 'refs/notes/*:refs/notes/*' || true
note "the audit trail, git log --notes=jibe:"
# A note's line ends with the record that an operation is rebuilt from, which is for Jibe to read.
git -C "$WORK" log --notes=jibe --format='%h %an: %s%n%N' | sed -E '/^$/d; s/ of \{.*/ …/; s/ seal [0-9a-f]+$//; s/^/   | /'

step "Done"
[ "${KEEP:-}" = 1 ] || note "nothing was left running (KEEP=1 make demo leaves it); the data are in $DATA"
