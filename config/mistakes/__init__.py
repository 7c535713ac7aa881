"""Mistakes in a configuration, in the operator's words.

pydantic_errors   pydantic's errors → mistakes, each with its path in the file
wording           the message of a mistake: the value that was found, and the values that are allowed
"""
