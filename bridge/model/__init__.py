"""Values that all rooms share: resources, objects, changes, records, positions. No I/O, no clock."""
