# The first process of a host: machine.sh DIR NAME CGROUP [PLACE SOURCE]... It has namespaces of its own
# for everything, makes itself a file system out of this machine's, of which it keeps all
# changes in memory, and waits for its standard input to end. CGROUP, if it isn't empty, is
# the path in all hierarchies of cgroups of what the host sees as their root.
set -euo pipefail
dir=$1 name=$2 cgroup=$3
if [ -n "$cgroup" ] && [ -z "${IN_CGROUP:-}" ]; then
  # The namespace of cgroups begins where its first process is.
  for c in /sys/fs/cgroup/*/cgroup.procs; do
    [ -e "${c%/*}/notify_on_release" ] || continue # one of version 2, which has no controllers here
    mkdir -p "${c%/*}/$cgroup"
    for f in cpuset.cpus cpuset.mems; do
      [ ! -e "${c%/*}/$f" ] || (d=${c%/*} && for part in ${cgroup//\// }; do cat "$d/$f" >"$d/$part/$f" && d+=/$part; done)
    done
    echo $$ >"${c%/*}/$cgroup/cgroup.procs"
  done
  export IN_CGROUP=yes
  exec unshare --cgroup bash -c "$BASH_EXECUTION_STRING" machine.sh "$@"
fi
shift 3
mount --make-rprivate /
mount -t tmpfs -o mode=755 host "$dir"
mkdir "$dir"/upper "$dir"/work "$dir"/root
mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" host "$dir"/root
cd "$dir"/root
mount -t proc proc proc
mount -t sysfs sys sys
mount --rbind /dev dev
if [ -n "$cgroup" ]; then
  mount -t tmpfs -o mode=755 cgroup sys/fs/cgroup
  while IFS=: read -r _ controllers _; do
    [ -n "$controllers" ] || continue
    mkdir "sys/fs/cgroup/${controllers#name=}"
    case $controllers in name=*) options=none,$controllers ;; *) options=$controllers ;; esac
    mount -t cgroup -o "$options" cgroup "sys/fs/cgroup/${controllers#name=}"
  done </proc/self/cgroup
  # What keeps layers of containers can't be on an overlay.
  for d in var/lib/containerd var/lib/kubelet; do
    mkdir -p "$d"
    mount -t tmpfs -o mode=755 "${d##*/}" "$d"
  done
  # These are the kernel's, not the host's: who sets them there doesn't change this machine.
  mkdir -m 700 "$dir"/kernel
  for f in kernel/panic kernel/panic_on_oops vm/overcommit_memory vm/panic_on_oom; do
    cat "/proc/sys/$f" >"$dir/kernel/${f##*/}"
    mount --bind "$dir/kernel/${f##*/}" "proc/sys/$f"
  done
fi
# The machine runs and keeps nothing of the host's there.
for d in run home root; do mount -t tmpfs -o mode=755 "$d" "$d"; done
mount -t tmpfs -o mode=1777 tmp tmp
mkdir run/former run/sshd
chmod 700 root
while [ $# -gt 0 ]; do
  if [ -d "$2" ]; then
    mkdir -p ".$1"
  else
    mkdir -p ".${1%/*}"
    [ -e ".$1" ] || : >".$1"
  fi
  mount --bind -o ro "$2" ".$1"
  shift 2
done
pivot_root . run/former
umount -l /run/former
rmdir /run/former
[ -z "$cgroup" ] || mount --make-rshared / # volumes of pods are mounted by one and seen by others
hostname "$name"
# Nobody is there to ask for names.
rm -f /etc/hosts /etc/resolv.conf
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$name" >/etc/hosts
: >/etc/resolv.conf
echo ready
while read -r _; do :; done
