# The first process of a host: machine.sh DIR NAME [PLACE SOURCE]... It has namespaces of its own for
# everything, makes itself a file system out of this machine's, of which it keeps all
# changes in memory, and waits for its standard input to end.
set -euo pipefail
dir=$1 name=$2
shift 2
mount --make-rprivate /
mount -t tmpfs -o mode=755 host "$dir"
mkdir "$dir"/upper "$dir"/work "$dir"/root
mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" host "$dir"/root
cd "$dir"/root
mount -t proc proc proc
mount -t sysfs sys sys
mount --rbind /dev dev
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
hostname "$name"
# Nobody is there to ask for names.
rm -f /etc/hosts /etc/resolv.conf
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$name" >/etc/hosts
: >/etc/resolv.conf
echo ready
while read -r _; do :; done
