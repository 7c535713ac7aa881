"""Knows the served resources, and kubectl's names for them.

``discovery`` requests the documents, ``documents`` reads them into groups of resources, and a ``catalogue`` of these
resolves the names that operators write. Requests are answered with a 304 while the documents stay the same. What an
aggregated API server writes is checked name by name: a bad one is rejected, reported and missing, and its neighbours
stay.

catalogue   holds the served resources, and resolves kubectl's names for them
discovery   requests the documents, with ETags
documents   reads both forms of discovery documents, and bounds their names and counts
"""
