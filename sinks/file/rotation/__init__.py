"""Closed parts of a file.

age           the age of the open file
closed_parts  compresses closed parts
parts         names and order of closed parts
"""
