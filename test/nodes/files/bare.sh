# Runs once on a machine, before one can log in: takes away what this machine has of Kubernetes.
dpkg --purge containerd runc containernetworking-plugins kubeadm kubelet kubectl >/dev/null
rm -rf /etc/containerd /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/preferences.d/* /var/lib/apt/lists/* /opt/cni /usr/lib/cni
for program in kubeadm kubelet kubectl containerd runc ctr crio; do
  while file=$(type -P "$program"); do rm -f "$file"; done
done
