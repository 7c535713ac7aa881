"""How the sink proves itself to brokers.

command_tokens  tokens that a command prints, for OAUTHBEARER
command         runs a command with bounds on its time and output
refusals        which option a refusal is about
"""
