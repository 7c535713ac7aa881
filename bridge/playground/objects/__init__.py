"""Kinds, storage and writes.

builtin      kinds of Kubernetes 1.36
catalogue    served kinds and their paths
columns      the columns of each kind, their cells, and tables of them: the form that kubectl prints
crds         kinds that a CustomResourceDefinition adds
objects      manifests into stored bytes and back, the two forms of an event, and managedFields
state        store and kinds, with the rules for create, update, patch and delete
store        objects in versions, as etcd and the watch cache have them
"""
