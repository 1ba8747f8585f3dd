package kubernetes

const (
	// AnnotationConfig, on pods, identifies the content of the ConfigMaps and Secrets
	// that they use and that a container update changed: it makes their owners
	// replace them. Pods that use none of those don't have it.
	AnnotationConfig = Domain + "/config"
	// AnnotationMould, on Pods and Jobs, identifies what can't be changed in one that
	// exists: one whose mould differs from that of its render must be made anew.
	AnnotationMould = Domain + "/mould"
)
