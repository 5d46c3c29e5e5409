"""Lists, a page at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from recollect.kit.paging import Cursors

T = TypeVar("T")


def _plain_digits(given: object) -> object:
    # Pydantic also reads "1_0", " 10" and "10.0" as ten.
    if isinstance(given, str) and not (given.isascii() and given.isdigit()):
        raise ValueError("a whole number, in digits")
    return given


# For every whole number in a query.
Digits = BeforeValidator(_plain_digits)


class PageQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=1_000, description="At most this many."), Digits] = 1_000
    cursor: Annotated[
        str | None,
        Field(min_length=1, max_length=4_400, description="nextCursor of the page before."),
    ] = None


class Page(BaseModel, Generic[T]):
    """One page of a list. ``nextCursor`` is there if more follows."""

    data: list[T]
    next_cursor: Annotated[str | None, Field(alias="nextCursor")] = None


@dataclass(frozen=True)
class Listing(Generic[T]):
    """A list that can be read in pages. ``name`` says which list it is, filters included, so that a
    cursor of one is refused by another; ``position`` is what the next page begins after."""

    cursors: Cursors
    name: Sequence[str]
    position: Callable[[T], Sequence[Any]]

    async def page(
        self,
        wanted: PageQuery,
        fetch: Callable[[list[Any] | None, int], Awaitable[list[T]]],
    ) -> dict[str, Any]:
        after = self.cursors.position(self.name, wanted.cursor)
        # One more than wanted tells whether there is a next page.
        items = await fetch(after, wanted.limit + 1)
        page: dict[str, Any] = {"data": items[: wanted.limit]}
        if len(items) > wanted.limit:
            page["nextCursor"] = self.cursors.after(self.name, self.position(items[wanted.limit - 1]))
        return page
