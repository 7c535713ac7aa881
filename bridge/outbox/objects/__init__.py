"""The ledger: the last exported state of every object.

ledger       its interface
ledger_sql   its SQL
"""
