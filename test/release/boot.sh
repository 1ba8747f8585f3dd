#!/usr/bin/env bash
# boot.sh - boots a systemd of this machine's own files, in namespaces, and runs a script in it.
#
#   boot.sh DIR SCRIPT
#
# DIR is at /out in there, and empty but for what the script needs. What is written elsewhere is
# in memory, and gone at the end; processes, mounts and the network are its own. It ends when
# the script has; the script's output is in DIR/log. Exit status 77 says that this machine can't do it.
# Needs root, util-linux, and systemd. After BOOT_SECONDS (270) it is ended.
set -euo pipefail

if [ "${1:-}" != --inside ]; then
  dir=$(realpath "$1") script=$(realpath "$2")
  [ "$(id -u)" = 0 ] || { echo "a systemd can only be booted as root" >&2; exit 77; }
  [ -x /lib/systemd/systemd ] || { echo "there is no systemd: apt-get install systemd" >&2; exit 77; }
  # A part of each hierarchy of cgroups that is there is its own: version 1, version 2, or both.
  name=jibe-boot-$$ parts=()
  while read -r _ at kind _; do
    case $kind in cgroup | cgroup2) [ -w "$at" ] && mkdir "$at/$name" 2>/dev/null && parts+=("$at/$name") ;; esac
  done </proc/mounts
  [ "${#parts[@]}" -gt 0 ] || { echo "no cgroup can be made here" >&2; exit 77; }
  cleanup() {
    for part in "${parts[@]}"; do
      # What the kernel is still ending keeps its cgroup for a moment.
      for _ in $(seq 50); do
        find "$part" -depth -type d -exec rmdir {} + 2>/dev/null || true
        [ -d "$part" ] || break
        sleep 0.1
      done
    done
  }
  trap cleanup EXIT
  self=$(realpath "${BASH_SOURCE[0]}")
  (
    for part in "${parts[@]}"; do
      # Version 1 of cpuset takes nobody before it says where.
      for f in cpuset.cpus cpuset.mems; do [ ! -e "$part/$f" ] || cat "$part/../$f" >"$part/$f"; done
      echo "$BASHPID" >"$part/cgroup.procs"
    done
    exec timeout --kill-after=5 "${BOOT_SECONDS:-270}" unshare --fork --kill-child --pid --mount --uts --ipc --net --cgroup --propagation private "$self" --inside "$dir" "$script"
  ) || rc=$?
  exit "${rc:-0}"
fi

dir=$2 script=$3
mount -t tmpfs tmpfs /mnt
mkdir /mnt/{upper,work,root}
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root || { echo "no overlay can be mounted here" >&2; exit 77; }
cd /mnt/root
mount -t proc proc proc
# What boots may change nothing of the machine: neither by /sys, nor by settings of the kernel.
mount --rbind /sys sys
mount -o remount,bind,ro sys
mount -t tmpfs -o mode=0755 tmpfs dev
mkdir dev/{pts,shm}
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for node in null zero full random urandom tty; do
  touch "dev/$node"
  mount --bind "/dev/$node" "dev/$node"
done
mount -t tmpfs -o mode=0755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p out
mount --bind "$dir" out
cp "$script" root/boot-script
for unit in systemd-sysctl systemd-modules-load systemd-random-seed systemd-udevd systemd-udev-trigger systemd-binfmt; do
  ln -sf /dev/null "etc/systemd/system/$unit.service"
done
cat >etc/systemd/system/boot-script.service <<UNIT
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash /root/boot-script
ExecStopPost=/bin/systemctl --force --force poweroff
StandardOutput=append:/out/log
StandardError=inherit
UNIT
mkdir old
pivot_root . old
umount -l /old
exec env -i container=jibe-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=boot-script.service --log-target=console --log-level=warning
