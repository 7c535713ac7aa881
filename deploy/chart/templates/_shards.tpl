{{/* The replicas that elect among themselves: one group, or one for each shard; while their number changes, those of both
numbers. A JSON list of "name", "component", "of", "index", "former" (the number before, 0 for none) and "lease". */}}
{{- define "kubedelta.groups" -}}
{{- $_ := include "kubedelta.refusedShards" . -}}
{{- $groups := include "kubedelta.division" (dict "root" . "of" .Values.shards "former" .Values.formerShards) | fromJsonArray -}}
{{- with .Values.formerShards -}}
{{- $groups = concat $groups (include "kubedelta.division" (dict "root" $ "of" . "former" 0) | fromJsonArray) -}}
{{- end -}}
{{- range $groups -}}
{{- if and (include "kubedelta.stateful" $) (gt (len .name) 52) -}}
{{- fail (printf "fullnameOverride: %s: the API server takes at most 52 characters for a StatefulSet with pods" .name) -}}
{{- end -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/* The groups of one number of shards, "of". "former" as in kubedelta.groups. */}}
{{- define "kubedelta.division" -}}
{{- $name := include "kubedelta.fullname" .root -}}
{{- $lease := (.root.Values.config.election | default dict).lease | default $name -}}
{{- $of := int .of -}}
{{- $former := int .former -}}
{{- $groups := list -}}
{{- range until $of -}}
  {{- $suffix := eq $of 1 | ternary "" (printf "-%d-of-%d" . $of) -}}
  {{- $component := empty $suffix | ternary "bridge" (printf "shard%s" $suffix) -}}
  {{- $component = empty (include "kubedelta.stateful" $.root) | ternary "" $component -}}
  {{- $groups = append $groups (dict "name" (print $name $suffix) "lease" (print $lease $suffix) "component" $component "of" $of "index" . "former" $former) -}}
{{- end -}}
{{- toJson $groups -}}
{{- end -}}

{{/* Fails for values of shards that no bridge can have. */}}
{{- define "kubedelta.refusedShards" -}}
{{- $written := .Values.config.shard | default dict -}}
{{- $shards := int .Values.shards -}}
{{- $former := int .Values.formerShards -}}
{{- range $name := list "index" "former" -}}
{{- if hasKey $written $name -}}
{{- fail (printf "config.shard.%s: leave it out, since each pod has its own, by shards and formerShards" $name) -}}
{{- end -}}
{{- end -}}
{{- if and $written (ne (int $written.of) $shards) -}}
{{- fail (printf "config.shard.of: found %v; shards is %v, and each shard needs a pod of its own: set both to one number" $written.of $shards) -}}
{{- end -}}
{{- if and $former (eq $former $shards) -}}
{{- fail (printf "formerShards: found %d, which is shards: set it to the number before, or to 0 when its pods have handed over" $former) -}}
{{- end -}}
{{- if and $former (not (include "kubedelta.election" .)) -}}
{{- fail "formerShards: set config.election.enabled, too, since the former shards hand over by their Leases: docs/large-clusters.md" -}}
{{- end -}}
{{- if and (or $former (gt $shards 1)) .Values.persistence.existingClaim -}}
{{- fail "persistence.existingClaim: leave it out, since each pod of a shard has a claim of its own" -}}
{{- end -}}
{{- end -}}

{{/* The environment by which a pod knows its shard. "root" and "group" as for kubedelta.pod. A YAML list; empty for all
objects. */}}
{{- define "kubedelta.shardEnv" -}}
{{- $shard := dict -}}
{{- if or (gt (int .group.of) 1) .group.former -}}
{{- $shard = dict "OF" .group.of "INDEX" .group.index -}}
{{- with (.root.Values.config.shard | default dict).by -}}{{- $_ := set $shard "BY" . -}}{{- end -}}
{{- with .group.former -}}{{- $_ := set $shard "FORMER" . -}}{{- end -}}
{{- end -}}
{{- range $name, $value := $shard }}
- name: KUBEDELTA__SHARD__{{ $name }}
  value: {{ toString $value | quote }}
{{- end }}
{{- end -}}
