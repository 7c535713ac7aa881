{{/* Not empty where pods have volumes of their own: replicas of an election, and shards. */}}
{{- define "kubedelta.stateful" -}}
{{- if or (gt (int .Values.shards) 1) (include "kubedelta.election" .) -}}yes{{- end -}}
{{- end -}}

{{/* The port at which a leader serves its followers; empty without an election. */}}
{{- define "kubedelta.replicationPort" -}}
{{- $election := .Values.config.election | default dict -}}
{{- if $election.enabled -}}
{{- if and (hasKey $election "port") (not $election.port) -}}
{{- fail "config.election.port: a fixed port is needed, such as 8083" -}}
{{- end -}}
{{- $election.port | default 8083 -}}
{{- end -}}
{{- end -}}

{{/* The headless Service, by which each pod has a name. */}}
{{- define "kubedelta.replicas" -}}
{{ include "kubedelta.fullname" . }}-replicas
{{- end -}}

{{/* The section of the configuration for an election; empty without one. */}}
{{- define "kubedelta.election" -}}
{{- $written := .Values.config.election | default dict -}}
{{- if and (gt (int .Values.replicas) 1) (not $written.enabled) -}}
{{- fail (printf "replicas: %v: set config.election.enabled, too, since one of them delivers: docs/replicas.md" .Values.replicas) -}}
{{- end -}}
{{- if $written.enabled -}}
{{- if not (or .Values.redaction.existingSecret (.Values.config.redaction | default dict).key_file) -}}
{{- fail "redaction.existingSecret: name a Secret with the key of digests, since replicas with keys of their own would export different digests of one value: docs/replicas.md" -}}
{{- end -}}
{{- if .Values.persistence.existingClaim -}}
{{- fail "persistence.existingClaim: leave it out, since each replica has a claim of its own. How the present claim becomes that of the first: docs/replicas.md" -}}
{{- end -}}
{{- if $written.identity -}}
{{- fail "config.election.identity: leave it out, since each replica has the name of its pod" -}}
{{- end -}}
{{- dict "election" (dict "enabled" true "lease" ($written.lease | default (include "kubedelta.fullname" .))) | toYaml -}}
{{- end -}}
{{- end -}}

{{/* Where replicas may run: the values' constraints, or each on a node of its own, and in zones of their own if they can
be. A JSON list. "root" and "group" as for kubedelta.pod. */}}
{{- define "kubedelta.spread" -}}
{{- $own := .root.Values.topologySpreadConstraints -}}
{{- if and (not $own) (include "kubedelta.election" .root) -}}
{{- $labels := include "kubedelta.groupSelector" . | fromYaml -}}
{{- $own = list
  (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "DoNotSchedule" "labelSelector" (dict "matchLabels" $labels))
  (dict "maxSkew" 1 "topologyKey" "topology.kubernetes.io/zone" "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" (dict "matchLabels" $labels))
-}}
{{- end -}}
{{- toJson $own -}}
{{- end -}}

{{/* The labels of a group's pods alone. "root" and "group" as for kubedelta.pod. */}}
{{- define "kubedelta.groupSelector" -}}
{{ include "kubedelta.selector" .root }}
{{- with .group.component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}
