"""Requests, responses and watch streams.

discovery   discovery documents
encoding    JSON as Go writes it
errors      Status objects
faults      hooks for faults, which tests override; the open watches
front       accepts requests
handlers    list, get, create, update, patch, delete
listing     pages and continue tokens
options     query parameters
paths       URL paths
requests    accepted media types, and manifests in bodies
streams     the bytes of a watch
watching    the events of a watch
"""
