{{/* The replicas that elect among themselves: one group, or one for each shard. A JSON list of "name", "component", "of",
"index" and "lease". */}}
{{- define "kubedelta.groups" -}}
{{- $_ := include "kubedelta.refusedShards" . -}}
{{- $groups := include "kubedelta.division" (dict "root" . "of" .Values.shards) | fromJsonArray -}}
{{- range $groups -}}
{{- if and (include "kubedelta.stateful" $) (gt (len .name) 52) -}}
{{- fail (printf "fullnameOverride: %s: the API server takes at most 52 characters for a StatefulSet with pods" .name) -}}
{{- end -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/* The groups of one number of shards, "of". */}}
{{- define "kubedelta.division" -}}
{{- $name := include "kubedelta.fullname" .root -}}
{{- $lease := (.root.Values.config.election | default dict).lease | default $name -}}
{{- $of := int .of -}}
{{- $groups := list -}}
{{- range until $of -}}
  {{- $suffix := eq $of 1 | ternary "" (printf "-%d-of-%d" . $of) -}}
  {{- $component := empty $suffix | ternary "bridge" (printf "shard%s" $suffix) -}}
  {{- $component = empty (include "kubedelta.stateful" $.root) | ternary "" $component -}}
  {{- $groups = append $groups (dict "name" (print $name $suffix) "lease" (print $lease $suffix) "component" $component "of" $of "index" .) -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/* Fails for values of shards that no bridge can have. */}}
{{- define "kubedelta.refusedShards" -}}
{{- $written := .Values.config.shard | default dict -}}
{{- $shards := int .Values.shards -}}
{{- if hasKey $written "index" -}}
{{- fail "config.shard.index: leave it out, since each pod has its own, by shards" -}}
{{- end -}}
{{- if and $written (ne (int $written.of) $shards) -}}
{{- fail (printf "config.shard.of: found %v; shards is %v, and each shard needs a pod of its own: set both to one number" $written.of $shards) -}}
{{- end -}}
{{- if and (gt $shards 1) .Values.persistence.existingClaim -}}
{{- fail "persistence.existingClaim: leave it out, since each pod of a shard has a claim of its own" -}}
{{- end -}}
{{- end -}}

{{/* The environment by which a pod knows its shard. "root" and "group" as for kubedelta.pod. A YAML list; empty for all
objects. */}}
{{- define "kubedelta.shardEnv" -}}
{{- $shard := dict -}}
{{- if gt (int .group.of) 1 -}}
{{- $shard = dict "OF" .group.of "INDEX" .group.index -}}
{{- with (.root.Values.config.shard | default dict).by -}}{{- $_ := set $shard "BY" . -}}{{- end -}}
{{- end -}}
{{- range $name, $value := $shard }}
- name: KUBEDELTA__SHARD__{{ $name }}
  value: {{ toString $value | quote }}
{{- end }}
{{- end -}}
