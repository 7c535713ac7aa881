"""General helpers and small values.

backoff      exponential backoff with jitter; the time between two looks
election     the election as a replica sees it
fetch        items that a taker gets at once; parts of a batch between notices
field_path   paths of members in a JSON document
network      hosts and ports; why a connection cannot be made; signs of HTTP on an HTTPS port, and the reverse
packing      zstd for bodies in memory
printable    foreign text made safe for terminals and logs; counts
ring         a bounded ring buffer with sequence numbers
shard        a part of all objects, by a range of hashes
"""
