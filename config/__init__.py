"""What an operator writes: one YAML file, the environment over it, secrets from files.

document     the file, read strictly, each value with its line
environment  the variables, laid over it
values       what options are made of; rules are between them
schema       what may be written; sinks adds the options of the sinks at hand
mistakes     what is wrong with it, in the operator's words
load         all of these in a row
"""
