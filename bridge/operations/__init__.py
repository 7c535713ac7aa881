"""Operations: what operators do to a bridge, running or stopped, and what they look at.

admin    commands for a running bridge over its socket, and for the state of a stopped one
check    ``kubedelta check``
page     the page for people
rights   names that mean the same on every cluster; the rights of each entry of ``resources`` (pure); rights as Roles
         and ClusterRoles with their bindings; asks the API server which of them the bridge has
verify   ``kubedelta verify``: compares a destination with the cluster

The rights that a configuration needs in its cluster, and no others.
"""
