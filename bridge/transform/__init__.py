"""The form in which objects leave.

annotations     the metadata: field managers, copies of objects and tokens in annotations (pure)
credentials     finds credentials by names and by the form of a text (pure)
digest          a digest of a state without ignored paths (pure)
effort          bounds what the redaction of one object may cost (pure)
for_sink        redacts the records of one sink (pure)
places          places in objects, and how a value there is read (pure)
redact          replaces the values of a Secret by keyed digests (pure)
redaction       keys, presets and rules of redaction (pure)
redaction_key   a key of the digests (pure)
rules           redacts the values at configured paths (pure)
structure       the presets on a decoded object (pure)
transform       stripping (``model.object``) and redaction for each resource, with the presets (pure)

The pipeline runs in the Controller, as a transform of new states, before the Indexer keeps a body. Between the
comparison and the outbox it would leave unredacted bodies in the Indexer, and redact a delete found by a list for a
second time. So it runs once for each exported change, and never for an unchanged object of a relist; client-go's
transform at the enqueue runs for those, too.
"""
