"""Served resources, and kubectl's names for them.

catalogue   the served resources (pure); short names of built-in resources; resolves kubectl's names (pure)
discovery   requests the documents, with ETags
documents   bounds names and counts of a discovery document (pure); reads both forms of discovery documents (pure)
"""
