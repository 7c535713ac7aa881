"""Served resources, and kubectl's names for them.

accepted      bounds names and counts of a discovery document (pure)
catalogue     the served resources (pure)
discovery     requests the documents, with ETags
documents     reads both forms of discovery documents (pure)
names         resolves kubectl's names (pure)
short_names   short names of built-in resources
"""
