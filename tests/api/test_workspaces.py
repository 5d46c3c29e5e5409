"""Workspaces, companies and profiles over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.conftest import MakePerson, Person

pytestmark = pytest.mark.anyio

READ, RENAME, ADD, CHANGE, REMOVE = "read", "rename", "add", "change", "remove"
WORK = {"create project", "rename project", "delete project"}
MANAGES = {READ, RENAME, ADD, CHANGE, REMOVE} | WORK
MAY = {
    "owner": MANAGES,
    "admin": MANAGES,
    "reviewer": {READ} | WORK,
    "member": {READ} | WORK,
    "viewer": {READ},
}


async def made(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def new(owner: Person, kind: str = "workspaces") -> str:
    """The address of something new to share."""
    body = await made(await owner.http.post(f"/api/{kind}", json={"name": "Shared"}))
    return f"/api/{kind}/{body['id']}"


async def join(owner: Person, place: str, person: Person, role: str) -> str:
    """Add somebody; the address of the membership."""
    await made(await owner.http.post(f"{place}/members", json={"email": person.email, "role": role}))
    return f"{place}/members/{person.id}"


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


NOT_FOUND = (404, "not_found")
ROLE_TOO_LOW = (403, "role_too_low")


async def test_everybody_starts_with_a_personal_workspace_and_creates_more(ana: Person) -> None:
    created = await made(await ana.http.post("/api/workspaces", json={"name": "Team"}))

    personal, team = (await ana.http.get("/api/workspaces")).json()["data"]
    assert (personal["is_personal"], personal["role"]) == (True, "owner")
    assert team == created
    assert (team["name"], team["is_personal"], team["role"]) == ("Team", False, "owner")
    assert (await ana.http.get(f"/api/workspaces/{team['id']}")).json() == team


async def test_lists_come_in_pages(ana: Person, ben: Person) -> None:
    place = await new(ana)
    await join(ana, place, ben, "member")
    for name in "ab":
        await made(await ana.http.post(f"{place}/projects", json={"name": name}))
        await new(ana, "companies")
    for address in ("/api/workspaces", "/api/companies", f"{place}/members", f"{place}/projects"):
        whole = (await ana.http.get(address)).json()
        first = (await ana.http.get(address, params={"limit": 1})).json()
        cursor = first["nextCursor"]
        second = (await ana.http.get(address, params={"limit": 1, "cursor": cursor})).json()
        assert first["data"] + second["data"] == whole["data"]
        assert "nextCursor" not in second

        elsewhere = await ana.http.get("/api/auth/keys", params={"cursor": cursor})
        assert problem(elsewhere) == (422, "invalid_cursor")
        if address in {"/api/workspaces", "/api/companies"}:
            of_another = await ben.http.get(address, params={"cursor": cursor})
            assert problem(of_another) == (422, "invalid_cursor")


def calls(place: str, member: str, project: str) -> list[tuple[str, str, Any]]:
    """Every endpoint that names a workspace or company, with a body that fits."""
    found: list[tuple[str, str, Any]] = [
        ("GET", place, None),
        ("PATCH", place, {"name": "Taken over"}),
        ("GET", f"{place}/members", None),
        ("POST", f"{place}/members", {"email": "ana@example.com", "role": "admin"}),
        ("PATCH", f"{place}/members/{member}", {"role": "member"}),
        ("DELETE", f"{place}/members/{member}", None),
    ]
    if place.startswith("/api/workspaces"):
        found += [
            ("GET", f"{place}/projects", None),
            ("POST", f"{place}/projects", {"name": "Planted"}),
            ("PATCH", f"{place}/projects/{project}", {"name": "Renamed"}),
            ("DELETE", f"{place}/projects/{project}", None),
        ]
    return found


@pytest.mark.parametrize("kind", ["workspaces", "companies"])
async def test_what_is_not_yours_is_answered_like_what_is_not_there(
    ana: Person, ben: Person, anonymous: httpx.AsyncClient, kind: str
) -> None:
    place = await new(ana, kind)
    project = str(uuid4())
    if kind == "workspaces":
        made_project = await ana.http.post(f"{place}/projects", json={"name": "Rules"})
        project = (await made(made_project))["id"]
    before = [(await ana.http.get(call[1])).json() for call in calls(place, "", "") if call[0] == "GET"]

    nowhere = f"/api/{kind}/{uuid4()}"
    theirs, nobodys = calls(place, str(ana.id), project), calls(nowhere, str(ana.id), project)
    for (method, path, body), (_, missing, _) in zip(theirs, nobodys, strict=True):
        refused = await ben.http.request(method, path, json=body)
        absent = await ben.http.request(method, missing, json=body)
        assert problem(refused) == NOT_FOUND, (method, path)
        assert refused.json() == absent.json()
        assert (await anonymous.request(method, path, json=body)).status_code == 401

    after = [(await ana.http.get(call[1])).json() for call in calls(place, "", "") if call[0] == "GET"]
    assert after == before
    assert place.rsplit("/", 1)[1] not in (await ben.http.get(f"/api/{kind}")).text


@pytest.mark.parametrize("role", MAY)
async def test_a_role_in_a_workspace_allows_exactly_this(ana: Person, person: MakePerson, role: str) -> None:
    place = await new(ana)
    caller, other, fresh = [await person(f"{name}@example.com") for name in ("caller", "other", "fresh")]
    await join(ana, place, caller, role)
    member = await join(ana, place, other, "member")
    project = (await made(await ana.http.post(f"{place}/projects", json={"name": "Rules"})))["id"]

    attempts: dict[str, tuple[str, str, Any]] = {
        READ: ("GET", f"{place}/members", None),
        RENAME: ("PATCH", place, {"name": "Renamed"}),
        ADD: ("POST", f"{place}/members", {"user_id": str(fresh.id), "role": "admin"}),
        CHANGE: ("PATCH", member, {"role": "reviewer"}),
        REMOVE: ("DELETE", member, None),
        "create project": ("POST", f"{place}/projects", {"name": "New"}),
        "rename project": ("PATCH", f"{place}/projects/{project}", {"name": "Norms"}),
        "delete project": ("DELETE", f"{place}/projects/{project}", None),
    }
    for attempt, (method, path, body) in attempts.items():
        answer = await caller.http.request(method, path, json=body)
        if attempt in MAY[role]:
            assert answer.is_success, (role, attempt, answer.text)
        else:
            assert problem(answer) == ROLE_TOO_LOW, (role, attempt)

    assert ((await ana.http.get(place)).json()["name"] == "Renamed") is (RENAME in MAY[role])
    there = {one["user_id"] for one in (await ana.http.get(f"{place}/members")).json()["data"]}
    assert (str(fresh.id) in there) is (ADD in MAY[role])
    assert (str(other.id) in there) is (REMOVE not in MAY[role])
    projects = [one["name"] for one in (await caller.http.get(f"{place}/projects")).json()["data"]]
    assert projects == (["New"] if MAY[role] >= WORK else ["Rules"])


@pytest.mark.parametrize("kind", ["workspaces", "companies"])
async def test_an_admin_cannot_become_make_change_or_remove_an_owner(
    ana: Person, ben: Person, person: MakePerson, kind: str
) -> None:
    cleo = await person("cleo@example.com")
    place = await new(ana, kind)
    await join(ana, place, ben, "admin")
    members = f"{place}/members"
    attempts = [
        await ben.http.patch(f"{members}/{ben.id}", json={"role": "owner"}),
        await ben.http.post(members, json={"email": cleo.email, "role": "owner"}),
        await ben.http.patch(f"{members}/{ana.id}", json={"role": "member"}),
        await ben.http.delete(f"{members}/{ana.id}"),
    ]
    if kind == "companies":
        attempts.append(await ben.http.patch(f"{members}/{ana.id}", json={"status": "inactive"}))

    assert [problem(attempt) for attempt in attempts] == [ROLE_TOO_LOW] * len(attempts)
    people = (await ana.http.get(members)).json()["data"]
    assert [(one["email"], one["role"]) for one in people] == [(ana.email, "owner"), (ben.email, "admin")]


@pytest.mark.parametrize("kind", ["workspaces", "companies"])
async def test_nobody_raises_their_own_role(ana: Person, ben: Person, kind: str) -> None:
    place = await new(ana, kind)
    member = await join(ana, place, ben, "member")
    for role in ("admin", "owner"):
        assert problem(await ben.http.patch(member, json={"role": role})) == ROLE_TOO_LOW
    assert (await ben.http.get(place)).json()["role"] == "member"


@pytest.mark.parametrize("kind", ["workspaces", "companies"])
async def test_the_last_owner_neither_leaves_nor_steps_down(ana: Person, ben: Person, kind: str) -> None:
    place = await new(ana, kind)
    member = await join(ana, place, ben, "admin")
    mine = f"{place}/members/{ana.id}"

    left, stepped_down = await ana.http.delete(mine), await ana.http.patch(mine, json={"role": "admin"})
    assert problem(left) == problem(stepped_down) == (409, "conflict")
    assert "make somebody else an owner" in left.json()["detail"]
    assert (await ana.http.get(place)).json()["role"] == "owner"

    assert (await ana.http.patch(member, json={"role": "owner"})).status_code == 200
    assert (await ana.http.delete(mine)).status_code == 204
    assert problem(await ana.http.get(place)) == NOT_FOUND
    assert (await ben.http.get(place)).json()["role"] == "owner"


@pytest.mark.parametrize("kind", ["workspaces", "companies"])
async def test_whoever_leaves_or_is_removed_is_out_from_the_next_request_on(
    ana: Person, ben: Person, kind: str
) -> None:
    place = await new(ana, kind)
    for remover in (ana, ben):
        member = await join(ana, place, ben, "member")
        assert (await ben.http.get(place)).status_code == 200
        assert (await remover.http.delete(member)).status_code == 204
        for method, path, body in calls(place, str(ben.id), str(uuid4())):
            assert problem(await ben.http.request(method, path, json=body)) == NOT_FOUND
        listed = (await ben.http.get(f"/api/{kind}")).json()["data"]
        assert [one for one in listed if place.endswith(one["id"])] == []


async def test_a_personal_workspace_takes_no_members_and_is_not_left(ana: Person, ben: Person) -> None:
    [personal] = (await ana.http.get("/api/workspaces")).json()["data"]
    members = f"/api/workspaces/{personal['id']}/members"

    shared = await ana.http.post(members, json={"email": ben.email, "role": "viewer"})
    assert problem(shared) == (409, "conflict")
    assert "personal workspace" in shared.json()["detail"]
    assert (await ana.http.delete(f"{members}/{ana.id}")).status_code == 409
    assert len((await ana.http.get(members)).json()["data"]) == 1


@pytest.mark.parametrize("kind", ["workspaces", "companies"])
async def test_members_are_added_by_address_or_id_once(ana: Person, ben: Person, kind: str) -> None:
    members = f"{await new(ana, kind)}/members"
    added = await made(await ana.http.post(members, json={"email": "BEN@example.com"}))
    assert (added["user_id"], added["email"], added["role"]) == (str(ben.id), ben.email, "member")

    again = await ana.http.post(members, json={"user_id": str(ben.id), "role": "admin"})
    assert problem(again) == (409, "already_member")
    for body in ({"email": "nobody@example.com"}, {"user_id": str(uuid4())}):
        assert problem(await ana.http.post(members, json=body)) == NOT_FOUND
    listed = (await ana.http.get(members)).json()["data"]
    assert [one["role"] for one in listed] == ["owner", "member"]


async def test_who_does_not_manage_cannot_tell_whether_an_address_exists(ana: Person, ben: Person) -> None:
    place = await new(ana)
    await join(ana, place, ben, "member")
    known, unknown = [
        await ben.http.post(f"{place}/members", json={"email": email})
        for email in ("ana@example.com", "nobody@example.com")
    ]
    assert known.json() == unknown.json()
    assert problem(known) == ROLE_TOO_LOW


async def test_input_that_does_not_fit_is_refused(ana: Person) -> None:
    place = await new(ana)
    unfit: list[tuple[str, Any]] = [
        ("/api/workspaces", {"name": ""}),
        ("/api/workspaces", {"name": "x" * 201}),
        ("/api/workspaces", {"name": "nul\x00"}),
        ("/api/workspaces", {"name": "x", "personal_to": str(uuid4())}),
        (f"{place}/members", {}),
        (f"{place}/members", {"email": "ben@example.com", "user_id": str(uuid4())}),
        (f"{place}/members", {"email": "ben@example.com", "role": "god"}),
        (f"{place}/members", {"email": "no address"}),
        (f"{place}/members", {"email": "ben@example.com", "workspace_id": str(uuid4())}),
        (f"{place}/projects", {"name": ""}),
        (f"{place}/projects", {"name": "x", "workspace_id": str(uuid4())}),
    ]
    for address, body in unfit:
        assert (await ana.http.post(address, json=body)).status_code == 422, body


async def test_a_projects_name_is_taken_once_per_workspace(ana: Person) -> None:
    here, there = await new(ana), await new(ana)
    project = await made(await ana.http.post(f"{here}/projects", json={"name": "Rules"}))
    await made(await ana.http.post(f"{there}/projects", json={"name": "Rules"}))
    other = await made(await ana.http.post(f"{here}/projects", json={"name": "Other"}))

    taken = [
        await ana.http.post(f"{here}/projects", json={"name": "Rules"}),
        await ana.http.patch(f"{here}/projects/{other['id']}", json={"name": "Rules"}),
    ]
    assert [problem(answer) for answer in taken] == [(409, "name_taken")] * 2
    astray = f"{there}/projects/{project['id']}"
    assert problem(await ana.http.patch(astray, json={"name": "Moved"})) == NOT_FOUND
    assert problem(await ana.http.delete(astray)) == NOT_FOUND


async def test_an_idempotency_key_makes_one_workspace_and_one_member(ana: Person, ben: Person) -> None:
    once = {"Idempotency-Key": "once"}
    first, second = [
        await ana.http.post("/api/workspaces", json={"name": "Once"}, headers=once) for _ in range(2)
    ]
    assert first.json() == second.json()
    assert len((await ana.http.get("/api/workspaces")).json()["data"]) == 2
    members = f"/api/workspaces/{first.json()['id']}/members"
    twice = [
        await ana.http.post(members, json={"email": ben.email}, headers={"Idempotency-Key": "twice"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in twice] == [201, 201]


async def test_a_key_that_only_reads_changes_nothing(person: MakePerson) -> None:
    reader = await person("reader@example.com", scopes=("read",))
    assert (await reader.http.get("/api/workspaces")).status_code == 200
    for kind in ("workspaces", "companies"):
        refused = await reader.http.post(f"/api/{kind}", json={"name": "No"})
        assert problem(refused) == (403, "not_allowed")
    assert problem(await reader.http.patch("/api/profile", json={})) == (403, "not_allowed")


async def test_a_companys_details_change_field_by_field(ana: Person) -> None:
    details = {
        "name": "Panaderia",
        "rut": "76.086.428-5",
        "tax_regime": "14 D",
        "activity_name": "Bakery",
        "activity_code": "107100",
        "legal_representative": "Ana",
        "start_date": "2020-02-29",
        "accounting_start_month": "2020-03",
    }
    created = await made(await ana.http.post("/api/companies", json=details))
    assert created.items() >= {**details, "role": "owner"}.items()
    place = f"/api/companies/{created['id']}"

    changed = await ana.http.patch(place, json={"tax_regime": None, "activity_code": "1", "name": None})

    expected = {**details, "tax_regime": None, "activity_code": "1"}
    assert changed.json().items() >= expected.items()
    assert changed.json()["updated_at"] > created["updated_at"]
    assert (await ana.http.get("/api/companies")).json()["data"] == [changed.json()]


async def test_company_details_that_do_not_fit_are_refused(ana: Person) -> None:
    place = await new(ana, "companies")
    unfit: list[dict[str, Any]] = [
        {"rut": "x" * 21},
        {"start_date": "2021-02-29"},
        {"start_date": 0},
        {"start_date": "2021-02-28T00:00:00"},
        {"name": ""},
        {"role": "owner"},
        {"id": str(uuid4())},
    ]
    for wrong in unfit:
        created = await ana.http.post("/api/companies", json={"name": "x", **wrong})
        changed = await ana.http.patch(place, json=wrong)
        assert (created.status_code, changed.status_code) == (422, 422), wrong
    assert len((await ana.http.get("/api/companies")).json()["data"]) == 1


async def test_a_rut_is_checked_where_it_is_entered_and_kept_as_it_is_written(ana: Person) -> None:
    place = await new(ana, "companies")
    for address in (place, "/api/profile"):
        entered = await ana.http.patch(address, json={"rut": "76086428 5"})
        assert entered.json()["rut"] == "76.086.428-5"
        refused = await ana.http.patch(address, json={"rut": "76.086.428-6"})
        assert problem(refused) == (422, "invalid_identifier")
        assert '"76.086.428-6" is not a valid RUT' in refused.json()["detail"]
        assert (await ana.http.get(address)).json()["rut"] == "76.086.428-5"
        assert (await ana.http.patch(address, json={"rut": None})).json()["rut"] is None

    created = await made(await ana.http.post("/api/companies", json={"name": "A", "rut": "cl 10000013k"}))
    assert created["rut"] == "10.000.013-K"
    refused = await ana.http.post("/api/companies", json={"name": "B", "rut": "1"})
    assert problem(refused) == (422, "invalid_identifier")
    assert len((await ana.http.get("/api/companies")).json()["data"]) == 2


async def test_a_plain_member_of_a_company_reads_and_an_admin_writes(ana: Person, ben: Person) -> None:
    place = await new(ana, "companies")
    member = await join(ana, place, ben, "member")
    assert (await ben.http.get(place)).json()["role"] == "member"
    refused = [
        await ben.http.patch(place, json={"name": "Mine"}),
        await ben.http.post(f"{place}/members", json={"email": "ana@example.com"}),
        await ben.http.delete(f"{place}/members/{ana.id}"),
    ]
    assert [problem(answer) for answer in refused] == [ROLE_TOO_LOW] * 3

    assert (await ana.http.patch(member, json={"role": "admin"})).status_code == 200
    assert (await ben.http.patch(place, json={"name": "Ours"})).json()["name"] == "Ours"


async def test_an_inactive_member_of_a_company_is_a_stranger_until_made_active(
    ana: Person, ben: Person
) -> None:
    place = await new(ana, "companies")
    member = await join(ana, place, ben, "admin")
    inactive = await ana.http.patch(member, json={"status": "inactive"})
    assert (inactive.json()["status"], inactive.json()["role"]) == ("inactive", "admin")

    for method, path, body in calls(place, str(ben.id), ""):
        assert problem(await ben.http.request(method, path, json=body)) == NOT_FOUND
    assert problem(await ben.http.patch(member, json={"status": "active"})) == NOT_FOUND
    assert (await ben.http.get("/api/companies")).json() == {"data": []}

    await ana.http.patch(member, json={"status": "active"})
    assert (await ben.http.get(place)).json()["role"] == "admin"


async def test_an_admin_who_makes_themselves_inactive_is_told_so(ana: Person, ben: Person) -> None:
    place = await new(ana, "companies")
    member = await join(ana, place, ben, "admin")
    answer = await ben.http.patch(member, json={"status": "inactive"})
    assert (answer.status_code, answer.json()["status"]) == (200, "inactive")
    assert problem(await ben.http.get(place)) == NOT_FOUND


async def test_a_profile_is_read_and_changed_by_its_owner_alone(ana: Person, ben: Person) -> None:
    change = {"full_name": "Ana Soto", "phone": "+56 9 1234", "rut": "12.345.678-5"}
    changed = (await ana.http.patch("/api/profile", json=change)).json()
    assert changed.items() >= {**change, "id": str(ana.id), "email": ana.email, "is_premium": False}.items()

    emptied = await ana.http.patch("/api/profile", json={"phone": None})
    assert (emptied.json()["phone"], emptied.json()["rut"]) == (None, change["rut"])
    assert (await ana.http.get("/api/profile")).json() == emptied.json()
    assert (await ben.http.get("/api/profile")).json()["full_name"] is None


async def test_what_only_the_service_sets_in_a_profile_is_refused(ana: Person) -> None:
    before = (await ana.http.get("/api/profile")).json()
    for name, value in {"role": "boss", "is_premium": True, "email": "x@y", "id": str(ana.id)}.items():
        assert (await ana.http.patch("/api/profile", json={name: value})).status_code == 422, name
    assert (await ana.http.patch("/api/profile", json={"rut": "x" * 21})).status_code == 422
    assert (await ana.http.get("/api/profile")).json() == before


async def test_a_workspace_is_deleted_by_its_owners_alone_and_a_personal_one_by_nobody(
    ana: Person, ben: Person
) -> None:
    [personal] = (await ana.http.get("/api/workspaces")).json()["data"]
    assert (await ana.http.delete(f"/api/workspaces/{personal['id']}")).status_code == 403
    made = (await ana.http.post("/api/workspaces", json={"name": "Shared"})).json()["id"]
    assert (await ben.http.delete(f"/api/workspaces/{made}")).status_code == 404
    await ana.http.post(f"/api/workspaces/{made}/members", json={"email": ben.email, "role": "admin"})
    assert (await ben.http.delete(f"/api/workspaces/{made}")).status_code == 403
    assert (await ana.http.delete(f"/api/workspaces/{made}")).status_code == 204
    assert (await ana.http.get(f"/api/workspaces/{made}")).status_code == 404
