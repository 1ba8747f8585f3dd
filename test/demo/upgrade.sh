# shellcheck shell=bash
# The part of the demo about upgrades; demo.sh reads it in. A second VNF is brought to
# version 1.1 of its package blue-green, through a branch that is previewed and merged,
# then to a bad version 1.2, which fails and is taken back.

SHOP=$WORK/instances/site-b/shop
SHOP_1_0=3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b20
SHOP_1_1=3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b21
SHOP_1_2=3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b22

shop_pods() { kube -n demo get pods -l app=app-name --sort-by=.metadata.name -o jsonpath='{range .items[?(@.status.phase=="Running")]}{.metadata.name} {.metadata.uid}{"\n"}{end}'; }
shop_has() { [ "$(shop_pods | grep -c .)" = "$1" ]; }
shop_endpoints() { kube -n demo get endpointslices -l kubernetes.io/service-name=app-svc-name -o jsonpath='{range .items[*].endpoints[?(@.conditions.ready==true)]}{.targetRef.name}{"\n"}{end}'; }
shop_serves() { [ "$(shop_endpoints | grep -c .)" = "$1" ]; }
# traffic: the pods with their generations, and to which of them the Service sends traffic
traffic() {
  kube -n demo get pods -l app=app-name -o 'custom-columns=POD:.metadata.name,GENERATION:.metadata.labels.vnf\.jibe\.dev/generation,IMAGE:.spec.containers[0].image,STATE:.status.phase' |
    awk -v serving="$(shop_endpoints | tr '\n' ' ')" 'NR > 1 && index(" " serving, " " $1 " ") {$0 = $0 "   <- traffic"} {print "   " $0}'
}
# film: begins to write down to which ready pods the Service sends traffic, at every change.
# (A watch with "range" in its template ends at the first change: kubectl.)
film() {
  "$KUBECTL" --kubeconfig "$KUBECONFIG" -n demo get endpointslices -l kubernetes.io/service-name=app-svc-name --watch \
    -o jsonpath='{.endpoints[?(@.conditions.ready==true)].targetRef.name}{"\n"}' >"$DATA/film.txt" 2>/dev/null &
  WATCH_PID=$!
  wait_for 20 "the EndpointSlices are watched" test -s "$DATA/film.txt"
}
filmed() {
  ! grep -q '^ *$' "$DATA/film.txt" || die "there was a moment without a ready address: $DATA/film.txt"
  awk '{old = new = 0; for (i = 1; i <= NF; i++) if ($i ~ /-new-1-/) new++; else old++
        line = (old ? old " of generation 0" : "") (old && new ? " and " : "") (new ? new " of generation 1" : "")
        if (line != last) print "   | " line; last = line}' "$DATA/film.txt"
}
# last_upgrade: id and state of the newest change of package
last_upgrade() { jibe get operations | awk '/CHANGE_VNFPKG/ && !line {line = $0} END {print line}'; }
upgrade_id() { last_upgrade | awk '{print $1}'; }
upgrade_is() { last_upgrade | grep -q "$1"; }

step "A second VNF: version 1.0 of a package whose coordination scripts may run"
hand "cp -r examples/packages/blue-green-script-1.0 examples/packages/blue-green-script-1.1 …; hooks: true in repositories.yaml"
cp -r examples/packages/blue-green-script-1.{0,1} "$DATA/packages/"
git -C "$DATA/packages" add -A
git -C "$DATA/packages" commit -qm 'Add two versions of the shop'
git -C "$DATA/packages" push -q origin HEAD:main
wait_for 20 "the packages are known" sh -c "jibe get packages | grep -q $SHOP_1_1"
git -C "$WORK" pull -q --rebase
sed -i 's/^- name: packages$/&\n  hooks: true/' "$WORK/repositories.yaml"
mkdir -p "$SHOP"
sed 's/^name: .*/name: shop-site-b/; s/namespace: .*/namespace: demo/' examples/blue-green-script/vnf.yaml >"$SHOP/vnf.yaml"
sed 's/^/   | /' "$SHOP/vnf.yaml"
t=$(now)
push 'Open the shop at site B'
wait_for 120 "2 pods of the shop" shop_has 2
wait_for 60 "traffic for the shop" shop_serves 2
took "$t"
traffic
wait_for 60 "the instance is at rest" at_rest

step "An upgrade as a branch: one line, previewed as a pull request is"
hand "git switch -c upgrade; sed -i s/…b20/…b21/ instances/site-b/shop/vnf.yaml; git commit -am …; jibe plan --commit upgrade"
git -C "$WORK" pull -q --rebase
git -C "$WORK" switch -q -c upgrade
sed -i "s/$SHOP_1_0/$SHOP_1_1/" "$SHOP/vnf.yaml"
git -C "$WORK" commit -qam 'Upgrade the shop to 1.1'
jibe plan "$WORK" --commit upgrade | sed 's/^/   /' || [ "${PIPESTATUS[0]}" = 2 ]

step "Merged: the new generation stands up beside the old one, then traffic turns"
hand "git switch main; git merge --no-ff upgrade; git push"
git -C "$WORK" switch -q main
git -C "$WORK" pull -q --rebase
git -C "$WORK" merge -q --no-ff -m 'Merge the upgrade of the shop' upgrade
ADDRESS=$(kube -n demo get service app-svc-name -o jsonpath='{.spec.clusterIP}')
film
t=$(now)
git -C "$WORK" push -q 2>&1 | sed 's/^/   /'
wait_for 120 "the upgrade is done" upgrade_is COMPLETED
took "$t"
unwatch
traffic
note "to which ready pods the Service sent traffic, as the watch of its EndpointSlices saw it:"
filmed
note "what the package's scripts said:"
sed -n 's/.*msg="hook ended".*hook=\([a-z_]*\) message="\([^"]*\)".*/   | \1: \2/p' "$DATA/serve.log"
[ "$(kube -n demo get service app-svc-name -o jsonpath='{.spec.clusterIP}')" = "$ADDRESS" ] || die "the Service has another address"
note "its address stayed $ADDRESS"

step "A bad upgrade: version 1.2 names an image that nobody can pull"
cp -r "$DATA/packages/blue-green-script-1.1" "$DATA/packages/blue-green-script-1.2"
sed -i "s/$SHOP_1_1/$SHOP_1_2/; s/'1\.1'/'1.2'/" "$DATA/packages/blue-green-script-1.2"/Definitions/*.yaml
sed -i 's|image: nginx.*|image: registry.invalid/shop:1.2|' "$DATA/packages/blue-green-script-1.2/Files/kubernetes/deployment.yaml"
PLAYED=
if [ -n "$(kube get nodes -l type=kwok -o name)" ]; then
  # No kubelet pulls images on kwok's nodes: the pods find no node, and get what a
  # kubelet would say.
  PLAYED=1
  sed -i 's|^    spec:$|&\n      nodeSelector: {kubelet: played}|' "$DATA/packages/blue-green-script-1.2/Files/kubernetes/deployment.yaml"
fi
jibe package rehash "$DATA/packages/blue-green-script-1.2" >/dev/null
git -C "$DATA/packages" add -A
git -C "$DATA/packages" commit -qm 'Add a version of the shop that was never built'
git -C "$DATA/packages" push -q origin HEAD:main
wait_for 20 "the package is known" sh -c "jibe get packages | grep -q $SHOP_1_2"
wait_for 60 "the instance is at rest" at_rest
shop_pods >"$DATA/before.txt"
git -C "$WORK" pull -q --rebase
sed -i "s/$SHOP_1_1/$SHOP_1_2/" "$SHOP/vnf.yaml"
t=$(now)
push 'Upgrade the shop to 1.2'
if [ -n "$PLAYED" ]; then
  unpulled() { kube -n demo get pods -l app=app-name --field-selector=status.phase=Pending -o name | grep -q .; }
  wait_for 60 "the new pods" unpulled
  for pod in $(kube -n demo get pods -l app=app-name --field-selector=status.phase=Pending -o name); do
    kube -n demo patch "$pod" --subresource=status --type=strategic -p '{"status": {"containerStatuses": [{"name": "app-name", "ready": false,
      "restartCount": 0, "image": "registry.invalid/shop:1.2", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff",
      "message": "Back-off pulling image \"registry.invalid/shop:1.2\""}}}]}}' >/dev/null
  done
fi
wait_for 120 "the upgrade fails" upgrade_is FAILED_TEMP
took "$t"
FAILED=$(upgrade_id)
jibe get operation "$FAILED" | sed 's/^/   /'
note "the pods that run, and their traffic, were not touched:"
traffic
hand "jibe rollback $FAILED"
t=$(now)
jibe rollback "$FAILED" | sed 's/^/   /'
wait_for 120 "the upgrade is taken back" upgrade_is ROLLED_BACK
wait_for 60 "the instance is at rest" at_rest
took "$t"
traffic
shop_pods >"$DATA/after.txt"
cmp -s "$DATA/before.txt" "$DATA/after.txt" || die "the pods are others than before: $(diff "$DATA/before.txt" "$DATA/after.txt")"
note "the same pods as before, by their UIDs; and git says so too:"
git -C "$WORK" pull -q --rebase
git -C "$WORK" log -1 --format='%h %s%n%n%b' | sed 's/^/   | /'
