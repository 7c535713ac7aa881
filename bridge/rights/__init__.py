"""The rights that a configuration needs in its cluster, and no others.

built_in     names that mean the same on every cluster
granted      asks the API server which of them the bridge has
manifests    rights as Roles and ClusterRoles with their bindings
rights       the rights of each entry of ``resources`` (pure)
"""

from bridge.rights.built_in import built_in_catalogue, is_built_in, is_written_out
from bridge.rights.granted import missing_of, who_am_i
from bridge.rights.manifests import Subject, manifests
from bridge.rights.rights import IDENTITY, VERBS, ClusterWide, Right, election_rights, in_namespaces, rights_of

__all__ = [
    "IDENTITY",
    "VERBS",
    "ClusterWide",
    "Right",
    "Subject",
    "built_in_catalogue",
    "election_rights",
    "in_namespaces",
    "is_built_in",
    "is_written_out",
    "manifests",
    "missing_of",
    "rights_of",
    "who_am_i",
]
