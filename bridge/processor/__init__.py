"""Which form a change leaves in (``pipeline``, pure), and to whom (``shared_processor``, ``listener``)."""
