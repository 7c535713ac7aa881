"""Documents are tested: their examples run, their names exist, their links lead somewhere, and their limits hold."""
