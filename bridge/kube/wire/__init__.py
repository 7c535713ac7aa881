"""Bytes of the API into values. Pure, and the hot path.

answering     an HTTP response into an answer
bounds        how long names may be
frames        a watch stream into events
inflate       bounded decompression
list_text     kind, version and next page of a list
nesting       where JSON values end, and how deep they are
objects       reads identity and metadata of an object
pages         a list page into objects, while the bytes arrive
shard_frames  a watch stream into events, for a bridge with a shard
slow_lines    bookmarks, errors and unusual lines of a watch
status        the API's errors, by the action that they ask for
"""
