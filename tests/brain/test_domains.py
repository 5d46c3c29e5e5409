"""Forms and rows become memories as the domains' tables say."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from importlib.resources import files
from typing import Any

import pytest

from recollect.brain import domains as module
from recollect.brain.domains import Built, Domain, UnknownDomain, UnknownField, build, domain, domains
from recollect.engine.models import MAX_TEXT
from recollect.errors import InvalidInput

LANGUAGES = {"es", "en"}
FIELD = re.compile(r"\{([a-z][a-z0-9_]*)\}")
COMPANY = {
    "tax_regime": "ProPyme General",
    "activity_name": "Comercio al por menor",
    "activity_code": "471100",
    "legal_representative": "Juan Pérez",
    "start_date": date(2020, 3, 1),
    "accounting_start_month": "03",
}


def contents(name: str, fields: dict[str, Any], language: str = "es") -> dict[str, str]:
    return {built.slug: built.content for built in build(name, fields, language=language)}


@pytest.fixture(params=[each.name for each in domains()])
def each_domain(request: pytest.FixtureRequest) -> Domain:
    return domain(request.param)


def test_every_file_is_a_domain() -> None:
    names = {file.name for file in (files(module.__package__) / "domains").iterdir()}
    assert names == {f"{each.name}.toml" for each in domains()}
    assert {"company", "user", "onboarding", "settings"} <= {each.name for each in domains()}


def test_a_domain_says_what_it_is_for_and_what_it_tells(each_domain: Domain) -> None:
    assert each_domain.purpose.endswith(".")
    assert each_domain.entries
    for entry in each_domain.entries:
        assert re.fullmatch("[a-z0-9_]{1,255}", entry.slug)
        assert entry.slug.startswith(f"{entry.owner}_"), "a slug says whose it is"
        assert entry.category.startswith(f"{entry.owner}_")


def test_every_text_is_there_in_every_language_with_the_same_fields(each_domain: Domain) -> None:
    for entry in each_domain.entries:
        assert set(entry.text) >= LANGUAGES, entry.slug
        assert entry.fields, entry.slug
        for text in entry.text.values():
            assert set(FIELD.findall(text)) == set(entry.fields), text
            assert set(FIELD.findall(re.sub(r"\[.*?\]", "", text))), f"{text}: no field has to be there"
            assert not set(re.sub(r"\[([^\[\]]*)\]", r"\1", FIELD.sub("", text))) & set("{}[]"), text


def test_every_code_has_its_words_and_every_field_its_entry(each_domain: Domain) -> None:
    assert set(each_domain.fields) <= set(each_domain.field_names)
    for source in each_domain.fields.values():
        assert all(set(words) >= LANGUAGES for words in source.codes.values())


def test_a_slug_means_the_same_in_every_domain() -> None:
    entries = [entry for each in domains() for entry in each.entries]
    slugs = [entry.slug for entry in entries]
    assert sorted(set(slugs)) == sorted(slugs)


def test_a_domain_whose_fields_are_all_there_tells_all_of_it(each_domain: Domain) -> None:
    built = build(each_domain.name, dict.fromkeys(each_domain.field_names, "x"), language="es")
    assert [(b.slug, b.category, b.owner) for b in built] == [
        (entry.slug, entry.category, entry.owner) for entry in each_domain.entries
    ]
    assert all("x" in b.content and not set(b.content) & set("{}[]") for b in built)


def test_a_companys_row_becomes_its_memories() -> None:
    assert contents("company", COMPANY) == {
        "company_tax_regime": "Régimen tributario: ProPyme General",
        "company_activity": "Actividad económica: Comercio al por menor (471100)",
        "company_legal_representative": "Representante legal: Juan Pérez",
        "company_start_date": "Inicio de actividades: 2020-03-01",
        "company_accounting_start": "Mes de inicio de la contabilidad: marzo",
    }
    [regime, *_] = build("company", COMPANY, language="es")
    assert regime == Built(
        "company", "company_tax_regime", "company_tax", "Régimen tributario: ProPyme General"
    )


def test_a_users_row_becomes_their_memories() -> None:
    row = {"full_name": "Juan Pérez", "email": "juan@example.com", "phone": "+56 9 1234", "role": "Contador"}
    assert contents("user", row) == {
        "user_full_name": "Nombre completo: Juan Pérez",
        "user_email": "Correo electrónico: juan@example.com",
        "user_phone": "Teléfono: +56 9 1234",
        "user_role": "Cargo: Contador",
    }


def test_a_form_may_tell_of_the_user_and_of_the_company() -> None:
    form = {
        "goals": ["pagar a tiempo", "vender más"],
        "employees": 0,
        "registered_for_vat": False,
        "bookkeeping_by": "accountant",
    }
    assert [(b.owner, b.content) for b in build("onboarding", form, language="es")] == [
        ("user", "Quiere lograr: pagar a tiempo, vender más"),
        ("company", "Cantidad de trabajadores: 0"),
        ("company", "Contribuyente de IVA: no"),
        ("company", "Lleva la contabilidad: un contador externo"),
    ]


def test_a_change_of_settings_tells_only_what_it_holds() -> None:
    assert contents("settings", {"notification_channel": "email"}) == {
        "user_notification_channel": "Prefiere los avisos por: correo electrónico"
    }


@pytest.mark.parametrize("empty", [None, "", "  ", [], [None, ""]])
def test_what_is_empty_is_left_out(empty: object) -> None:
    assert contents("company", {"activity_name": "Comercio", "activity_code": empty}) == {
        "company_activity": "Actividad económica: Comercio"
    }
    assert contents("company", {"activity_name": empty, "activity_code": "471100"}) == {}
    assert contents("company", dict.fromkeys(COMPANY, empty)) == {}


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_language_that_is_not_there_is_english(language: str) -> None:
    told = contents("company", COMPANY, language)
    assert told["company_activity"] == "Economic activity: Comercio al por menor (471100)"
    assert told["company_accounting_start"] == "Accounting starts in: March"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (date(2020, 3, 1), "2020-03-01"),
        (datetime(2020, 3, 1, 12, tzinfo=UTC), "2020-03-01"),
        ("2020-03-01T00:00:00Z", "2020-03-01"),
        ("2020-03-01", "2020-03-01"),
        ("marzo de 2020", "marzo de 2020"),
    ],
)
def test_a_day_is_written_as_a_day_and_what_is_none_as_it_is(given: object, written: str) -> None:
    assert contents("company", {"start_date": given}) == {
        "company_start_date": f"Inicio de actividades: {written}"
    }


def test_a_code_nobody_knows_is_written_as_it_is() -> None:
    told = contents("company", {"accounting_start_month": "2020-03"})
    assert told["company_accounting_start"].endswith(": 2020-03")


def test_what_a_value_holds_is_never_read_as_a_template() -> None:
    trick = "{activity_code} {0.__class__} [x] %(email)s"
    told = contents("company", {"activity_name": trick, "activity_code": "1"})
    assert told == {"company_activity": f"Actividad económica: {trick} (1)"}


def test_unknown_fields_are_named_together_with_those_there_are() -> None:
    with pytest.raises(UnknownField) as refused:
        build("user", {"full_name": "Ana", "fullname": "Ana"}, language="es")
    assert refused.value.detail == '"fullname" is no field of user; it has: full_name, email, phone, role.'
    assert refused.value.status == 422
    with pytest.raises(UnknownField) as refused:
        build("user", {"x" * 10_000: 1}, language="es")
    assert len(refused.value.detail) < 200


def test_an_unknown_domain_is_answered_with_those_there_are() -> None:
    with pytest.raises(UnknownDomain, match="company, onboarding, settings, user") as refused:
        build("../company", {}, language="es")
    assert refused.value.status == 404


@pytest.mark.parametrize("odd", [{"a": 1}, [["nested"]], b"bytes", object()])
def test_a_value_that_cannot_be_written_is_refused_by_name(odd: object) -> None:
    with pytest.raises(InvalidInput, match=r"^full_name: "):
        build("user", {"full_name": odd}, language="es")


def test_a_memory_that_would_be_too_long_is_refused_by_its_fields() -> None:
    room = MAX_TEXT - len("Nombre completo: ")
    assert len(contents("user", {"full_name": "x" * room})["user_full_name"]) == MAX_TEXT
    with pytest.raises(InvalidInput, match=r"^full_name: too long.*50,000"):
        build("user", {"full_name": "x" * (room + 1)}, language="es")
