"""How a batch is stored.

delivery  an attempt to store the records of a batch; records in flight
sender    attempts until each record is stored or rejected
oversize  smaller forms of a record that is too large
"""
