"""``kubedelta top``.

command  asks the running bridge again and again, and shows its answers
figures  two answers as rates
keys     single keys of the terminal
layout   rows as lines that fit the terminal
rows     figures as rows of text, in the chosen order
"""
