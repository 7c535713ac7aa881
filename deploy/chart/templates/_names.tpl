{{- define "kubedelta.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kubedelta.fullname" -}}
{{- $name := include "kubedelta.name" . -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $full | trunc 57 | trimSuffix "-" -}}
{{- end -}}

{{- define "kubedelta.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "kubedelta.fullname" .) "default") -}}
{{- end -}}

{{- define "kubedelta.claim" -}}
{{- .Values.persistence.existingClaim | default (printf "%s-state" (include "kubedelta.fullname" .)) -}}
{{- end -}}

{{- define "kubedelta.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kubedelta.selector" -}}
app.kubernetes.io/name: {{ include "kubedelta.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kubedelta.labels" -}}
{{ include "kubedelta.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The spec of a volume's claim. */}}
{{- define "kubedelta.claimSpec" -}}
spec:
  accessModes: [{{ .Values.persistence.accessMode }}] # a block volume; NFS does not keep SQLite's locks
  {{- with .Values.persistence.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .Values.persistence.size }}
{{- end -}}
