"""What the same bytes cost in Python when nothing is done with them: the measure of what a bridge adds."""
