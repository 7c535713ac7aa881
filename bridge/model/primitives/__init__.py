"""General helpers without a word of the domain.

addresses        hosts and ports
backoff          exponential backoff with jitter
field_path       paths of members in a JSON document
fetch            items that a taker gets at once
packing          zstd for bodies in memory
polling           the time between two looks
printable        foreign text made safe for terminals and logs; counts
ring             a bounded ring buffer with sequence numbers
wrong_protocol   signs of HTTP on an HTTPS port, and the reverse
"""
