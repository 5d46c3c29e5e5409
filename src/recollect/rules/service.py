"""What can be done with rules: look at them, decide, hand out those that hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from recollect.db.tenancy import Transaction
from recollect.errors import NotFound
from recollect.rules import store
from recollect.rules.models import ApprovedRule, Rule, RuleQuery, Run, Status, UnknownRule
from recollect.rules.store import queries

PAGE = 1_000

Before = tuple[datetime, UUID] | None


class Rules:
    async def list(
        self, tx: Transaction, wanted: RuleQuery, *, before: Before = None, limit: int = PAGE
    ) -> Sequence[Rule]:
        """A workspace's rules, or the caller's own, the newest first."""
        time, rule_id = before or (None, None)
        parameters = {**wanted.parameters, "before": time, "before_id": rule_id, "limit": limit}
        return [Rule(**row) for row in await tx.all(queries.list_rules, parameters, last=True)]

    async def get(self, tx: Transaction, rule_id: UUID) -> Rule:
        found = await store.rules(tx, [rule_id])
        if not found:
            raise UnknownRule
        return found[0]

    async def decide(self, tx: Transaction, rule_id: UUID, status: Status, reason: str | None = None) -> Rule:
        """Approve, reject or otherwise judge a rule, in the caller's name; who and why stays on record."""
        try:
            await tx.run(queries.decide_rule, {"id": rule_id, "status": status, "reason": reason})
        except NotFound as error:
            raise UnknownRule(error.detail) from error
        return await self.get(tx, rule_id)

    async def approved(
        self,
        tx: Transaction,
        *,
        workspace: UUID | None = None,
        project: UUID | None = None,
        category: str | None = None,
    ) -> Sequence[ApprovedRule]:
        """The rules that hold; to be handed out counts as use."""
        parameters = {"workspace": workspace, "project": project, "category": category}
        return [ApprovedRule(**row) for row in await tx.all(queries.approved_rules, parameters, last=True)]

    async def runs(
        self, tx: Transaction, *, workspace: UUID | None = None, before: Before = None, limit: int = PAGE
    ) -> Sequence[Run]:
        """The extractions that the caller sees, the newest first."""
        time, run_id = before or (None, None)
        parameters = {"workspace": workspace, "before": time, "before_id": run_id, "limit": limit}
        return [Run(**row) for row in await tx.all(queries.list_runs, parameters, last=True)]
