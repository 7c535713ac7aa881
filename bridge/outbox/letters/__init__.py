"""SQL of dead letters: the records that a sink rejected, and later records of the same objects, parked behind them.

dead_letters_sql   rejected and parked records
commands_sql       retries and drops of an operator
"""
