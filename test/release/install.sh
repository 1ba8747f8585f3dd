# What an operator does with the package of Debian, in a systemd of its own (boot.sh): each line
# that begins with "says" is what the test looks at.
set -u
says() { echo "says $1: $2"; }
ready() { # ready: waits until the service is ready, or has failed
  for _ in $(seq 300); do
    jibe get instances --data /var/lib/jibe >/dev/null 2>&1 && { echo ready; return; }
    [ "$(systemctl is-active jibe)" = failed ] && break
    sleep 0.2
  done
  journalctl -u jibe --no-pager -n 30 >&2
  echo "not ready"
}
confined() { # the journal may have a line only a moment after it was said
  for _ in $(seq 300); do
    by=$(journalctl _SYSTEMD_INVOCATION_ID="$(systemctl show -p InvocationID --value jibe)" --no-pager | sed -n 's/.*hooks of packages are confined.* by="\([^"]*\)".*/\1/p')
    [ -z "$by" ] || break
    sleep 0.2
  done
  echo "$by"
}

dpkg -i /out/jibe.deb || says installed no
says installed "$(systemctl is-active jibe), $(systemctl is-enabled jibe), $(ready)"
says user "$(stat -c %U "/proc/$(systemctl show -p MainPID --value jibe)")"
says data "$(stat -c '%U %a' /var/lib/jibe), settings $(stat -c '%U:%G %a' /etc/jibe)"
says unit "$(systemd-analyze verify jibe.service 2>&1 | grep -c 'jibe' || true) complaints"
says exposure "$(systemd-analyze security --no-pager --threshold=30 jibe.service >/dev/null && echo 'below 3.0' || echo 'above 3.0')"
says manual "$(man -w jibe-serve 2>/dev/null)"

echo 'JIBE_OPTIONS="--allow-hooks"' >/etc/default/jibe
systemctl restart jibe
says again "$(ready)"
says hooks "$(confined)"

before=$(systemctl show -p InvocationID --value jibe)
cp /var/lib/jibe/identity.age /run/identity.before
dpkg -i --force-confold /out/jibe.deb
says upgraded "$([ "$before" != "$(systemctl show -p InvocationID --value jibe)" ] && echo restarted), $(ready), $(cat /etc/default/jibe)"

dpkg --purge jibe
says purged "$(systemctl is-active jibe), key $(cmp -s /var/lib/jibe/identity.age /run/identity.before && echo kept), settings $([ -e /etc/default/jibe ] || echo gone)"
