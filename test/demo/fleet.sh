#!/usr/bin/env bash
# fleet - a walk through a fleet that is changed by pull requests: 300 sites on a simulator
# and three on a real Kubernetes control plane, their desired repository on a real forge
# (Gitea). An upgrade is proposed, shown with its effect, merged, carried out wave by wave,
# approved, halted by failures, rolled back at one site and taken up again; a change that fails takes back by itself what
# it did; a site's mistake is put right by the next commit, and a freeze keeps everything as it is.
#
#   make demo-fleet            uses KUBECONFIG's cluster if it is set, else builds and starts a
#                              local control plane; the first time Gitea is built, too
#   SITES=3000 make demo-fleet with more sites
#   KEEP=1 make demo-fleet     leaves everything running at the end and says how to go on
#
# Everything is kept under DEMO_DATA (default: demo-data in the project's folder).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ROOT=$PWD
DATA=${DEMO_DATA:-$ROOT/demo-data}
SITES=${SITES:-300}
CONTROLPLANE=$ROOT/test/controlplane/controlplane
FORGE=$ROOT/test/forge/forge
CLUSTER=$DATA/cluster
OWN_CLUSTER=
SERVER_PID=
REAL=3 # sites on the cluster

# shellcheck source=test/demo/common.sh
. test/demo/common.sh

finish() {
  rc=$?
  if [ "$rc" = 0 ] && [ "${KEEP:-}" = 1 ]; then keep; return; fi
  if [ -n "$SERVER_PID" ]; then kill "$SERVER_PID" 2>/dev/null && wait "$SERVER_PID" 2>/dev/null || true; fi
  "$FORGE" stop --dir "$DATA/forge" >/dev/null 2>&1 || true
  leave_cluster
  exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT TERM

# leave_cluster: what the sites have made there goes
leave_cluster() {
  if [ -n "$OWN_CLUSTER" ]; then
    "$CONTROLPLANE" wipe --dir "$CLUSTER" >/dev/null 2>&1 || true
  elif [ -n "${KUBECTL:-}" ]; then
    for n in $(seq "$REAL"); do kube delete namespace "fleet-$n" --ignore-not-found --wait=false >/dev/null 2>&1 || true; done
  fi
}
keep() {
  disown -a
  cat <<TXT

Left running (KEEP=1). To go on:
  export KUBECONFIG=$KUBECONFIG JIBE_SERVER=$JIBE_SERVER JIBE_DATA=$JIBE_DATA PATH=$PATH
  cd $WORK                 # a clone of the desired repository, which is on the forge: $REPO
  jibe get rollouts        # and: jibe get instances, jibe get operations --watch
  jibe ui                  # a link that opens the web page
To stop: kill $SERVER_PID; $FORGE wipe --dir $DATA/forge${OWN_CLUSTER:+; $CONTROLPLANE wipe --dir $CLUSTER}
TXT
}

# gitea METHOD PATH [BODY]: asks the forge's API
gitea() {
  local body=(); [ $# -lt 3 ] || body=(-H 'Content-Type: application/json' -d "$3")
  curl -sSf -X "$1" -H "Authorization: token $JIBE_TEST_GITEA_TOKEN" "${body[@]}" "$JIBE_TEST_GITEA_URL/api/v1$2"
}
field() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)"; }
# propose BRANCH TITLE: pushes the branch and opens a pull request: PR is its number
propose() {
  git -C "$WORK" push -q origin "$1" 2>/dev/null
  PR=$(gitea POST "/repos/jibe/vnfs/pulls" "{\"head\": \"$1\", \"base\": \"main\", \"title\": \"$2\"}" | field '["number"]')
  note "pull request $PR: $2"
}
merge() { # PR: as the forge's button does
  wait_for 30 "pull request $1 can be merged" mergeable "$1"
  gitea POST "/repos/jibe/vnfs/pulls/$1/merge" '{"Do": "merge"}' >/dev/null
  git -C "$WORK" switch -q main
  git -C "$WORK" pull -q --rebase
}
mergeable() { [ "$(gitea GET "/repos/jibe/vnfs/pulls/$1" | field '["mergeable"]')" = True ]; }
commit() { git -C "$WORK" add -A && git -C "$WORK" commit -qm "$1"; }
# land MESSAGE: what a person does who can't wait for a review; others may have been quicker
land() {
  commit "$1"
  until git -C "$WORK" push -q origin main 2>/dev/null; do git -C "$WORK" pull -q --rebase; done
}
phase() { jibe get rollouts -o json | python3 -c "
import json, sys
print(next((r['phase'] for r in json.load(sys.stdin) if r['name'] == '$1'), 'unknown'))"; }
is_phase() { [[ $(phase "$1") =~ ^($2)$ ]]; }
# follow ROLLOUT PHASES: shows how it goes until it is in one of the phases (a regular expression)
follow() {
  local until=$((SECONDS + 300 + SITES)) last='' line
  while :; do
    line=$(jibe get rollouts | awk -v name="$1" 'NR == 1 {head = $0} $1 == name {print head; print}')
    [ "$line" = "$last" ] || printf '%s\n' "$line" | if [ -z "$last" ]; then sed 's/^/   /'; else sed -n '2s/^/   /p'; fi
    last=$line
    if is_phase "$1" "$2"; then return 0; fi
    [ "$SECONDS" -lt "$until" ] || die "rollout $1 never became $2: $(jibe get rollouts -o wide)"
    sleep 1
  done
}
running() { # VERSION'S VNFD: how many sites run it
  jibe get instances -o json | python3 -c "
import json, sys
print(sum(i['vnfdId'] == '$1' and i['instantiationState'] == 'INSTANTIATED' for i in json.load(sys.stdin)))"
}
runs() { [ "$(running "$1")" = "$2" ]; }

need git git; need curl curl; need python3 python3
export PATH=$ROOT/bin:$PATH:/usr/local/go/bin
command -v go >/dev/null || die "Go is missing: install Go 1.26 or newer (https://go.dev/dl)"
V1=3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b10
V2=3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b11

step "Building jibe"
t=$(now); make -s build; took "$t"

cluster

step "Starting a real forge (Gitea), with an empty repository for the network's desired state"
t=$(now)
mkdir -p "$DATA"
"$FORGE" wipe --dir "$DATA/forge" >/dev/null 2>&1 || true
ENV=$("$FORGE" start --dir "$DATA/forge" 2>/dev/null) || die "the forge didn't start: $FORGE start --dir $DATA/forge says why"
# shellcheck disable=SC1090 # the forge has just written it
. "$ENV"
gitea POST /user/repos '{"name": "vnfs", "default_branch": "main", "auto_init": true, "private": true}' >/dev/null
REPO=$JIBE_TEST_GITEA_URL/jibe/vnfs.git
end_former
rm -rf "$DATA/jibe" "$DATA/work" "$DATA/home" "$DATA/serve.log" "$DATA/serve.out"
mkdir -p "$DATA/home" "$DATA/secrets"
printf '[http "%s"]\n\textraHeader = Authorization: Basic %s\n' "$JIBE_TEST_GITEA_URL" "$(printf 'jibe:%s' "$JIBE_TEST_GITEA_TOKEN" | base64 -w0)" >"$DATA/home/gitconfig"
export GIT_CONFIG_GLOBAL=$DATA/home/gitconfig
took "$t"

step "The network: $SITES sites on a simulator, $REAL on the cluster, all on version 1.0"
WORK=$DATA/work
git clone -q "$REPO" "$WORK"
mkdir -p "$WORK/vims" "$WORK/instances"
kube config view --raw --minify --flatten >"$DATA/secrets/lab"
printf 'type: sim\ndefault: true\n' >"$WORK/vims/sim.yaml"
printf 'type: kubernetes\nkubeconfig: file:%s\n' "$DATA/secrets/lab" >"$WORK/vims/lab.yaml"
printf -- '- name: packages\n  url: packages.git\n  branch: main\n' >"$WORK/repositories.yaml"
site() { # FOLDER VIM NAMESPACE
  mkdir -p "$WORK/instances/$1"
  printf 'name: %s\nvnfdId: %s\nstate: instantiated\nflavour: simple\nvim: %s\nparams: {namespace: %s}\n' "${1//\//-}" "$V1" "$2" "$3" >"$WORK/instances/$1/vnf.yaml"
}
for n in $(seq -w "$SITES"); do
  city=tokyo; [ $((10#$n % 3)) != 0 ] || city=osaka
  site "$city/s$n/web" sim "s$n"
done
for n in $(seq "$REAL"); do
  namespace "fleet-$n"
  site "lab/r$n/web" lab "fleet-$n"
done
commit "The network, on version 1.0"
git -C "$WORK" push -q origin main 2>/dev/null

step "Starting jibe on it"
export JIBE_DATA=$DATA/jibe
openssl rand -hex 20 >"$DATA/secrets/webhook"
printf '%s\n' "$JIBE_TEST_GITEA_TOKEN" >"$DATA/secrets/forge"
hand "jibe serve --data $JIBE_DATA --remote $REPO --webhook-secret file:$DATA/secrets/webhook --forge gitea --forge-token file:$DATA/secrets/forge"
t=$(now)
jibe serve --data "$JIBE_DATA" --remote "$REPO" --webhook-secret "file:$DATA/secrets/webhook" --forge gitea --forge-token "file:$DATA/secrets/forge" --secret-dir "$DATA/secrets" --egress-allow 127.0.0.0/8 --listen 127.0.0.1:0 >"$DATA/serve.out" 2>"$DATA/serve.log" &
SERVER_PID=$!
echo "$SERVER_PID" >"$DATA/serve.pid"
wait_for 60 "jibe serves" grep -q '^jibe .* serves ' "$DATA/serve.out"
JIBE_SERVER=$(sed -n 's/^jibe .* serves //p' "$DATA/serve.out")
export JIBE_SERVER
TOKEN=$(sed -n 's/.*token: *//p' "$JIBE_DATA/tokens.yaml")
gitea POST /repos/jibe/vnfs/hooks "{\"type\": \"gitea\", \"active\": true, \"events\": [\"push\", \"pull_request\"],
  \"config\": {\"url\": \"$JIBE_SERVER/webhook\", \"content_type\": \"json\", \"secret\": \"$(cat "$DATA/secrets/webhook")\"}}" >/dev/null
for version in 1.0 1.1; do jibe package add "examples/packages/rolling-$version" | sed 's/^/   /'; done
wait_for $((120 + SITES)) "all sites run version 1.0" runs "$V1" $((SITES + REAL))
took "$t"
note "$(running "$V1") sites run"

step "An upgrade of all of them, as a pull request of one file"
git -C "$WORK" pull -q --rebase
git -C "$WORK" switch -q -c upgrade
mkdir -p "$WORK/rollouts"
cat >"$WORK/rollouts/web-1.1.yaml" <<YAML
# Version 1.1 for the whole network: the lab first, then a twentieth, then everybody
select: {folders: [instances/**], product: rolling}
to: {vnfdId: $V2}
order: [{instances: [instances/lab/r1/web]}, {percent: 5}, {percent: 100}]
atOnce: 40
after: {soak: 2s, approve: true}
failures: {budget: 2, then: halt}
YAML
PRODUCT=$(sed -n 's/^ *product_name: *//p' examples/packages/rolling-1.1/Definitions/rolling_top.vnfd.yaml | head -1)
sed -i "s/product: rolling/product: $PRODUCT/" "$WORK/rollouts/web-1.1.yaml"
sed 's/^/   | /' "$WORK/rollouts/web-1.1.yaml"
commit "Bring the network to version 1.1"
hand "git push origin upgrade; the forge's button 'New pull request'"
propose upgrade "Bring the network to version 1.1"
note "Jibe's comment on it, which is edited and never repeated, says what a merge would do:"
comment() { gitea GET "/repos/jibe/vnfs/issues/$PR/comments" | python3 -c "
import json, sys
print('\n'.join(c['body'] for c in json.load(sys.stdin)))"; }
commented() { comment | grep -q "$1"; }
wait_for 120 "the pull request has a comment" commented 'by rollout web-1.1'
comment >"$DATA/comment.md"
head -n 16 "$DATA/comment.md" | cut -c1-160 | sed 's/^/   | /'

step "Merged: the first wave is the lab, and waits for an approval"
t=$(now)
merge "$PR"
follow web-1.1 'waiting for approval'
took "$t"
kube get pods -A -l vnf.jibe.dev/vdu=WEB -o 'custom-columns=SITE:.metadata.namespace,POD:.metadata.name,IMAGE:.spec.containers[0].image' | sed 's/^/   /'
[ "$(running "$V2")" = 1 ] || die "$(running "$V2") sites run version 1.1, not the lab's alone"

step "Two sites of the cluster have no room for one pod more: the upgrade will meet that"
for n in 2 3; do kube -n "fleet-$n" create quota tight --hard=pods=1 | sed 's/^/   /'; done

step "Approved, twice: a twentieth, then all. The second failure halts it"
hand "jibe rollout approve web-1.1"
jibe rollout approve web-1.1 | sed 's/^/   /'
follow web-1.1 'waiting for approval|halted'
if is_phase web-1.1 'waiting for approval'; then
  jibe rollout approve web-1.1 | sed 's/^/   /'
  follow web-1.1 'halted|completed'
fi
is_phase web-1.1 halted || die "the rollout isn't halted: $(jibe get rollouts -o wide)"
jibe get rollouts -o wide | sed 's/^/   /'
note "nothing more is begun; $(running "$V2") of $((SITES + REAL)) sites run version 1.1, the others 1.0"

step "The room is made; one failed site is rolled back, the other tried again, and the rollout goes on"
for n in 2 3; do kube -n "fleet-$n" delete quota tight | sed 's/^/   /'; done
FAILED=$(jibe get operations -o json | python3 -c "
import json, sys
print(*[o['id'] for o in json.load(sys.stdin) if o['operationState'] == 'FAILED_TEMP'])")
verb=rollback
for op in $FAILED; do
  hand "jibe $verb $op"
  jibe "$verb" "$op" | sed 's/^/   /'
  verb=retry
done
t=$(now)
jibe rollout resume web-1.1 | sed 's/^/   /'
while ! is_phase web-1.1 completed; do
  follow web-1.1 'waiting for approval|completed|halted'
  ! is_phase web-1.1 halted || die "it is halted again: $(jibe get rollouts -o wide)"
  ! is_phase web-1.1 'waiting for approval' || jibe rollout approve web-1.1 | sed 's/^/   /'
done
took "$t"
wait_for 60 "all sites but one run version 1.1" runs "$V2" $((SITES + REAL - 1))
note "$(running "$V2") sites run version 1.1, and the one that was rolled back version 1.0"

wait_for 120 "the pull request says that its rollout has ended" commented '| completed'
note "and the forge shows what became of the pull request:"
comment >"$DATA/comment.md"
head -n 8 "$DATA/comment.md" | cut -c1-200 | sed 's/^/   | /'
git -C "$WORK" pull -q --rebase
FIRST=$(git -C "$WORK" log --reverse --format=%H --grep='^Roll web-1.1 out, wave 1' | head -n 1)
shown() { gitea GET "/repos/jibe/vnfs/commits/$FIRST/statuses" | python3 -c "
import json, sys
for s in json.load(sys.stdin)[:1]: print('   | the commit of wave 1:', s['context'] + ',', s['status'] + ',', s['description'])"; }
told() { shown | grep -q success; }
wait_for 120 "the commit of wave 1 has its status" told
shown

step "A change that fails is taken back by itself, and so is what it did before"
for n in 2 3; do kube -n "fleet-$n" create quota tight --hard=pods=1 | sed 's/^/   /'; done
git -C "$WORK" pull -q --rebase
cat >"$WORK/rollouts/more-web.yaml" <<YAML
# One web server more in the lab, or none at all
select: {folders: [instances/lab/**]}
to: {levels: {web_aspect: 1}}
order: [{instances: [instances/lab/r1/web]}, {percent: 100}]
atOnce: 1
failures: {budget: 1, then: rollbackAll}
YAML
sed 's/^/   | /' "$WORK/rollouts/more-web.yaml"
t=$(now)
land 'One web server more in the lab'
follow more-web 'rolled back|halted|completed'
is_phase more-web 'rolled back' || die "the rollout isn't rolled back: $(jibe get rollouts -o wide)"
took "$t"
jibe get rollouts -o wide | sed 's/^/   /'
for n in 2 3; do kube -n "fleet-$n" delete quota tight | sed 's/^/   /'; done
git -C "$WORK" pull -q --rebase
note "the first site was scaled, and is as before: $(git -C "$WORK" log --format=%s -- instances/lab/r1/web | head -n 2 | paste -sd';')"

step "A site's mistake is put right by the next commit, at once"
hand "levels: {web_aspect: 2}, where the cluster has no room; then levels: {web_aspect: 0}"
kube get nodes -o name | xargs -n1 "$KUBECTL" --kubeconfig "$KUBECONFIG" cordon >/dev/null
git -C "$WORK" pull -q --rebase
echo 'levels: {web_aspect: 2}' >>"$WORK/instances/lab/r2/web/vnf.yaml"
land 'More web servers at site r2'
site_is() { jibe get operations -o json | python3 -c "
import json, sys
sys.exit(not any(o['operation'].startswith('SCALE') and o['operationState'] == '$1' for o in json.load(sys.stdin)))"; }
wait_for 60 "the scaling waits for a node" site_is PROCESSING
git -C "$WORK" pull -q --rebase
sed -i 's/web_aspect: 2/web_aspect: 0/' "$WORK/instances/lab/r2/web/vnf.yaml"
t=$(now)
land 'Not tonight: there is no room'
wait_for 60 "the scaling has given way" sh -c 'jibe get operations -o json | grep -qE "\"operationState\": \"(FAILED|ROLLED_BACK)\""'
took "$t"
kube get nodes -o name | xargs -n1 "$KUBECTL" --kubeconfig "$KUBECONFIG" uncordon >/dev/null
wait_for 60 "everything is at rest" at_rest
jibe get operations --limit 0 | awk 'NR == 1 || /SCALE/' | sed 's/^/   /'

step "A freeze: nothing begins, and whoever asks is told until when"
git -C "$WORK" pull -q --rebase
printf 'freezes:\n- {until: %s, reason: new year}\n' "$(date -u -d '+1 day' +%Y-%m-%dT00:00:00+00:00)" >"$WORK/instances/maintenance.yaml"
sed 's/^/   | /' "$WORK/instances/maintenance.yaml"
land 'Nothing changes over new year'
ID=$(jibe get instances -o json | python3 -c "import json, sys; print(json.load(sys.stdin)[0]['id'])")
frozen() { api POST "/vnflcm/v2/vnf_instances/$ID/scale" '{"type": "SCALE_OUT", "aspectId": "web_aspect", "numberOfSteps": 1}' >"$DATA/frozen.txt"; grep -q '^409' "$DATA/frozen.txt"; }
hand "curl -X POST … $JIBE_SERVER/vnflcm/v2/vnf_instances/$ID/scale -d '{\"type\": \"SCALE_OUT\", \"aspectId\": \"web_aspect\"}'"
wait_for 60 "the freeze is in force" frozen
sed 's/^/   | /' "$DATA/frozen.txt"

step "What git says of it"
git -C "$WORK" pull -q --rebase
git -C "$WORK" log -12 --format='%h %an: %s' | sed 's/^/   | /'

step "Done"
[ "${KEEP:-}" = 1 ] || note "nothing was left running (KEEP=1 make demo-fleet leaves it); the data are in $DATA"
