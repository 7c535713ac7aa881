"""The names that other programs import, which stay as they are from 0.1 on (``docs/versions.md``). The packages behind
them, ``bridge``, ``sinks`` and ``config``, are the inside of kubedelta, and may change with any version.

informers   informers, listers and a work queue, as a library
sinks       what a type of sink is made of
"""
