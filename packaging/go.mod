// What makes the things that Jibe is given to others as: image, packages, archives, and
// what says of what they are made. It is a module of its own so that none of its
// dependencies ever reaches Jibe itself.
module github.com/jibe-vnfm/jibe/packaging

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/google/go-containerregistry v0.22.1
	github.com/google/uuid v1.6.0
)

require (
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
)
