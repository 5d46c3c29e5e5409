"""Whether a sentence forbids: what asks for the opposite is not the same rule."""

# ruff: noqa: RUF001 - other scripts have letters that look like Latin ones.

from __future__ import annotations

import pytest

from recollect.rules.learning.forbidding import forbids


@pytest.mark.parametrize(
    ("forbidden", "wanted"),
    [
        ("Don't use tabs", "Use tabs"),
        ("Avoid global variables.", "Prefer global variables."),
        ("No uses tabulaciones", "Usa tabulaciones"),
        ("Não use abas", "Use abas"),
        ("N'utilise pas de tabulations", "Utilise des tabulations"),
        ("Non usare tabulazioni", "Usa le tabulazioni"),
        ("Benutze keine Tabs", "Benutze Tabs"),
        ("Gebruik geen tabs", "Gebruik tabs"),
        ("Schrijf nooit commentaar in het Engels", "Schrijf altijd commentaar in het Engels"),
        ("Nie używaj tabulatorów", "Używaj tabulatorów"),
        ("Nepoužívej tabulátory", "Používej tabulátory"),
        ("Не используй табуляцию", "Используй табуляцию"),
        ("Ніколи не використовуй табуляцію", "Завжди використовуй табуляцію"),
        ("Sekme kullanma", "Sekme kullan"),
        ("Yorum satırı eklemeyin", "Yorum satırı ekleyin"),
        ("Jangan pakai tab", "Selalu pakai tab"),
        ("Đừng dùng tab", "Hãy dùng tab"),
        ("Không được dùng tab", "Phải dùng tab"),
        ("탭을 쓰지 마세요", "탭을 쓰세요"),
        ("不要使用制表符", "使用制表符"),
        ("請勿使用英文註解", "請使用英文註解"),
        ("タブを使わないでください", "タブを使ってください"),
        ("コメントを英語にしないこと", "コメントを英語にすること"),
    ],
)
def test_what_forbids_is_told_from_what_asks(forbidden: str, wanted: str) -> None:
    assert forbids(forbidden)
    assert not forbids(wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        "Don't forget to run the tests.",
        "Bitte nicht vergessen, die Tests laufen zu lassen.",
        "No olvides actualizar el changelog",
        "不要忘记更新文档",
        "テストを忘れないでください",
        "Use tabs, not spaces.",
        "Use pnpm, never npm or yarn!",
        "Add new tests next to the module.",
    ],
)
def test_what_is_only_put_in_the_negative_asks(wanted: str) -> None:
    assert not forbids(wanted)
