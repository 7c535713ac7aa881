"""General helpers and small values.

backoff      waits between attempts, and between two looks
field_path   paths of members in a JSON document
merge_patch  JSON merge patches, as they are applied
network      hosts and ports, and reasons why a connection cannot be made
packing      zstd for bodies in memory
printable    text for people: foreign text made safe for terminals and logs, counts, why a file cannot be written
protobuf     the wire format of Protocol Buffers
ring         a bounded ring buffer with sequence numbers, and items that a taker gets at once
shard        a part of all objects, by a range of hashes
"""
