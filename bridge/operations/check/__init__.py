"""`kubedelta check`: reports mistakes before anything runs.

check              makes all checks in their order: machine, cluster, resources, sinks, forecast
check_resources    checks each entry of ``resources``: served, granted, selectable
check_selections   checks each entry of ``select``, and tries all expressions of sinks on the live objects
check_state        checks the state directory, its holder, its disk, and the listen address
findings           the result of a check
forecast           forecasts the deltas that the next start would export
noise              names the paths that change most often in the updates of some seconds

Each check yields findings. No record is delivered, and a bridge that runs is not affected.
"""
