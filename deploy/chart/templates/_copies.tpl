{{/* Where the certificate and the token of base copies are mounted. */}}
{{- define "kubedelta.copyFiles" -}}
/etc/kubedelta-secrets/copies
{{- end -}}

{{/* The part of the configuration for copies of the leader's state; empty without Secrets. */}}
{{- define "kubedelta.baseCopy" -}}
{{- with .Values.baseCopy -}}
{{- if and .tokenSecret (not .tlsSecret) -}}
{{- fail "baseCopy.tlsSecret: name a Secret with tls.crt, tls.key and ca.crt, since the state crosses the network: docs/replicas.md" -}}
{{- end -}}
{{- if and .tlsSecret (not .tokenSecret) -}}
{{- fail "baseCopy.tokenSecret: name a Secret with a token, since whoever has it may read the state: docs/replicas.md" -}}
{{- end -}}
{{- if .tlsSecret -}}
{{- $election := $.Values.config.election | default dict -}}
{{- if not $election.enabled -}}
{{- fail "baseCopy: set config.election.enabled, too, since the leader of an election sends the copies: docs/replicas.md" -}}
{{- end -}}
{{- if $election.base_copy -}}
{{- fail "config.election.base_copy: baseCopy would replace it; leave one of the two out" -}}
{{- end -}}
{{- $files := include "kubedelta.copyFiles" $ -}}
{{- dict "election" (dict "base_copy" (dict
  "listen" (printf ":%v" .port)
  "token_file" (printf "%s/token/%s" $files .tokenKey)
  "cert_file" (printf "%s/tls/tls.crt" $files)
  "key_file" (printf "%s/tls/tls.key" $files)
  "ca_file" (printf "%s/tls/ca.crt" $files)
)) | toYaml -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The port of election.base_copy.listen; empty without copies, and for a port that no other pod reaches. */}}
{{- define "kubedelta.copyPort" -}}
{{- $election := (include "kubedelta.config" . | fromYaml).election | default dict -}}
{{- $copy := $election.base_copy | default dict -}}
{{- $listen := $copy.listen | default "" -}}
{{- if and $election.enabled $listen (not (regexMatch "^(127\\.|localhost|\\[::1\\])" $listen)) -}}
{{- if $copy.url -}}
{{- fail "config.election.base_copy.url: leave it out, since each replica has the name of its pod" -}}
{{- end -}}
{{- if hasSuffix ":0" $listen -}}
{{- fail (printf "config.election.base_copy.listen: %s: a fixed port is needed, such as \":8082\"" $listen) -}}
{{- end -}}
{{- regexFind "[0-9]+$" $listen -}}
{{- end -}}
{{- end -}}

{{/* The address of a pod for the other replicas; empty without copies. Its name has no domain of the cluster, which
resolv.conf adds. */}}
{{- define "kubedelta.copyUrl" -}}
{{- with include "kubedelta.copyPort" . -}}
{{- $copy := (include "kubedelta.config" $ | fromYaml).election.base_copy -}}
{{- $scheme := empty $copy.cert_file | ternary "http" "https" -}}
{{- printf "%s://$(POD_NAME).%s.%s.svc:%s" $scheme (include "kubedelta.replicas" $) $.Release.Namespace . -}}
{{- end -}}
{{- end -}}
