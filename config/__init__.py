"""The configuration: one YAML file, environment variables over it, secrets in files of their own.

load         the file and the environment → Settings, or every mistake in them
document     the file, read strictly; each value with its line
environment  the variables
errors       ConfigError: one Problem for each mistake
reference    the JSON Schema, and config/reference.yaml
values       the types of options: numbers, durations, sizes, texts
rules        rules between options of one section
schema/      the options, a module for each section
mistakes/    pydantic's errors in the operator's words
"""
