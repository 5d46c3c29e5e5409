"""How mem0's clients want to be answered, and how they say which project they mean."""

from __future__ import annotations

import json
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from starlette.responses import JSONResponse, Response

from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.engine.dialect.models import UnknownProject
from recollect.engine.mem0.models import NotSupported
from recollect.errors import RecollectError
from recollect.http.callers import Id, services
from recollect.http.problems import response_to, response_to_invalid
from recollect.http.routing import Handler, RecollectRoute, transaction

Reading = Annotated[Transaction, transaction("memory:read")]
Writing = Annotated[Transaction, transaction("memory:write")]

_id: TypeAdapter[UUID] = TypeAdapter(Id)


class Mem0Route(RecollectRoute):
    """Answers errors as mem0 does: what does not fit is a 400, and the type is plain JSON, since its
    clients look for ``detail`` in nothing else."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                if services(request).settings.mem0_mode != "self-hosted":
                    raise NotSupported(
                        "mem0's protocol is spoken where MEM0_MODE is self-hosted; here mem0 itself keeps "
                        "the memories, which /api/memories reaches."
                    )
                return await handle(request)
            except RecollectError as error:
                return _as_mem0_does(response_to(error))
            except RequestValidationError as error:
                return _as_mem0_does(response_to_invalid(error))

        return answer


def _as_mem0_does(problem: Response) -> Response:
    status = 400 if problem.status_code == 422 else problem.status_code
    body: dict[str, Any] = json.loads(bytes(problem.body))
    kept = {name: value for name, value in problem.headers.items() if not name.startswith("content-")}
    return JSONResponse({**body, "status": status}, status, headers=kept)


def new_router() -> APIRouter:
    return APIRouter(tags=["mem0"], route_class=Mem0Route, include_in_schema=False)


async def workspace_for(recollect: Services, tx: Transaction, *named: str | None) -> UUID | None:
    """The workspace of the project that is named, in the query or in the body; by default the caller's own
    memories are meant, which lie in none."""
    project = next(filter(None, named), None)
    return None if project is None else await recollect.dialect.workspace_of(tx, project_in(project))


def project_in(given: str) -> UUID:
    try:
        return _id.validate_python(given)
    except ValidationError as error:
        raise UnknownProject from error


async def _project_id(
    project_id: Annotated[str | None, Query(max_length=100)] = None,
) -> str | None:
    return project_id


InProject = Annotated[str | None, Depends(_project_id)]


def paged(request: Request, count: int, page: int, page_size: int, results: list[Any]) -> dict[str, Any]:
    """One page of a list, with the addresses of its neighbours."""

    def at(number: int) -> str:
        return str(request.url.include_query_params(page=number, page_size=page_size))

    return {
        "count": count,
        "next": at(page + 1) if page * page_size < count else None,
        "previous": at(page - 1) if page > 1 else None,
        "results": results,
    }
