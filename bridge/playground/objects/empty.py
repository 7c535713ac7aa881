"""The members that Go writes even for an empty object (no ``omitempty``). Bookmarks have them."""

from __future__ import annotations

_ROWS = """
apiservices.apiregistration.k8s.io {"spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}}
certificatesigningrequests.certificates.k8s.io {"spec":{"request":null,"signerName":""},"status":{}}
clusterrolebindings.rbac.authorization.k8s.io {"roleRef":{"apiGroup":"","kind":"","name":""}}
clusterroles.rbac.authorization.k8s.io {"rules":null}
controllerrevisions.apps {"data":null,"revision":0}
cronjobs.batch {"spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},
    "spec":{"containers":null}}}}},"status":{}}
csidrivers.storage.k8s.io {"spec":{}}
csinodes.storage.k8s.io {"spec":{"drivers":null}}
csistoragecapacities.storage.k8s.io {"storageClassName":""}
customresourcedefinitions.apiextensions.k8s.io {"spec":{"group":"","names":{"plural":"","kind":""},"scope":"",
    "versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}}
daemonsets.apps {"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},
    "updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,
    "numberReady":0}}
deployments.apps {"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},
    "strategy":{}},"status":{}}
deviceclasses.resource.k8s.io {"spec":{}}
endpointslices.discovery.k8s.io {"addressType":"","endpoints":null,"ports":null}
events {"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,
    "reportingComponent":"","reportingInstance":""}
events.events.k8s.io {"eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,
    "deprecatedLastTimestamp":null}
flowschemas.flowcontrol.apiserver.k8s.io {"spec":{"priorityLevelConfiguration":{"name":""},
    "matchingPrecedence":0},"status":{}}
horizontalpodautoscalers.autoscaling {"spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},
    "status":{"desiredReplicas":0,"currentMetrics":null}}
horizontalpodautoscalers.autoscaling/v1 {"spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},
    "status":{"currentReplicas":0,"desiredReplicas":0}}
ingressclasses.networking.k8s.io {"spec":{}}
ingresses.networking.k8s.io {"spec":{},"status":{"loadBalancer":{}}}
ipaddresses.networking.k8s.io {"spec":{}}
jobs.batch {"spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}}
leases.coordination.k8s.io {"spec":{}}
limitranges {"spec":{"limits":null}}
mutatingadmissionpolicies.admissionregistration.k8s.io {"spec":{}}
mutatingadmissionpolicybindings.admissionregistration.k8s.io {"spec":{}}
namespaces {"spec":{},"status":{}}
networkpolicies.networking.k8s.io {"spec":{"podSelector":{}}}
nodes {"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"",
    "systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"",
    "kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}
persistentvolumeclaims {"spec":{"resources":{}},"status":{}}
persistentvolumes {"spec":{},"status":{}}
poddisruptionbudgets.policy {"spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,
    "expectedPods":0}}
pods {"spec":{"containers":null},"status":{}}
podtemplates {"template":{"metadata":{},"spec":{"containers":null}}}
priorityclasses.scheduling.k8s.io {"value":0}
prioritylevelconfigurations.flowcontrol.apiserver.k8s.io {"spec":{"type":""},"status":{}}
replicasets.apps {"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},
    "status":{"replicas":0}}
replicationcontrollers {"spec":{},"status":{"replicas":0}}
resourceclaims.resource.k8s.io {"spec":{"devices":{"requests":null}},"status":{}}
resourceclaimtemplates.resource.k8s.io {"spec":{"metadata":{},"spec":{"devices":{"requests":null}}}}
resourcequotas {"spec":{},"status":{}}
resourceslices.resource.k8s.io {"spec":{"driver":"","pool":{"name":"","generation":0,"resourceSliceCount":0}}}
rolebindings.rbac.authorization.k8s.io {"roleRef":{"apiGroup":"","kind":"","name":""}}
roles.rbac.authorization.k8s.io {"rules":null}
runtimeclasses.node.k8s.io {"handler":""}
servicecidrs.networking.k8s.io {"spec":{},"status":{}}
services {"spec":{},"status":{"loadBalancer":{}}}
statefulsets.apps {"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},
    "serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}}
storageclasses.storage.k8s.io {"provisioner":""}
validatingadmissionpolicies.admissionregistration.k8s.io {"spec":{},"status":{}}
validatingadmissionpolicybindings.admissionregistration.k8s.io {"spec":{}}
volumeattachments.storage.k8s.io {"spec":{"attacher":"","source":{},"nodeName":""},"status":{"attached":false}}
volumeattributesclasses.storage.k8s.io {"driverName":""}
"""

MEMBERS: dict[str, bytes] = {
    name: text.encode()
    for name, _, text in (row.partition(" ") for row in _ROWS.replace("\n    ", "").strip().splitlines())
}
"""Name of the resource (or name/version, if versions differ) → JSON of an object."""
