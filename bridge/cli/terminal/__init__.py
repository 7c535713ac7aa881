"""Text on standard output and standard error.

colours   colours of texts, on a terminal alone
console   the console of displays
output    writes lines, and ends quietly when the reader closes its pipe
pretty    JSON for people
progress  progress of what takes long
text      aligned columns, shortened cells
"""
