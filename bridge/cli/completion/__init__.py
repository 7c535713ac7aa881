"""``kubedelta completion``: scripts for shells, made of the table of commands.

bash      the script for bash
command   names of sinks and resources in a configuration; prints a script, or the names for one
fish      the script for fish
words     the words of the command line, as its parser has them
zsh       the script for zsh
"""
