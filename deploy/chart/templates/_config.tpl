{{/* The configuration as YAML: the values' config over the state and telemetry of files/kubedelta.yaml, or that file. A
null section is a missing section, as for the loader. */}}
{{- define "kubedelta.config" -}}
{{- $file := .Files.Get "files/kubedelta.yaml" -}}
{{- if .Values.config -}}
{{- $own := dict -}}
{{- range $section, $options := .Values.config -}}
  {{- if not (kindIs "invalid" $options) -}}{{- $_ := set $own $section (deepCopy $options) -}}{{- end -}}
{{- end -}}
{{- mergeOverwrite (pick (fromYaml $file) "state" "telemetry") $own | toYaml -}}
{{- else -}}
{{- trimSuffix "\n" $file -}}
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

{{/* Seconds until the kubelet kills the bridge: 10 more than shutdown_grace_seconds. */}}
{{- define "kubedelta.grace" -}}
{{- $grace := (include "kubedelta.config" . | fromYaml).shutdown_grace_seconds | default 20 | toString -}}
{{- $unit := regexFind "(ms|[smhd])$" $grace -}}
{{- $seconds := get (dict "ms" 0.001 "m" 60 "h" 3600 "d" 86400) $unit | default 1 -}}
{{- mulf (trimSuffix $unit $grace | float64) $seconds | ceil | add 10 -}}
{{- end -}}

{{/* The mount path of the state. */}}
{{- define "kubedelta.state" -}}
{{- $directory := (include "kubedelta.config" . | fromYaml).state.directory -}}
{{- if not (isAbs $directory) -}}
{{- fail (printf "config.state.directory: %s: an absolute path is needed, since the volume is mounted there" $directory) -}}
{{- end -}}
{{- $directory -}}
{{- end -}}
