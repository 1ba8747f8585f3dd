#!/bin/sh
# Runs containerd with the machine's own configuration, but for what a machine of a test
# hasn't got: systemd, whose cgroups containers would get, and the right to give its
# processes a better place than it has itself.
sed -e 's/SystemdCgroup = true/SystemdCgroup = false/' -e 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' \
  /etc/containerd/config.toml >/run/containerd-test.toml
PATH=$PATH:/usr/local/bin exec containerd --config /run/containerd-test.toml
