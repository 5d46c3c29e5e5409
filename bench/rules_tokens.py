"""How much less a model is sent to find rules than the conversations themselves would be."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.report import Figure, at_least
from bench.rules_labelled import Labelled
from recollect.access.models import NewUser
from recollect.bootstrap import open_services
from recollect.db.tenancy import Caller
from recollect.rules.material import Asked
from recollect.settings import Settings


async def tokens_sent(labelled: Labelled) -> Figure:
    """As it is estimated before a run; no model is asked, and its key is none."""
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        Path(folder).chmod(0o711)
        settings = Settings(
            home=Path(folder) / "home", embedding="static", anthropic_api_key="none", _env_file=None
        )
        async with open_services(settings) as services:
            user = await services.access.create_user(NewUser(email="bench@example.com"))
            chats = [chat for each in labelled.chats.values() for chat in each]
            async with services.tenancy.acting_as(Caller.user(user.id)) as tx:
                await services.histories.add(tx, user.id, chats)
                await services.histories.consent(tx, user.id, True, how="bench")
            estimate = await services.extractor.estimate(Asked(user.id))
    return at_least(
        "Tokens spared",
        round(100 * (1 - estimate.tokens_sent / estimate.tokens_whole), 1),
        "%",
        90,
        f"{estimate.tokens_sent:,} sent, prompt and second look included, of {estimate.tokens_whole:,} "
        "that were said; what tools printed is in neither",
    )
