"""SQL of dead letters.

dead_letters_sql  rejected and parked records
commands_sql      retries and drops of an operator
"""
