"""SQL of dead letters.

dead_letters_sql  rejected and parked records
fetched           dead letters that come from another replica
"""
