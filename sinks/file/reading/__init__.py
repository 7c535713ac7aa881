"""Lines of a file and of its closed parts.

follow     follows the file through its rotations
line_head  sequence number and time in a line
lines      lines of plain and compressed files, forward and backward
"""
