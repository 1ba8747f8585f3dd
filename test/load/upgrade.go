package load

import (
	"context"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// NextVnfd is the vnfdId of the next version of the small package.
const NextVnfd = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bd1"

// WriteNextPackage writes it to a folder that doesn't exist: another image, and other content of
// the ConfigMap.
func WriteNextPackage(to string) error {
	return process.WriteNextVersion(process.SmallPackage(), to, process.SmallVnfd, NextVnfd,
		"'1.0'", "'2.0'", "pause:3.10", "pause:4.10", "LOG_LEVEL: info", "LOG_LEVEL: debug")
}

// content is what the objects of a version hold: the image and the ConfigMap's entry.
func content(vnfd string) (image, level string) {
	if vnfd == NextVnfd {
		return "registry.k8s.io/pause:4.10", "debug"
	}
	return "registry.k8s.io/pause:3.10", "info"
}

// configPaths are the manifests of the ConfigMaps that a container update takes over.
func configPaths() []string { return process.SmallManifests()[:1] }

// upgrade brings the slot's instance to the other version of its package, in one of
// the ways in which that can be asked for.
func (s *Slot) upgrade(ctx context.Context, server *process.Server, now *desired.Instance) error {
	to := process.SmallVnfd
	if now.VnfdID == to {
		to = NextVnfd
	}
	vnfd := desired.KeyValue{Path: []string{"vnfdId"}, Value: to}
	strategy := func(name string) desired.KeyValue {
		return desired.KeyValue{Path: []string{"update", "strategy"}, Value: name}
	}
	paths := map[string]any{"configmap_secret_paths": configPaths()}
	change := func(kind string) error {
		return s.ask(ctx, server, "CHANGE_VNFPKG", http.MethodPost, now.ID, "/change_vnfpkg",
			map[string]any{"vnfdId": to, "additionalParams": map[string]any{"upgrade_type": kind}})
	}
	switch s.Rng.IntN(7) {
	case 0:
		return change("RollingUpdate")
	case 1:
		return change("Blue-Green")
	case 2:
		return s.ask(ctx, server, "MODIFY_INFO", http.MethodPatch, now.ID, "", map[string]any{"vnfdId": to, "metadata": paths})
	case 3:
		return s.edit(ctx, server, "Roll "+s.Name, vnfd, strategy(desired.Rolling))
	case 4:
		return s.edit(ctx, server, "Let a green "+s.Name+" take over", vnfd, strategy(desired.BlueGreen))
	case 5:
		return s.edit(ctx, server, "Update the containers of "+s.Name, vnfd, strategy(desired.Container), desired.KeyValue{Path: []string{"metadata"}, Value: paths})
	}
	if now.Update.Strategy == desired.Container {
		return s.edit(ctx, server, "Roll "+s.Name, vnfd, strategy(desired.Rolling))
	}
	return s.edit(ctx, server, "Upgrade "+s.Name, vnfd) // the one line
}
