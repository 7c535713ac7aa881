"""The form in which objects leave.

credentials     finds credentials by names and by the form of a text (pure)
digest          a digest of a state without ignored paths (pure)
places          places in objects, and how a value there is read (pure)
redaction       redacts the values at configured paths (pure); bounds what the redaction of one object may cost
                (pure); replaces the values of a Secret by keyed digests (pure); keys, presets and rules of redaction
                (pure); redacts the records of one sink (pure)
redaction_key   a key of the digests (pure)
structure       the presets on a decoded object (pure)
transform       the metadata: field managers, copies of objects and tokens in annotations (pure); stripping
                (``model.object``) and redaction for each resource, with the presets (pure)

The pipeline runs in the Controller, as a transform of new states, before the Indexer keeps a body. Between the
comparison and the outbox it would leave unredacted bodies in the Indexer, and redact a delete found by a list for a
second time. So it runs once for each exported change, and never for an unchanged object of a relist; client-go's
transform at the enqueue runs for those, too.

Invariant, with its tests:

- Secrets lose their values before anything is stored. An allow-list of members and types decides (``redact``), and an
  object that is not shaped as a Secret leaves bare. An object that calls itself a Secret is redacted, whatever its
  resource; so is every item of a list that calls itself one of Secrets, since kube-apiserver writes no kind into items.
  Other objects lose the credentials that presets and rules find; an object that these cannot read, or whose redaction
  costs too much, leaves bare. ``tests/bridge/transform/test_transform.py``,
  ``tests/scenarios/test_no_secret_leaves.py``
"""
