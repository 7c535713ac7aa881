"""Bytes of the API into values. Pure, and the hot path.

answering     an HTTP response into an answer
frames        a watch stream into events
inflate       bounded decompression
list_text     kind, version and next page of a list
nesting       scans JSON of any depth without recursion
objects       reads identity and metadata of an object
page_items    objects of a page that were not taken yet
pages         a list page into objects, while the bytes arrive
shard_frames  a watch stream into events, for a bridge with a shard
slow_lines    bookmarks, errors and unusual lines of a watch
status        the API's errors, by the action that they ask for
"""
