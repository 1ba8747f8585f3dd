// Package sample has packages that tests of the Kubernetes driver render.
package sample

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// FrontAndBack is the manifests of a Deployment and a StatefulSet, with a Service and a ConfigMap:
// those of the VDUs of [TwoVDUs].
const FrontAndBack = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast}
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec:
  selector: {app: front}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front}
spec:
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: front
        image: registry.k8s.io/pause:3.10
        ports: [{containerPort: 8080}]
        envFrom: [{configMapRef: {name: settings}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: front-back}
spec:
  serviceName: front
  selector: {matchLabels: {app: back}}
  template:
    metadata: {labels: {app: back}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: back, image: "registry.k8s.io/pause:3.10"}]
`

// TwoVDUs is the descriptor of [FrontAndBack].
func TwoVDUs() *vnfd.VNFD {
	return &vnfd.VNFD{
		ID: "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177", DefaultFlavour: "simple",
		Flavours: []vnfd.Flavour{{
			ID: "simple",
			VDUs: []vnfd.VDU{
				{ID: "VDU1", Name: "front", Initial: 1, Deltas: map[string]int{"front_aspect": 1}, Max: 5},
				{ID: "VDU2", Name: "front-back", Initial: 1, Max: 1},
			},
			Aspects: []vnfd.Aspect{{ID: "front_aspect", MaxLevel: 4}},
		}},
	}
}

// Source is an instance of one manifest file, in the namespace.
func Source(id, namespace, manifests string, descriptor *vnfd.VNFD, levels map[string]int) drivers.Source {
	files := fstest.MapFS{"Files/kubernetes/all.yaml": {Data: []byte(manifests)}}
	return Packaged(id, namespace, files, descriptor, levels)
}

// Packaged is an instance of the package of the files, in the namespace.
func Packaged(id, namespace string, files fs.FS, descriptor *vnfd.VNFD, levels map[string]int) drivers.Source {
	in := &desired.Instance{ID: id, Flavour: "simple", Levels: levels, Params: map[string]any{}}
	if namespace != "" {
		in.Params["namespace"] = namespace
	}
	return drivers.Source{Instance: in, Package: &vnfd.Package{Tree: TreeOf(files), Files: files, VNFD: descriptor}}
}

// TreeOf stands for the git tree hash: it differs whenever a file does.
func TreeOf(files fs.FS) string {
	sum := sha256.New()
	_ = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			content, _ := fs.ReadFile(files, path)
			fmt.Fprintf(sum, "%s %d %s", path, len(content), content)
		}
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))
}

// Workloads is a descriptor with a VDU for each name: those called one to three
// have an aspect of their own, a step of which is two units.
func Workloads(names ...string) *vnfd.VNFD {
	f := vnfd.Flavour{ID: "simple"}
	for _, name := range names {
		vdu := vnfd.VDU{ID: strings.ToUpper(name), Name: name, Initial: 1, Max: -1}
		aspect := name + "_aspect"
		vdu.Deltas = map[string]int{aspect: 2}
		f.VDUs = append(f.VDUs, vdu)
		f.Aspects = append(f.Aspects, vnfd.Aspect{ID: aspect, MaxLevel: 3})
	}
	return &vnfd.VNFD{DefaultFlavour: "simple", Flavours: []vnfd.Flavour{f}}
}

// Updated is the source with a container update on top, whose package has the same
// descriptor.
func Updated(src drivers.Source, files fs.FS, paths ...string) drivers.Source {
	in := *src.Instance
	next := &vnfd.Package{Tree: TreeOf(files), Files: files, VNFD: src.Package.VNFD}
	if in.Base == "" {
		in.Base, src.Base = src.Package.Tree, src.Package
	}
	in.Package = next.Tree
	in.Overlays = append(slices.Clone(in.Overlays), desired.Overlay{Package: next.Tree, Paths: paths})
	return drivers.Source{Instance: &in, Package: next, Base: src.Base, Overlays: append(slices.Clone(src.Overlays), next)}
}

// EveryKind is a package of what generations have of their own and of what they
// share.
const EveryKind = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast, "true": "010", text: "a\n  b: \"c\"\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {pin: "1234"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: by-hand}
spec: {ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: [{name: i, image: i, env: [{name: A, valueFrom: {secretKeyRef: {name: key, key: pin}}}]}]
      containers: [{name: c, image: i, envFrom: [{configMapRef: {name: settings}}], volumeMounts: [{name: v, mountPath: /v}]}]
      volumes: [{name: v, projected: {sources: [{secret: {name: key}}, {configMap: {name: settings}}]}}, {name: s, persistentVolumeClaim: {claimName: shared}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: i, envFrom: [{configMapRef: {name: settings}}]}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec: {template: {spec: {restartPolicy: Never, nodeSelector: {no: where}, containers: [{name: c, image: i, envFrom: [{configMapRef: {name: settings}}]}]}}}
`

// OfGeneration is the same source in another generation.
func OfGeneration(src drivers.Source, generation string) drivers.Source {
	in := *src.Instance
	in.Generation = generation
	src.Instance = &in
	return src
}

// ConfigMap is a manifest of a ConfigMap.
func ConfigMap(name, value string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, data: {k: '" + value + "'}}\n"
}

// Deployment is a manifest of a Deployment that takes its environment from a map.
func Deployment(name, config string) string {
	return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: " + name + "}, spec: {selector: {matchLabels: {app: " + name + "}}, template: {metadata: {labels: {app: " +
		name + "}}, spec: {containers: [{name: c, image: i, envFrom: [{configMapRef: {name: " + config + "}}]}]}}}}\n"
}
