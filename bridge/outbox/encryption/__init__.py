"""Encryption of objects' content at rest.

cipher         a key of the operator, and its id; frames of AES-256-GCM, and the places that they are bound to; the
               content of a dead letter
key_registry   the keys of a database, and the bytes under each; moves the content of older records to the first key

Content is encrypted above SQLite, frame by frame and after compression; names stay readable. So ``kubedelta cursors``,
comparisons with the ledger and trimming need no key, a rotation rewrites no file, and without keys nothing is slower.
An encrypting VFS (SQLCipher, SEE) would hide names too, but needs another build of SQLite than apsw's with its
checksums, and rewrites the file for each rotation. An encrypted disk (LUKS, a cloud's volumes) hides everything, and
stays the first advice: this room is for copies, snapshots, and nodes that others administer.
"""
