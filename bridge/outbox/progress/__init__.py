"""Progress of sinks whose destination stores it with the records.

destination_progress  makes the progress of each transaction, and recognises what a destination has stored
starts                starts of a bridge on the state directory, by which it is recognised
"""
