{{/* The configuration as YAML: the values' config over the state and telemetry of files/kubedelta.yaml, or that file. A
null section is a missing section, as for the loader. Files with keys and the election are added. The shard is in
the pod's environment. */}}
{{- define "kubedelta.config" -}}
{{- $file := .Files.Get "files/kubedelta.yaml" -}}
{{- $added := dict -}}
{{- range list "encryption" "redaction" "election" -}}
  {{- $added = merge $added (include (printf "kubedelta.%s" .) $ | fromYaml) -}}
{{- end -}}
{{- if or .Values.config $added -}}
{{- $own := dict -}}
{{- range $section, $options := .Values.config -}}
  {{- if not (kindIs "invalid" $options) -}}{{- $_ := set $own $section (deepCopy $options) -}}{{- end -}}
{{- end -}}
{{- $base := fromYaml $file -}}
{{- if .Values.config -}}{{- $base = pick $base "state" "telemetry" -}}{{- end -}}
{{- $_ := unset $own "shard" -}}
{{- mergeOverwrite $base $own $added | toYaml -}}
{{- else -}}
{{- trimSuffix "\n" $file -}}
{{- end -}}
{{- end -}}

{{/* Where the keys of encryption are mounted. */}}
{{- define "kubedelta.keys" -}}
/etc/kubedelta-secrets/state
{{- end -}}

{{/* The part of the configuration that names the keys of encryption; empty without a Secret. */}}
{{- define "kubedelta.encryption" -}}
{{- with .Values.encryption -}}
{{- if and .existingSecret (not .keys) -}}
{{- fail (printf "encryption.keys: name the entries of the Secret %s that are keys, the newest first" .existingSecret) -}}
{{- end -}}
{{- if and .keys (not .existingSecret) -}}
{{- fail "encryption.existingSecret: name the Secret that has encryption.keys" -}}
{{- end -}}
{{- if and .keys ((($.Values.config).state).encryption).key_files -}}
{{- fail "config.state.encryption.key_files: the files of encryption.keys would replace them; leave one of the two out" -}}
{{- end -}}
{{- $files := list -}}
{{- range .keys -}}{{- $files = append $files (printf "%s/%s" (include "kubedelta.keys" $) .) -}}{{- end -}}
{{- if $files -}}
{{- dict "state" (dict "encryption" (dict "key_files" $files)) | toYaml -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where the key of digests is mounted. */}}
{{- define "kubedelta.redactionKey" -}}
/etc/kubedelta-secrets/redaction
{{- end -}}

{{/* The part of the configuration that names the key of digests; empty without a Secret. */}}
{{- define "kubedelta.redaction" -}}
{{- if .Values.redaction.existingSecret -}}
{{- if (.Values.config.redaction | default dict).key_file -}}
{{- fail "config.redaction.key_file: the file of redaction.key would replace it; leave one of the two out" -}}
{{- end -}}
{{- $file := printf "%s/%s" (include "kubedelta.redactionKey" .) .Values.redaction.key -}}
{{- dict "redaction" (dict "key_file" $file) | toYaml -}}
{{- end -}}
{{- end -}}

{{/* The port of telemetry.listen. */}}
{{- define "kubedelta.port" -}}
{{- $listen := (include "kubedelta.config" . | fromYaml).telemetry.listen -}}
{{- if regexMatch "^(127\\.|localhost|\\[::1\\])|:0$" $listen -}}
{{- fail (printf "config.telemetry.listen: %s: the kubelet's probes need a fixed port that is open beyond the pod, such as \":8080\"" $listen) -}}
{{- end -}}
{{- regexFind "[0-9]+$" $listen -}}
{{- end -}}

{{/* The port of page.listen; empty without a page, and for a page that only kubectl port-forward reaches. */}}
{{- define "kubedelta.pagePort" -}}
{{- $listen := ((include "kubedelta.config" . | fromYaml).page | default dict).listen | default "" -}}
{{- if hasSuffix ":0" $listen -}}
{{- fail (printf "config.page.listen: %s: a fixed port is needed, such as 127.0.0.1:8081" $listen) -}}
{{- end -}}
{{- if not (regexMatch "^(127\\.|localhost|\\[::1\\])" $listen) -}}
{{- regexFind "[0-9]+$" $listen -}}
{{- end -}}
{{- end -}}

{{/* Seconds until the kubelet kills the bridge: 10 more than shutdown_grace_seconds, and in an election the time in which
a leader tries to release the Lease. */}}
{{- define "kubedelta.grace" -}}
{{- $config := include "kubedelta.config" . | fromYaml -}}
{{- $grace := include "kubedelta.seconds" ($config.shutdown_grace_seconds | default 20) | float64 -}}
{{- $election := $config.election | default dict -}}
{{- if $election.enabled -}}
{{- $grace = addf $grace (include "kubedelta.seconds" ($election.renew_deadline | default 10) | float64) -}}
{{- end -}}
{{- $grace | ceil | add 10 -}}
{{- end -}}

{{/* The seconds of a duration. */}}
{{- define "kubedelta.seconds" -}}
{{- $written := toString . -}}
{{- $unit := regexFind "(ms|[smhd])$" $written -}}
{{- mulf (trimSuffix $unit $written | float64) (get (dict "ms" 0.001 "m" 60 "h" 3600 "d" 86400) $unit | default 1) -}}
{{- end -}}

{{/* The mount path of the state. */}}
{{- define "kubedelta.state" -}}
{{- $directory := (include "kubedelta.config" . | fromYaml).state.directory -}}
{{- if not (isAbs $directory) -}}
{{- fail (printf "config.state.directory: %s: an absolute path is needed, since the volume is mounted there" $directory) -}}
{{- end -}}
{{- $directory -}}
{{- end -}}
