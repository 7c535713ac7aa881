"""The configuration of a bridge is one YAML file, with environment variables over it and secrets in files of their own.
``load`` makes frozen ``Settings`` of them, or raises a ConfigError that names every mistake at once.

load         makes Settings of the file, with the variables of the environment laid over it
document     reads the file strictly; each value has its line; notices when the file changed
errors       ConfigError: a Problem for each mistake
reference    makes the JSON Schema, and config/reference.yaml
values       the types of options: numbers, durations, sizes, texts
rules        rules between options of one section
schema/      declares the options, and the settings that they make
mistakes     says pydantic's errors in the operator's words

``document`` reads the file, ``load`` lays the variables over it, the types of ``schema`` judge the result, and
``mistakes`` turns whatever pydantic found into sentences with the path, the value found and the values allowed. The
types of a sink's own options come from outside: config knows no sink.

Invariants, each with its test:

- The loader and the JSON Schema agree: each type and each rule is declared once for both.
  ``tests/config/test_schema_and_loader.py``
- No file keeps the start waiting, and every value has its line. ``tests/config/test_document.py``
- A message hides whatever may be a secret. ``tests/config/test_load.py``
"""
