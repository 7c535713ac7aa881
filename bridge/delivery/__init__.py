"""From the outbox to the sinks: one worker per sink takes, delivers, retries, settles."""
