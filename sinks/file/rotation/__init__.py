"""Closed parts of a file.

age           the age of the open file
closed_parts  compresses and removes closed parts
parts         names and order of closed parts
reading_lock  keeps parts that are not read yet from being removed
retention     chooses the parts that are removed
"""
