"""The form in which objects leave: without metadata that no consumer needs, and without secret values.

transform       the transform of each resource: strips metadata, and redacts Secrets and the credentials of the presets
redaction       keyed digests in place of values: of Secrets, at configured paths, and in the records of one sink
redaction_key   a key of the digests
credentials     finds credentials by the names of variables and flags, and by the form of a text
places          the places in objects where credentials stand, and how a value there is read
structure       the presets on a decoded object, for bodies in an unusual format
digest          a digest of a state without the paths whose changes are ignored

``transform.transform_for`` makes the function for a resource's objects. It gives Secrets to ``redaction``; in other
objects it strips the metadata, then searches the bytes of the body at the places of ``places`` for credentials
(``structure`` searches the decoded body, where the bytes are not as Go writes them), then applies the configured rules
(``redaction.PathRules``). ``redaction.redact_for_sink`` applies the rules of a single sink later, to its records.
The modules decide by their arguments alone, with no clock, file or network; ``pyproject.toml`` holds them to that.

The pipeline runs in the Controller, as a transform of new states, before the Indexer keeps a body. Between the
comparison and the outbox it would leave unredacted bodies in the Indexer, and redact a delete found by a list for a
second time. So it runs once for each exported change, and never for an unchanged object of a relist; client-go's
transform at the enqueue runs for those, too.

Invariant, with its tests:

- Secrets lose their values before anything is stored. An allow-list of members and types decides
  (``redaction.redacted``), and an object that is not shaped as a Secret leaves bare. An object that calls itself a
  Secret is redacted, whatever its resource; so is every item of a list that calls itself one of Secrets, since
  kube-apiserver writes no kind into items. Other objects lose the credentials that presets and rules find; an object
  that these cannot read, or whose redaction costs too much, leaves bare. ``tests/bridge/transform/test_transform.py``,
  ``tests/scenarios/test_no_secret_leaves.py``
"""
