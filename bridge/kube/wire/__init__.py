"""Bytes of the API into values. Pure, and the hot path.

answering   bounded decompression; an HTTP response into an answer
frames      bookmarks, errors and unusual lines of a watch; a watch stream into events; a watch stream into events,
            for a bridge with a shard
objects     how long names may be; where JSON values end, and how deep they are; reads identity and metadata of an
            object
pages       kind, version and next page of a list; a list page into objects, while the bytes arrive
status      the API's errors, by the action that they ask for
"""
