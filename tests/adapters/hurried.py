"""An operator's own settings for the app: messages that nobody acknowledges are delivered again soon."""

from __future__ import annotations

from recollect.adapters.celery import app

app.conf.broker_transport_options |= {
    "visibility_timeout": 2,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}
