"""Text on standard output and standard error.

output   writes lines, and ends quietly when the reader closes its pipe
pretty   JSON for people
text     aligned columns, shortened cells
"""
