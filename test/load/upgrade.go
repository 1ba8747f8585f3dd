package load

import "github.com/jibe-vnfm/jibe/test/process"

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
