{{/* The template of a pod. "root": the chart's context; "group": one of kubedelta.groups. */}}
{{- define "kubedelta.pod" -}}
{{- $root := .root -}}
{{- $group := .group -}}
{{- $stateful := include "kubedelta.stateful" .root -}}
{{- with .root -}}
metadata:
  annotations:
    {{- if .Values.restartOnConfigChange }}
    checksum/config: {{ include "kubedelta.config" . | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "kubedelta.labels" . | nindent 4 }}
    {{- with $group.component }}
    app.kubernetes.io/component: {{ . }}
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "kubedelta.serviceAccount" . }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- range $field := list "priorityClassName" "nodeSelector" "affinity" "tolerations" }}
  {{- with get $root.Values $field }}
  {{ $field }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with include "kubedelta.spread" $ | fromYamlArray }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ include "kubedelta.grace" . }} # more than shutdown_grace_seconds
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: kubedelta
      image: {{ include "kubedelta.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run, --config, /etc/kubedelta/kubedelta.yaml]
      {{- if or .Values.env $stateful }}
      env:
        {{- if $stateful }}
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- end }}
        {{- with include "kubedelta.shardEnv" $ | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with .Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        - name: http
          containerPort: {{ include "kubedelta.port" . }}
        {{- with include "kubedelta.pagePort" . }}
        - name: page
          containerPort: {{ . }}
        {{- end }}
        {{- with include "kubedelta.replicationPort" . }}
        - name: replication
          containerPort: {{ . }}
        {{- end }}
      # Opening a state with millions of records takes a while.
      startupProbe:
        httpGet:
          path: /healthz
          port: http
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 150
      # Alive is that the loop goes round: the API server and the sinks do not count, since a restart heals
      # neither.
      livenessProbe:
        httpGet:
          path: /healthz
          port: http
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet:
          path: /readyz
          port: http
        periodSeconds: 10
        timeoutSeconds: 5
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /etc/kubedelta
          readOnly: true
        - name: state
          mountPath: {{ include "kubedelta.state" . }}
        - name: tmp
          mountPath: /tmp
        {{- range $index, $secret := .Values.secrets }}
        - name: secret-{{ $index }}
          mountPath: {{ .mountPath }}
          readOnly: true
        {{- end }}
        {{- if .Values.encryption.existingSecret }}
        - name: encryption
          mountPath: {{ include "kubedelta.keys" . }}
          readOnly: true
        {{- end }}
        {{- if .Values.redaction.existingSecret }}
        - name: redaction
          mountPath: {{ include "kubedelta.redactionKey" . }}
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "kubedelta.fullname" . }}
    {{- if not (and $stateful .Values.persistence.enabled) }}
    - name: state
      {{- if .Values.persistence.enabled }}
      persistentVolumeClaim:
        claimName: {{ include "kubedelta.claim" . }}
      {{- else }}
      emptyDir: {}
      {{- end }}
    {{- end }}
    - name: tmp
      emptyDir:
        medium: Memory
        sizeLimit: 16Mi
    {{- range $index, $secret := .Values.secrets }}
    - name: secret-{{ $index }}
      secret:
        secretName: {{ .name }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.encryption.existingSecret }}
    - name: encryption
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.redaction.existingSecret }}
    - name: redaction
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
{{- end -}}
