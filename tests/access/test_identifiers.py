"""The numbers by which people and companies are known."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.access.identifiers import Identifiers, InvalidIdentifier
from recollect.access.membership_models import ProfileChange
from recollect.bootstrap import build_services, open_database
from recollect.db.tenancy import Caller
from recollect.errors import Misconfigured
from tests.conftest import MakePerson, make_settings

pytestmark = pytest.mark.anyio

OWNER = UUID(int=7)
RUT = Identifiers("cl.rut")


@pytest.mark.parametrize(
    "written", ["12.345.678-5", "12345678-5", " 123456785 ", "12.345.678\u20135", "CL 12.345.678-5"]
)
def test_every_way_of_writing_a_rut_is_the_same_rut(written: str) -> None:
    assert RUT.checked(written) == "12.345.678-5"
    assert RUT.normalised(written) == "123456785"
    assert RUT.entity_id(written, OWNER) == "123456785"


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("12.345.678-K", "its check digit is wrong"),
        ("1-9", "its length is wrong"),
        ("", "its length is wrong"),
        ("12.34A.678-5", "its form is wrong"),
    ],
)
def test_a_wrong_rut_is_refused_with_what_is_wrong_about_it(written: str, wrong: str) -> None:
    with pytest.raises(InvalidIdentifier) as refused:
        RUT.checked(written)
    name = "RUT (Rol Único Tributario, Chilean national tax number)"
    assert refused.value.detail == f'"{written}" is not a valid {name}: {wrong}.'
    assert (refused.value.code, refused.value.status) == ("invalid_identifier", 422)


def test_a_wrong_rut_has_an_entity_id_all_the_same() -> None:
    assert RUT.entity_id("12.345.678-K", OWNER) == "12345678k"


@given(st.text(max_size=40))
def test_no_text_is_too_odd_to_be_normalised(text: str) -> None:
    for scheme in ("cl.rut", "eu.vat", "uuid"):
        normalised = Identifiers(scheme).normalised(text)
        assert normalised == normalised.lower()
        assert not set(normalised) & set(". -\u2013/")


@pytest.mark.parametrize("identifier", [None, "", " - "])
def test_who_has_no_number_is_known_by_the_uuid(identifier: str | None) -> None:
    assert RUT.entity_id(identifier, OWNER) == str(OWNER)


def test_other_countries_numbers_are_checked_by_their_own_rules() -> None:
    cnpj = Identifiers("br.cnpj")
    assert cnpj.checked("16727230000197") == "16.727.230/0001-97"
    assert cnpj.normalised("16.727.230/0001-97") == "16727230000197"
    assert Identifiers("es.nif").checked("es 54362315-k") == "54362315K"
    with pytest.raises(InvalidIdentifier, match="CNPJ"):
        cnpj.checked("16.727.230/0001-98")
    with pytest.raises(InvalidIdentifier, match="stands for nothing"):
        Identifiers("eu.vat").checked("ZZ123")
    # Its module accepts three digits, and then cannot write them.
    with pytest.raises(InvalidIdentifier, match="length"):
        Identifiers("pt.cc").checked("083")


def test_with_uuids_nothing_is_checked_and_no_number_is_used() -> None:
    uuids = Identifiers("uuid")
    assert uuids.checked("anything at all") == "anything at all"
    assert uuids.entity_id("12.345.678-5", OWNER) == str(OWNER)


@pytest.mark.parametrize(
    "scheme", ["", "rut", "cl", "cl.", "..os", "luhn", "cl.rut.compact", "uuid4", "util"]
)
def test_an_unknown_scheme_is_named_together_with_what_to_use(scheme: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        Identifiers(scheme)
    assert f'RECOLLECT_ENTITY_ID_SCHEME is "{scheme}"' in refused.value.detail
    assert "cl.rut" in refused.value.detail


async def test_a_server_does_not_start_with_an_unknown_scheme(home: Path, database_url: str) -> None:
    settings = make_settings(home, database_url, entity_id_scheme="cl.rot")
    async with open_database(settings) as (database, secret):
        with pytest.raises(Misconfigured, match=r"cl\.rot"):
            async with build_services(settings, secret, database):
                pass


async def test_the_scheme_decides_what_a_profile_takes(
    home: Path, database_url: str, person: MakePerson
) -> None:
    ana = await person("ana@example.com")
    settings = make_settings(home, database_url, entity_id_scheme="br.cnpj")
    async with (
        open_database(settings) as (database, secret),
        build_services(settings, secret, database) as services,
        services.tenancy.acting_as(Caller.user(ana.id)) as tx,
    ):
        changed = await services.membership.change_profile(tx, ProfileChange(rut="16727230000197"))
        assert changed.rut == "16.727.230/0001-97"
        with pytest.raises(InvalidIdentifier, match="CNPJ"):
            await services.membership.change_profile(tx, ProfileChange(rut="12.345.678-5"))
