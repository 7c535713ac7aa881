"""Requests, responses and watch streams.

discovery   discovery documents
errors      Status objects, and JSON as Go writes it
front       receives requests and sends the answers
handlers    answers requests for documents, reads and writes: pages, options, verbs
requests    reads requests: paths, accepted media types, manifests
streams     open watches, their lines, and hooks for faults
"""
