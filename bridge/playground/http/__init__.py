"""Requests, responses and watch streams.

discovery   discovery documents
encoding    JSON as Go writes it
errors      Status objects
front       accepts requests and applies faults
handlers    list, get, create, update, patch, delete
listing     pages and continue tokens
options     query parameters
paths       URL paths
streams     the bytes of a watch
watching    the events of a watch
"""
