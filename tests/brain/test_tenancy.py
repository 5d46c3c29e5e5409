"""The functions that act as their owner look first at who asks."""

from __future__ import annotations

from typing import Any, LiteralString
from uuid import uuid4

import pytest

from recollect.db.queries import Query
from recollect.errors import NotFound
from tests.brain.conftest import Knower

CALLS: dict[str, LiteralString] = {
    "hold_brain": "select private.hold_brain(%(kind)s, %(owner)s)",
    "held_brain": "select * from private.held_brain(%(kind)s, %(owner)s, '{pet}')",
    "keep_facts": (
        "select * from private.keep_facts(%(kind)s, %(owner)s, 'x', 'x', array[null]::uuid[], '{x}', '{x}',"
        " '{x}', '{1}', 'x', 2::smallint, '[1,2]', '[{\"slug\": \"pet\"}]', null)"
    ),
    "forget_facts": "select private.forget_facts(%(kind)s, %(owner)s, '{pet}', null)",
    "intend": "select * from private.intend(%(kind)s, %(owner)s, '{pet}', 'save', '1 minute')",
    "write_brain": (
        "select private.write_brain(%(kind)s, %(owner)s, array[%(id)s]::uuid[], '{pet}', '{x}', '{x}',"
        " '[{}]', null)"
    ),
    "erase_brain": "select private.erase_brain(%(kind)s, %(owner)s, array[%(id)s]::uuid[], null)",
    "give_up": "select private.give_up(%(owner)s, array[%(id)s]::uuid[])",
}


@pytest.mark.parametrize("name", CALLS)
async def test_nobody_reaches_others_facts_through_a_function(
    ana: Knower, ben: Knower, acme: Knower, name: str
) -> None:
    await ana.save(pet="A dog")
    await acme.save(pet="A fish")
    for about in (ana.owner, acme.owner):
        given: dict[str, Any] = {**about.parameters, "id": uuid4()}
        query = Query(name, "", CALLS[name])
        with pytest.raises(NotFound):
            await ben.do(lambda tx, query=query, given=given: tx.all(query, given))  # type: ignore[misc]
    assert (await ana.known(), await acme.known()) == ({"pet": "A dog"}, {"pet": "A fish"})


@pytest.mark.parametrize("name", ["write_fact", "drop_facts", "note_brain", "adopt_memory", "brain_drift"])
async def test_what_checks_nothing_is_the_services_alone(ana: Knower, name: str) -> None:
    may: LiteralString = (
        "select has_function_privilege('authenticated', p.oid, 'execute') as may from pg_proc p"
        " where p.proname = %(name)s and p.pronamespace = 'private'::regnamespace"
    )
    rows = await ana.do(lambda tx: tx.all(Query("may", "", may), {"name": name}))
    assert [row["may"] for row in rows] == [False]
