"""What "recollect doctor" looks at. Nothing here changes anything."""

from recollect.db.health.catalogue import of_database
from recollect.db.health.check import Check, Status, worst
from recollect.db.health.machine import disk, of_machine

__all__ = ["Check", "Status", "disk", "of_database", "of_machine", "worst"]
