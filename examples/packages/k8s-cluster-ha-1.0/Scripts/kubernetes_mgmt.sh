#!/bin/sh
# All hooks: docs/guide/kubernetes-clusters.md
exec jibe driver kubernetes-cluster
