"""`kubedelta check`: reports mistakes before anything runs.

check              the checks in their order: machine, cluster, resources, sinks, forecast
check_noise        the paths that change most often in the updates of some seconds
check_resources    each entry of ``resources``: served, granted, selectable
check_selections   counts of the values of expressions; each entry of ``select``: watched; and the values of all
                   expressions of sinks on the live objects
check_state        the state directory, its holder, its disk, and the listen address
findings           one result of a check
forecast           the deltas that the next start would export
noise              counts of changed paths (pure)
"""
