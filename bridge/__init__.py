"""From the API server to the sinks' doors.

    kube       list pages and watch streams as bytes; credentials; discovery
    informer   Reflector, DeltaFIFO, Controller, Indexer: what changed, against what we knew
    processor  strip and redact; SharedProcessor: to every listener by reference
    outbox     records in order, until every sink has settled them
    delivery   one worker per sink: take, deliver, retry, acknowledge

The rooms do not know each other. ``app`` joins them; ``model`` holds the values they pass, ``facts`` what they report.
"""
