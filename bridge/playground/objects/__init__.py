"""Kinds, storage and writes.

builtin      kinds of Kubernetes 1.36
catalogue    served kinds and their paths
columns      the columns of each kind, and their cells
crds         kinds that a CustomResourceDefinition adds
events       the two forms of an event
objects      manifests into stored bytes and back, and their managedFields
semantics    changes that count, generations, grace periods
state        store, kinds, writer, and the wait for a version
store        objects in versions, as etcd and the watch cache have them
validation   rules for writes and deletes
writes       create, update, patch, delete
"""
