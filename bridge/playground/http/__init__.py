"""Requests, responses and watch streams.

discovery   discovery documents
errors      JSON as Go writes it; Status objects
front       accepts requests
handlers    pages and continue tokens; query parameters; list, get, create, update, patch, delete
requests    URL paths; accepted media types, and manifests in bodies
streams     hooks for faults, which tests override; the open watches; the events of a watch; the bytes of a watch
"""
