"""`kubedelta verify`.

command   compares a sink's destination with the cluster and prints the differences
parsers   its arguments
"""
