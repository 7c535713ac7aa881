"""Encryption of objects' content at rest.

cipher         the operator's keys, encrypted frames, and the places that frames are bound to
key_registry   the keys of a database, and the move of older content to the first key

A ``Cipher`` seals content on its way into the database and opens it on its way out: bodies, states before a change,
dictionaries, and dead letters. The registry in the database says which keys have content, so a start without one of
them fails before any body is read. After a change of keys, a ``Renewal`` moves the older content, beside the bridge.

Content is encrypted above SQLite, frame by frame and after compression; names stay readable. So ``kubedelta cursors``,
comparisons with the ledger and trimming need no key, a rotation rewrites no file, and without keys nothing is slower.
An encrypting VFS (SQLCipher, SEE) would hide names too, but needs another build of SQLite than apsw's with its
checksums, and rewrites the file for each rotation. An encrypted disk (LUKS, a cloud's volumes) hides everything, and
stays the first advice: this room is for copies, snapshots, and nodes that others administer.
"""
