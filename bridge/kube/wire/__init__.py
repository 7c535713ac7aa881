"""Bytes of the API into values. Pure, and the hot path.

answering   an HTTP response into an answer
frames      a watch stream into events
inflate     bounded decompression
nesting     scans JSON of any depth without recursion
objects     reads identity and metadata of an object
pages       a list page into objects, while the bytes arrive
status      the API's errors, by the action that they ask for
"""
