"""A small cluster that changes by itself.

life        deployments roll and scale, pods crash, a CRD appears
manifests   manifests to create
stories     sequences of changes
"""
