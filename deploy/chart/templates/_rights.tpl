{{/* The rights that `kubedelta rbac` derives from the same configuration, as a JSON list in the same order. */}}
{{- define "kubedelta.rights" -}}
{{- $known := .Files.Get "files/resources.json" | fromJson -}}
{{- $verbs := list "list" "watch" -}}
{{- $rights := list -}}
{{- range (include "kubedelta.config" . | fromYaml).resources -}}
  {{- $entry := kindIs "string" . | ternary (dict "resource" .) . -}}
  {{- $written := $entry.resource | trim | lower -}}
  {{- $word := regexFind "^[^.]*" $written -}}
  {{- $rest := trimPrefix "." (trimPrefix $word $written) -}}
  {{- $group := regexReplaceAll "^v[0-9]+((alpha|beta)[0-9]+)?(\\.|$)" $rest "" -}}
  {{- $name := include "kubedelta.onlyName" ($entry.field_selector | default "") -}}
  {{- $namespaces := $entry.namespaces | default (list "") -}}
  {{- $builtIn := get $known (empty $rest | ternary $word (printf "%s.%s" $word $group)) -}}
  {{- if $builtIn -}}
    {{- $word = $builtIn.resource -}}
    {{- $group = $builtIn.group -}}
    {{- if not $builtIn.namespaced -}}{{- $namespaces = list "" -}}{{- end -}}
  {{- else if eq $word "*" -}}
    {{- if $entry.namespaces -}}
      {{- fail (printf "config.resources: %s: only the cluster knows which of these resources have no namespace. Set rbac.create to false, and apply the output of: kubedelta rbac -c FILE --service-account %s/%s" $entry.resource $.Release.Namespace (include "kubedelta.serviceAccount" $)) -}}
    {{- end -}}
    {{- $group = empty $rest | ternary "*" $group -}}
  {{- else if not $group -}}
    {{- fail (printf "config.resources: %s: Kubernetes has no resource of this name. Name a custom resource by plural and group, such as certificates.cert-manager.io" $entry.resource) -}}
  {{- end -}}
  {{- range $namespaces -}}
    {{- $rights = append $rights (dict "group" $group "resource" $word "namespace" . "name" $name "verbs" $verbs) -}}
    {{- if and $.Values.rbac.namespaced (not .) -}}
      {{- fail (printf "config.resources: %s: a Role cannot grant it in the whole cluster. Name the namespaces of this entry, or set rbac.namespaced to false" $entry.resource) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $namespace := .Values.rbac.namespaced | ternary "kube-system" "" -}}
{{- $rights = append $rights (dict "group" "" "resource" "namespaces" "namespace" $namespace "name" "kube-system" "verbs" (list "get")) -}}
{{- concat $rights (include "kubedelta.leaseRights" . | fromJsonArray) | uniq | toJson -}}
{{- end -}}

{{/* The rights on the Lease of an election, or on those of its shards. */}}
{{- define "kubedelta.leaseRights" -}}
{{- $rights := list -}}
{{- $election := (include "kubedelta.config" . | fromYaml).election | default dict -}}
{{- if $election.enabled -}}
  {{- $lease := dict "group" "coordination.k8s.io" "resource" "leases" "namespace" ($election.namespace | default .Release.Namespace) -}}
  {{- range include "kubedelta.groups" . | fromJsonArray -}}
    {{- $rights = append $rights (merge (dict "name" .lease "verbs" (list "get" "update" "watch")) $lease) -}}
  {{- end -}}
  {{- $rights = append $rights (merge (dict "name" "" "verbs" (list "create")) $lease) -}}
{{- end -}}
{{- toJson $rights -}}
{{- end -}}

{{/* The only name that a field selector admits, or nothing. */}}
{{- define "kubedelta.onlyName" -}}
{{- $names := list -}}
{{- range splitList "," . -}}
  {{- if regexMatch "^\\s*metadata\\.name\\s*=" . -}}
    {{- $names = append $names (regexReplaceAll "^[^=]*==?" . "" | trim) -}}
  {{- end -}}
{{- end -}}
{{- with first $names -}}{{ . }}{{- end -}}
{{- end -}}

{{/* Rules of RBAC for rights in the same namespace: resources of a group share a rule. */}}
{{- define "kubedelta.rules" -}}
{{- $rights := . -}}
{{- $shared := list -}}
{{- range $rights -}}{{- $shared = append $shared (pick . "group" "name" "verbs") -}}{{- end -}}
{{- range $rule := uniq $shared }}
- apiGroups: [{{ .group | quote }}]
  resources:
  {{- range $rights }}
  {{- if eq (pick . "group" "name" "verbs" | toJson) (toJson $rule) }}
    - {{ .resource | quote }}
  {{- end }}
  {{- end }}
  {{- with .name }}
  resourceNames: [{{ quote . }}]
  {{- end }}
  verbs: [{{ join ", " .verbs }}]
{{- end }}
{{- end -}}
