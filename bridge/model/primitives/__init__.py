"""General helpers and small values.

addresses        hosts and ports
backoff          exponential backoff with jitter
connection_errors  why a connection cannot be made
election         the election as a replica sees it
field_path       paths of members in a JSON document
fetch            items that a taker gets at once
packing          zstd for bodies in memory
polling           the time between two looks
printable        foreign text made safe for terminals and logs; counts
ring             a bounded ring buffer with sequence numbers
shard            a part of all objects, by a range of hashes
split            parts of a batch between notices
wrong_protocol   signs of HTTP on an HTTPS port, and the reverse
"""
