"""Another number of shards: the former shards hand their objects over, by their Leases.

heirs       the shards that follow, as an annotation of a Lease (pure)
inheriting  what a shard may do, as the Leases say (pure)
inheritor   a shard follows the former ones until they have ended
"""
