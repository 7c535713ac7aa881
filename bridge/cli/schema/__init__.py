"""`kubedelta schema`: the configuration, the events and the destinations, as documents for machines.

commands   schema, schema events, schema asyncapi
events     JSON Schema of the records that sinks send
asyncapi   AsyncAPI document of all sinks
"""
