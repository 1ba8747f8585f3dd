{{- /* Files that flags name, which come from Secrets and ConfigMaps: flag → {secret | configMap, key}, in YAML.
They are mounted beside the folders of secretFiles, so that no reference in git can name them. */ -}}
{{- define "jibe.files" -}}
{{- $files := dict
  "verify-desired" .Values.desired.verify
  "webhook-secret" .Values.desired.webhookSecret
  "forge-token" .Values.desired.forge.token
  "git-credentials" .Values.git.credentials
  "git-ca" .Values.git.ca
  "git-ssh-key" .Values.git.sshKey
  "git-known-hosts" .Values.git.knownHosts
  "package-trust" .Values.packages.trust
  "prometheus-token" .Values.rollouts.prometheusToken
  "keystone-ca" .Values.auth.keystone.ca
  "oidc-ca" .Values.auth.oidc.ca
  "oidc-roles" .Values.auth.oidc.rolesFile
  "client-ca" .Values.auth.clientCA
  "notify-ca" .Values.notifications.ca
  "otlp-headers-file" .Values.tracing.headers
  "store-password" .Values.store.password
  "store-sentinel-password" .Values.store.sentinelPassword
  "store-ca" .Values.store.ca
  "key-kms-token-file" .Values.identity.kms.token
  "key-kms-ca" .Values.identity.kms.ca }}
{{- with .Values.notifications.clientCertificate }}
{{- $files = merge $files (dict "notify-client-cert" (dict "secret" . "key" "tls.crt") "notify-client-key" (dict "secret" . "key" "tls.key")) }}
{{- end }}
{{- /* No name of a repository begins with an underscore. */}}
{{- range $repository, $file := .Values.packages.verify }}
{{- $files = set $files (printf "verify-packages-%s" ($repository | replace "*" "_any")) $file }}
{{- end }}
{{- range $flag, $file := $files }}
{{- if $file }}
{{ $flag }}: {{ toJson $file }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The flags that values stand for. What a value leaves open is left to Jibe, whose defaults stand nowhere else. */ -}}
{{- define "jibe.flags" -}}
{{- $repositories := .Values.packages.verify }}
{{- range $flag, $_ := include "jibe.files" . | fromYaml }}
{{- /* Those of git are for git. The URL of the store names its authority's certificate; its passwords, the secret of webhooks and the tokens of the forge and of Prometheus are references. */}}
{{- if not (or (hasPrefix "verify-packages-" $flag) (hasPrefix "git-" $flag) (eq "store-ca" $flag)) }}
- --{{ $flag }}={{ ternary "file:" "" (or (hasPrefix "store-" $flag) (has $flag (list "webhook-secret" "forge-token" "prometheus-token"))) }}/etc/jibe/files/{{ $flag }}
{{- end }}
{{- end }}
{{- range $repository, $_ := $repositories }}
- {{ printf "--verify-packages=%s=/etc/jibe/files/verify-packages-%s" $repository ($repository | replace "*" "_any") | quote }}
{{- end }}
{{- with .Values.desired }}
{{- with .pushInterval }}
- --push-interval={{ . }}
{{- end }}
{{- with .forge }}
{{- with .kind }}
- --forge={{ . }}
{{- end }}
{{- with .url }}
- --forge-url={{ . }}
{{- end }}
{{- with .repository }}
- --forge-repository={{ . }}
{{- end }}
{{- with .rate }}
- --forge-rate={{ . }}
{{- end }}
{{- end }}
{{- if .openWebhook }}
- --open-webhook
{{- end }}
{{- if .requireSignedPush }}
- --require-signed-push
{{- end }}
{{- if .share }}
- --share-desired
{{- end }}
{{- end }}
{{- if .Values.packages.requireSignatures }}
- --require-signatures
{{- end }}
{{- with .Values.identity.kms.url }}
- {{ printf "--key-kms=%s" . | quote }}
{{- end }}
{{- with .Values.auth.keystone }}
{{- with .url }}
- {{ printf "--keystone=%s" . | quote }}
{{- end }}
{{- range .roles }}
- {{ printf "--keystone-role=%s" . | quote }}
{{- end }}
{{- range .projects }}
- {{ printf "--keystone-project=%s" . | quote }}
{{- end }}
{{- end }}
{{- with .Values.auth.oidc }}
{{- range $flag, $value := dict "issuer" .issuer "audience" .audience "name-claim" .nameClaim "roles-claim" .rolesClaim "projects-claim" .projectsClaim }}
{{- if $value }}
- {{ printf "--oidc-%s=%s" $flag $value | quote }}
{{- end }}
{{- end }}
{{- range .roles }}
- {{ printf "--oidc-role=%s" . | quote }}
{{- end }}
{{- if .idTokens }}
- --oidc-id-tokens
{{- end }}
{{- end }}
{{- with .Values.rollouts.prometheus }}
- {{ printf "--prometheus=%s" . | quote }}
{{- end }}
{{- if .Values.metrics.open }}
- --open-metrics
{{- end }}
{{- with .Values.audit }}
{{- if .stdout }}
- --audit=-
{{- end }}
{{- if .allowUnaudited }}
- --allow-unaudited
{{- end }}
{{- end }}
{{- with .Values.api }}
{{- with .maxConnections }}
- --max-connections={{ int . }}
{{- end }}
{{- with .maxConnectionsPerAddress }}
- --max-connections-per-address={{ int . }}
{{- end }}
{{- end }}
{{- with .Values.ui }}
{{- if not .enabled }}
- --no-ui
{{- end }}
{{- with .session }}
- --ui-session={{ . }}
{{- end }}
{{- with .idle }}
- --ui-idle={{ . }}
{{- end }}
{{- end }}
{{- with .Values.operations }}
{{- with .workers }}
- --workers={{ int . }}
{{- end }}
{{- with .timeout }}
- --timeout={{ . }}
{{- end }}
{{- range $type, $timeout := .timeouts }}
- --timeout-for={{ $type }}={{ $timeout }}
{{- end }}
{{- with .startTimeout }}
- --start-timeout={{ . }}
{{- end }}
{{- with .keep }}
- {{ printf "--keep-operations=%s" . | quote }}
{{- end }}
{{- end }}
{{- with .Values.hooks }}
{{- with .timeout }}
- --hook-timeout={{ . }}
{{- end }}
{{- range .paths }}
- {{ printf "--hook-path=%s" . | quote }}
{{- end }}
{{- range .ports }}
- --hook-port={{ . }}
{{- end }}
{{- range $name, $limit := .limits }}
- --hook-limit={{ $name }}={{ kindIs "string" $limit | ternary $limit (int64 $limit) }}
{{- end }}
{{- end }}
{{- if .Values.vim.skipCertificateVerification }}
- --allow-skip-certificate-verification
{{- end }}
{{- with .Values.notifications.retention }}
- --notify-retention={{ . }}
{{- end }}
{{- with .Values.egress }}
{{- range .allow }}
- --egress-allow={{ . }}
{{- end }}
{{- range .deny }}
- --egress-deny={{ . }}
{{- end }}
{{- if .proxy }}
- --egress-proxy
{{- end }}
{{- if .plainCredentials }}
- --allow-credentials-over-http
{{- end }}
{{- end }}
{{- with .Values.store }}
{{- with .url }}
- {{ printf "--store=%s" . | quote }}
{{- end }}
{{- with .waitForReplicas }}
- --redis-wait={{ int . }}
{{- end }}
{{- end }}
{{- with .Values.tracing }}
{{- with .endpoint }}
- {{ printf "--otlp-endpoint=%s" . | quote }}
{{- end }}
{{- if ne (float64 .ratio) 1.0 }}
- --trace-ratio={{ .ratio }}
{{- end }}
{{- end }}
{{- end -}}
