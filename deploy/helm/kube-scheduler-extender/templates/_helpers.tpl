{{- define "extender.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default "extender" .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The first label identifies the extender's own pods to preemption.protections.builtin.ownPods. */ -}}
{{- define "extender.selector" -}}
app.kubernetes.io/name: kube-scheduler-extender
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "extender.labels" -}}
{{ include "extender.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "extender.metadata" -}}
name: {{ .name }}
namespace: {{ .context.Release.Namespace }}
labels:
  {{- include "extender.labels" .context | nindent 2 }}
{{- end -}}

{{- define "extender.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "extender.tlsSecret" -}}
{{- default (printf "%s-tls" (include "extender.fullname" .)) .Values.tls.secretName -}}
{{- end -}}

{{- /* The scheduler's httpTimeout is that of the extender (server.httpTimeout). */ -}}
{{- define "extender.timeout" -}}
{{- dig "server" "httpTimeout" "5s" .Values.config -}}
{{- end -}}

{{- /* Name of kube-scheduler's file in /etc/extender/scheduler, or nothing. */ -}}
{{- define "extender.schedulerConfigFile" -}}
{{- if eq .Values.variant "SecondScheduler" -}}
kube-scheduler.yaml
{{- else if or .Values.schedulerConfig.configMap .Values.schedulerConfig.hostPath -}}
{{ .Values.schedulerConfig.key }}
{{- end -}}
{{- end -}}

{{- /* Minor in the tag of a second scheduler, such as 1.36; nothing if it says none. */ -}}
{{- define "extender.schedulerTag" -}}
{{- regexFind ":v?1\\.[0-9]+[^:/@]*(@.*)?$" .Values.scheduler.image | regexFind "1\\.[0-9]+" -}}
{{- end -}}

{{- /* Version of a second scheduler, such as 1.36.2: `auto` would find the cluster's own kube-scheduler. */ -}}
{{- define "extender.schedulerVersion" -}}
{{- $version := regexFind ":v?1\\.[0-9]+[^:/@]*(@.*)?$" .Values.scheduler.image | regexFind "1\\.[0-9]+(\\.[0-9]+)?" -}}
{{- required "scheduler.image: has no tag that says the version; set config.scheduler.version" $version -}}
{{- end -}}

{{- /*
kube-scheduler must not be newer than the API server. Without a cluster (helm template, helm lint) helm takes the
version that was new when helm was made, and knows no kind that only API servers have: then nothing is refused.
*/ -}}
{{- define "extender.refuseNewerScheduler" -}}
{{- $own := include "extender.schedulerTag" . | trimPrefix "1." -}}
{{- $server := regexReplaceAll "[^0-9]" .Capabilities.KubeVersion.Minor "" -}}
{{- if and (.Capabilities.APIVersions.Has "apiregistration.k8s.io/v1") (gt (int $own) (int $server)) -}}
{{- fail (printf "scheduler.image: v1.%s is newer than the API server, 1.%s" $own $server) -}}
{{- end -}}
{{- end -}}

{{- define "extender.probe" -}}
httpGet:
  path: {{ .path }}
  port: admin
  {{- if eq .context.Values.variant "Service" }}
  scheme: HTTPS
  {{- else if eq .context.Values.variant "ControlPlane" }}
  host: 127.0.0.1
  {{- end }}
{{- end -}}

{{- define "extender.container" -}}
- name: extender
  image: {{ include "extender.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [serve, --kubernetes, --config, /etc/extender/config/extender.yaml]
  {{- if eq .Values.variant "SecondScheduler" }}
  restartPolicy: Always  # a sidecar: starts before the scheduler and ends after it
  {{- end }}
  env:
  {{- if eq .Values.variant "ControlPlane" }}
  - name: EXTENDER_ADMIN__HOST
    value: 127.0.0.1
  {{- else }}
  - name: EXTENDER_ADMIN__HOST
    value: {{ .Values.listenAddress | quote }}
  {{- end }}
  {{- if eq .Values.variant "SecondScheduler" }}
  - name: EXTENDER_ADMIN__ALLOW_PLAIN_HTTP
    value: "true"
  {{- else if eq .Values.variant "Service" }}
  - name: EXTENDER_SERVER__HOST
    value: {{ .Values.listenAddress | quote }}
  - name: EXTENDER_SERVER__TLS__CERTIFICATE
    value: /etc/extender/tls/tls.crt
  - name: EXTENDER_SERVER__TLS__KEY
    value: /etc/extender/tls/tls.key
  - name: EXTENDER_SERVER__TLS__CLIENT_CA
    value: /etc/extender/tls/ca.crt
  - name: EXTENDER_SERVER__TLS__ALLOWED_NAMES
    value: {{ .Values.tls.allowedNames | toJson | quote }}
  - name: EXTENDER_ADMIN__TLS__CERTIFICATE
    value: /etc/extender/tls/tls.crt
  - name: EXTENDER_ADMIN__TLS__KEY
    value: /etc/extender/tls/tls.key
  {{- end }}
  {{- with include "extender.schedulerConfigFile" . }}
  - name: EXTENDER_SCHEDULER__CONFIG
    value: /etc/extender/scheduler/{{ . }}
  {{- end }}
  {{- if eq .Values.variant "SecondScheduler" }}
  {{- if not (dig "scheduler" "version" "" .Values.config) }}
  - name: EXTENDER_SCHEDULER__VERSION
    value: {{ include "extender.schedulerVersion" . | quote }}
  {{- end }}
  {{- with .Values.scheduler.featureGates }}
  - name: EXTENDER_SCHEDULER__FEATURE_GATES
    value: {{ toJson . | quote }}
  {{- end }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  ports:
  {{- if ne .Values.variant "SecondScheduler" }}
  - name: extender
    containerPort: 8888
  {{- end }}
  - name: admin
    containerPort: 8889
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  startupProbe:
    {{- include "extender.probe" (dict "path" "/livez" "context" .) | nindent 4 }}
    periodSeconds: 1
    failureThreshold: 60
  livenessProbe:
    {{- include "extender.probe" (dict "path" "/livez" "context" .) | nindent 4 }}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  readinessProbe:
    {{- include "extender.probe" (dict "path" "/readyz" "context" .) | nindent 4 }}
    periodSeconds: 5
    timeoutSeconds: 3
    failureThreshold: 2
  securityContext:
    {{- include "extender.containerSecurity" . | nindent 4 }}
  volumeMounts:
  - name: config
    mountPath: /etc/extender/config
    readOnly: true
  {{- if include "extender.schedulerConfigFile" . }}
  - name: scheduler-config
    mountPath: /etc/extender/scheduler
    readOnly: true
  {{- end }}
  {{- if eq .Values.variant "SecondScheduler" }}
  - name: extender-token  # replaces the scheduler's token
    mountPath: /var/run/secrets/kubernetes.io/serviceaccount
    readOnly: true
  {{- else if eq .Values.variant "Service" }}
  - name: tls
    mountPath: /etc/extender/tls
    readOnly: true
  {{- end }}
{{- end -}}

{{- /* What the extender's pods and the test pod have in common. */ -}}
{{- define "extender.placement" -}}
{{- $onNodes := eq .Values.variant "ControlPlane" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or $onNodes .Values.nodeSelector }}
nodeSelector:
  {{- if $onNodes }}
  node-role.kubernetes.io/control-plane: ""
  {{- end }}
  {{- with .Values.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "extender.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "extender.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "extender.schedulerContainer" -}}
{{- include "extender.refuseNewerScheduler" . -}}
- name: kube-scheduler
  image: {{ .Values.scheduler.image }}
  command:
  - kube-scheduler
  - --config=/etc/kubernetes/kube-scheduler.yaml
  {{- with .Values.scheduler.podMaxInUnschedulablePodsDuration }}
  - --pod-max-in-unschedulable-pods-duration={{ . }}
  {{- end }}
  {{- range $name, $value := .Values.scheduler.featureGates }}
  - --feature-gates={{ $name }}={{ $value }}
  {{- end }}
  ports:
  - name: scheduler
    containerPort: 10259
  resources:
    {{- toYaml .Values.scheduler.resources | nindent 4 }}
  startupProbe:
    httpGet: {path: /livez, port: scheduler, scheme: HTTPS}
    periodSeconds: 5
    failureThreshold: 24
  livenessProbe:
    httpGet: {path: /livez, port: scheduler, scheme: HTTPS}
    periodSeconds: 10
    timeoutSeconds: 15
    failureThreshold: 8
  readinessProbe:
    httpGet: {path: /readyz, port: scheduler, scheme: HTTPS}
    periodSeconds: 5
  securityContext:
    {{- include "extender.containerSecurity" . | nindent 4 }}
  volumeMounts:
  - name: scheduler-config
    mountPath: /etc/kubernetes
    readOnly: true
{{- end -}}
