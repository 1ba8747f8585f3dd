{{- define "jibe.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* Pods are called after it, and sockets and labels bound its length. */ -}}
{{- define "jibe.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "jibe.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "jibe.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The server's pod; that of helm test is another component. */ -}}
{{- define "jibe.selector" -}}
app.kubernetes.io/name: {{ include "jibe.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "jibe.labels" -}}
{{ include "jibe.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "jibe.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- with $registry }}{{ . | trimSuffix "/" }}/{{ end -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion | replace "+" "_" }}{{ end -}}
{{- end -}}

{{- define "jibe.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "jibe.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name: name the service account that is there, or let serviceAccount.create make one" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "jibe.tokens" -}}
{{- .Values.tokens.existingSecret | default (printf "%s-tokens" (include "jibe.fullname" .)) -}}
{{- end -}}

{{- define "jibe.tlsSecret" -}}
{{- if eq .Values.tls.mode "existingSecret" -}}
{{- required "tls.existingSecret: name the Secret with tls.crt, tls.key and ca.crt" .Values.tls.existingSecret -}}
{{- else -}}
{{- printf "%s-tls" (include "jibe.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "jibe.scheme" -}}
{{- if eq .Values.tls.mode "none" }}http{{ else }}https{{ end -}}
{{- end -}}

{{- /* The names by which clients reach the Service, a JSON list. */ -}}
{{- define "jibe.names" -}}
{{- $name := include "jibe.fullname" . -}}
{{- $ns := .Release.Namespace -}}
{{- $names := list $name (printf "%s.%s" $name $ns) (printf "%s.%s.svc" $name $ns) (printf "%s.%s.svc.cluster.local" $name $ns) "localhost" -}}
{{- concat $names .Values.tls.names | uniq | toJson -}}
{{- end -}}

{{- define "jibe.serviceURL" -}}
{{ include "jibe.scheme" . }}://{{ include "jibe.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end -}}

{{- define "jibe.baseURL" -}}
{{- if .Values.api.baseURL -}}
{{- .Values.api.baseURL -}}
{{- else if and .Values.ingress.enabled .Values.ingress.hosts -}}
{{- $host := (first .Values.ingress.hosts).host -}}
{{ if .Values.ingress.tls }}https{{ else }}http{{ end }}://{{ $host }}
{{- else -}}
{{- include "jibe.serviceURL" . -}}
{{- end -}}
{{- end -}}

{{- /* "yes" where other replicas may serve beside one, which then takes no uploads of packages. */ -}}
{{- define "jibe.shared" -}}
{{- if and .Values.store.url .Values.desired.remote }}yes{{ end -}}
{{- end -}}

{{- /* What can't be, with what to do about it. */ -}}
{{- define "jibe.check" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- if not (and .Values.store.url .Values.desired.remote) -}}
{{- fail "replicas: more than 1 share their records and the desired repository: name a Redis in store.url and a git server in desired.remote (docs/guide/replicas.md), or leave replicas at 1" -}}
{{- end -}}
{{- if not .Values.identity.existingSecret -}}
{{- fail "replicas: more than 1 need the same key: name the Secret that has it in identity.existingSecret, or leave replicas at 1" -}}
{{- end -}}
{{- if .Values.persistence.existingClaim -}}
{{- fail "replicas: each of several has a volume of its own: leave persistence.existingClaim out, or replicas at 1" -}}
{{- end -}}
{{- if ge (int .Values.drainSeconds) (int .Values.terminationGracePeriodSeconds) -}}
{{- fail "drainSeconds: give less than terminationGracePeriodSeconds, in which a pod ends what is under way, too" -}}
{{- end -}}
{{- if and .Values.hooks.unconfined .Values.hooks.allow -}}
{{- fail "hooks.unconfined: hooks of several replicas must be confined, as nobody else could end those of one that is stopped: leave it out, or replicas at 1" -}}
{{- end -}}
{{- end -}}
{{- if ne (empty .Values.git.sshKey) (empty .Values.git.knownHosts) -}}
{{- fail "git.sshKey and git.knownHosts go together: name the key by which git servers know Jibe, and the file of theirs, by which it knows them" -}}
{{- end -}}
{{- if and .Values.desired.remote .Values.desired.seed -}}
{{- fail "desired.seed is for a repository on the volume: push the files to the forge that desired.remote names, or leave one of the two out" -}}
{{- end -}}
{{- if and .Values.desired.pushInterval (not .Values.desired.remote) -}}
{{- fail "desired.pushInterval is for a forge: name it in desired.remote, or leave the interval out" -}}
{{- end -}}
{{- if and .Values.desired.webhookSecret (not .Values.desired.remote) -}}
{{- fail "desired.webhookSecret is for a forge: name it in desired.remote, or leave the secret out" -}}
{{- end -}}
{{- if and .Values.desired.webhookSecret .Values.desired.openWebhook -}}
{{- fail "desired.openWebhook: with desired.webhookSecret only what the forge has signed is taken: leave one of the two out" -}}
{{- end -}}
{{- if and .Values.tokens.existingSecret .Values.metrics.serviceMonitor.enabled (not .Values.metrics.open) -}}
{{- $tokens := (lookup "v1" "Secret" .Release.Namespace .Values.tokens.existingSecret).data -}}
{{- if and $tokens (not (hasKey $tokens "metrics-token")) -}}
{{- fail (printf "metrics.serviceMonitor: /metrics asks for a token, and Secret %s has no metrics-token: add the key, with a token of the role viewer for all projects that is in its tokens.yaml, or set metrics.open" .Values.tokens.existingSecret) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.desired.forge.token (not .Values.desired.remote) -}}
{{- fail "desired.forge.token is for a forge: name it in desired.remote, or leave the token out" -}}
{{- end -}}
{{- if and (or .Values.desired.forge.kind .Values.desired.forge.url .Values.desired.forge.repository) (not .Values.desired.forge.token) -}}
{{- fail "desired.forge: the forge is told nothing without a token: name its Secret in desired.forge.token" -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "certManager") (not .Values.tls.certManager.issuerRef.name) -}}
{{- fail "tls.certManager.issuerRef.name: name the Issuer or ClusterIssuer that signs the certificate" -}}
{{- end -}}
{{- if and (eq .Values.namespaces.scope "namespaces") .Values.vim.inCluster (not .Values.namespaces.names) -}}
{{- fail "namespaces.names: name the namespaces in which VNFs may be, or set namespaces.scope to cluster, by which Jibe reads and writes in all, Secrets included" -}}
{{- end -}}
{{- if has .Release.Namespace .Values.namespaces.names -}}
{{- fail (printf "namespaces.names: %s is the namespace of Jibe itself, in which no VNF may be: name another, or install Jibe elsewhere" .Release.Namespace) -}}
{{- end -}}
{{- if and .Values.desired.requireSignedPush (not .Values.desired.verify) -}}
{{- fail "desired.requireSignedPush: name the file of trusted keys in desired.verify" -}}
{{- end -}}
{{- if and .Values.packages.requireSignatures (not .Values.packages.trust) -}}
{{- fail "packages.requireSignatures: name the file of certificates in packages.trust" -}}
{{- end -}}
{{- if and (or .Values.identity.kms.token .Values.identity.kms.ca) (not .Values.identity.kms.url) -}}
{{- fail "identity.kms.url: name the key that keeps Jibe's own, or leave token and ca out" -}}
{{- end -}}
{{- if and .Values.tracing.headers (not .Values.tracing.endpoint) -}}
{{- fail "tracing.endpoint: name the collector that the headers are for" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs: name the Gateway to which the route belongs" -}}
{{- end -}}
{{- end -}}
