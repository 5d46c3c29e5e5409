"""In each language a rule, a ban, a note and a repeated wish are heard; reports, questions, tasks are not."""

# ruff: noqa: RUF001 - other scripts have letters that look like Latin ones.

from __future__ import annotations

from typing import NamedTuple

import pytest

from recollect.engine.language import languages_of, uncommon
from recollect.rules.chats.models import Turn
from recollect.rules.learning.clauses import clauses_in
from recollect.rules.learning.cues import LANGUAGES, UNKNOWN, _common_words, language_of
from recollect.rules.learning.features import listen
from recollect.rules.learning.pipeline import propose
from tests.rules.learning.talk import chat, sounds_like_a_rule


class Said(NamedTuple):
    rule: str
    ban: str
    note: str
    wish: str
    report: str
    question: str
    task: str
    conduct: str


SAID = {
    "spanish": Said(
        "De ahora en adelante quiero que escribas los comentarios en inglés.",
        "No modifiques las migraciones que ya existen.",
        "Anota en las reglas del proyecto que los importes van en céntimos.",
        "Actualizar el registro de cambios con la nueva versión",
        "Cada vez que abro el panel no aparece la lista y no se puede guardar nada.",
        "¿Cómo se llama el módulo que lee los pedidos?",
        "Crea una tabla para los proveedores.",
        "Pregúntame antes de cambiar cualquier archivo.",
    ),
    "portuguese": Said(
        "Daqui pra frente quero que você escreva os comentários em inglês.",
        "Não altere as migrações que já existem.",
        "Anote nas regras do projeto que os valores ficam em centavos.",
        "Atualizar o registro de mudanças com a nova versão",
        "Toda vez que eu abro o painel a lista não aparece e não consigo salvar nada.",
        "Qual é o nome do módulo que lê os pedidos?",
        "Crie uma tabela para os fornecedores.",
        "Espere a minha aprovação para seguir com a próxima parte.",
    ),
    "french": Said(
        "Dorénavant je veux que tu écrives les commentaires en anglais.",
        "Ne modifie pas les migrations qui existent déjà.",
        "Note dans les règles du projet que les montants sont en centimes.",
        "Mettre à jour le journal des versions avec la nouvelle version",
        "Je ne vois pas la liste quand j'ouvre le tableau et je ne trouve pas la cause.",
        "Comment s'appelle le module qui lit les commandes ?",
        "Crée une table pour les fournisseurs.",
        "Demande-moi avant de modifier quoi que ce soit.",
    ),
    "german": Said(
        "Ab sofort möchte ich, dass du die Kommentare auf Englisch schreibst.",
        "Ändere bitte keine Migrationen, die es schon gibt.",
        "Trag in die Regeln des Projekts ein, dass Beträge in Cent stehen.",
        "Bitte das Änderungsprotokoll mit der neuen Version ergänzen",
        "Ich sehe die Liste nicht, wenn ich die Übersicht öffne, und weiß nicht warum.",
        "Wie heißt das Modul, das die Bestellungen liest?",
        "Lege eine Tabelle für die Lieferanten an.",
        "Warte auf meine Freigabe, bevor du etwas änderst.",
    ),
    "italian": Said(
        "D'ora in poi voglio che tu scriva i commenti in inglese.",
        "Non modificare le migrazioni che esistono già.",
        "Annota nelle regole del progetto che gli importi sono in centesimi.",
        "Aggiornare il registro delle modifiche con la nuova versione",
        "Quando apro il pannello la lista non si vede e non riesco a salvare niente.",
        "Come si chiama il modulo che legge gli ordini?",
        "Crea una tabella per i fornitori.",
        "Aspetta la mia conferma e fai una cosa alla volta.",
    ),
    "dutch": Said(
        "Vanaf nu wil ik dat je het commentaar in het Engels schrijft.",
        "Wijzig de migraties die er al zijn niet.",
        "Noteer in de regels van het project dat bedragen in centen staan.",
        "Werk het logboek bij met de nieuwe versie",
        "Ik zie de lijst niet als ik het overzicht open en ik weet niet waarom.",
        "Hoe heet de module die de bestellingen leest?",
        "Maak een tabel voor de leveranciers.",
        "Wacht op mijn akkoord voordat je iets wijzigt.",
    ),
    "polish": Said(
        "Od teraz chcę, żebyś pisał komentarze po angielsku.",
        "Nie zmieniaj migracji, które już są.",
        "Dopisz do zasad projektu, że kwoty są w groszach.",
        "Zaktualizuj dziennik zmian o nową wersję",
        "Lista się nie wyświetla i nie wiem dlaczego, nic nie działa.",
        "Jak się nazywa moduł, który czyta zamówienia?",
        "Utwórz tabelę dla dostawców.",
        "Zapytaj mnie, zanim cokolwiek zmienisz.",
    ),
    "czech": Said(
        "Od teď chci, abys psal komentáře anglicky.",
        "Neupravuj migrace, které už existují.",
        "Zapiš do pravidel projektu, že částky jsou v haléřích.",
        "Doplň seznam změn o novou verzi",
        "Seznam se nezobrazuje a nevím proč, nic se neukládá.",
        "Jak se jmenuje modul, který čte objednávky?",
        "Vytvoř tabulku pro dodavatele.",
        "Počkej na můj souhlas, než něco změníš.",
    ),
    "turkish": Said(
        "Bundan sonra yorumları İngilizce yazmanı istiyorum.",
        "Var olan göç dosyalarını değiştirme.",
        "Projenin kurallarına tutarların kuruş olduğunu ekle.",
        "Değişiklik günlüğünü yeni sürümle güncelle",
        "Bu paneli açınca liste gelmiyor ama hata da yok.",
        "Siparişleri okuyan modül nerede ve kim yazmış?",
        "Tedarikçiler için bir tablo oluştur.",
        "Bir şey değiştirmeden önce bana sor ve onayımı bekle.",
    ),
    "vietnamese": Said(
        "Từ nay trở đi tôi muốn bạn viết chú thích bằng tiếng Anh.",
        "Đừng sửa các migration đã có.",
        "Ghi vào quy tắc của dự án là số tiền tính bằng xu.",
        "Cập nhật nhật ký thay đổi với phiên bản mới",
        "Danh sách vẫn trống và tôi không lưu được gì.",
        "Module đọc đơn hàng tên là gì?",
        "Tạo một bảng cho nhà cung cấp.",
        "Hỏi tôi trước khi sửa bất cứ thứ gì.",
    ),
    "indonesian": Said(
        "Mulai sekarang saya ingin kamu menulis komentar dalam bahasa Inggris.",
        "Jangan ubah migrasi yang sudah ada.",
        "Catat di aturan proyek bahwa jumlah uang dalam sen.",
        "Perbarui catatan perubahan dengan versi baru",
        "Daftarnya masih kosong dan saya tidak bisa menyimpan apa pun.",
        "Apa nama modul yang membaca pesanan?",
        "Buat tabel untuk para pemasok.",
        "Tunggu persetujuan saya sebelum mengubah apa pun.",
    ),
    "russian": Said(
        "Впредь я хочу, чтобы ты писал комментарии на английском.",
        "Не меняй миграции, которые уже есть.",
        "Запиши в правила проекта, что суммы хранятся в копейках.",
        "Обновить журнал изменений для новой версии",
        "Список не загружается, данные не сохранились, и я не понимаю причину.",
        "Как называется модуль, который читает заказы?",
        "Создай таблицу для поставщиков.",
        "Дождись моего подтверждения, прежде чем что-то менять.",
    ),
    "ukrainian": Said(
        "Відтепер я хочу, щоб ти писав коментарі англійською.",
        "Не змінюй міграції, які вже є.",
        "Запиши в правила проєкту, що суми зберігаються в копійках.",
        "Оновити журнал змін для нової версії",
        "Список не завантажується, дані не збереглися, і я не розумію причину.",
        "Як називається модуль, який читає замовлення?",
        "Створи таблицю для постачальників.",
        "Зачекай на моє підтвердження, перш ніж щось змінювати.",
    ),
    "chinese": Said(
        "从今以后，注释一律用英文写。",
        "不要改动已有的迁移文件。",
        "把金额以分为单位这一点写进项目规则。",
        "给新版本补充变更日志",
        "列表没有加载出来，数据也没有保存。",
        "读取订单的模块叫什么?",
        "创建一张供应商表。",
        "动手之前先问我，等我同意。",
    ),
    "japanese": Said(
        "今後はコメントを英語で書くようにしてください。",
        "既存のマイグレーションは変更しないでください。",
        "金額は銭単位だとルールに追記してください。",
        "新しい版の変更履歴を更新してください。",
        "一覧が読み込まれず、保存もできません。",
        "注文を読むモジュールの名前は何ですか?",
        "仕入先のテーブルを作成してください。",
        "変更する前に私の承認を待ってください。",
    ),
    "korean": Said(
        "앞으로는 주석을 영어로 작성해 주세요.",
        "이미 있는 마이그레이션은 수정하지 마세요.",
        "금액은 전 단위라는 것을 프로젝트 규칙에 추가해 줘.",
        "새 버전의 변경 기록을 업데이트해 줘.",
        "목록이 불러와지지 않고 저장도 되지 않습니다.",
        "주문을 읽는 모듈 이름이 뭐야?",
        "공급업체 테이블을 만들어 줘.",
        "수정하기 전에 내 승인을 받아 줘.",
    ),
}
BY_LANGUAGE = pytest.mark.parametrize("language", SAID)


def told_as(text: str) -> str:
    return language_of(clauses_in(text, text))


def features_of(text: str) -> set[str]:
    return {name for heard in listen(Turn("user", text, None, 2)) for name in heard.features}


def test_every_language_but_english_is_spoken_here() -> None:
    assert {*SAID, "english"} == set(LANGUAGES)


@BY_LANGUAGE
def test_a_language_is_told_by_its_words(language: str) -> None:
    assert [told_as(said) for said in SAID[language]] == [language] * len(Said._fields)


@BY_LANGUAGE
@pytest.mark.parametrize("kind", ["rule", "ban", "note"])
def test_what_is_to_last_is_heard(language: str, kind: str) -> None:
    assert sounds_like_a_rule(getattr(SAID[language], kind))


@BY_LANGUAGE
@pytest.mark.parametrize("kind", ["wish", "report", "question", "task"])
def test_what_is_said_once_is_no_rule(language: str, kind: str) -> None:
    assert not sounds_like_a_rule(getattr(SAID[language], kind))


@BY_LANGUAGE
def test_how_to_go_about_the_work_is_heard(language: str) -> None:
    assert "conduct" in features_of(SAID[language].conduct)


@BY_LANGUAGE
@pytest.mark.parametrize("kind", ["report", "question", "task"])
def test_what_to_work_on_is_not_how_to_go_about_it(language: str, kind: str) -> None:
    assert "conduct" not in features_of(getattr(SAID[language], kind))


@BY_LANGUAGE
def test_a_wish_that_comes_again_becomes_a_rule(language: str) -> None:
    wish = SAID[language].wish
    assert propose([chat(wish, session=session, day=day) for day, session in enumerate("abc")])


@BY_LANGUAGE
def test_a_report_that_comes_again_does_not(language: str) -> None:
    report = SAID[language].report
    assert not propose([chat(report, session=session, day=day) for day, session in enumerate("abc")])


@pytest.mark.parametrize(
    "said",
    [
        "continúa",
        "Continua con el siguiente.",
        "No funciona el inicio de sesión.",
        "Cada vez que entro me sale el mismo aviso.",
        "Je ne comprends pas cette partie.",
        "Não aparece nada na lista.",
        "Nie działa logowanie.",
    ],
)
def test_a_nod_and_a_fault_forbid_nothing(said: str) -> None:
    assert not sounds_like_a_rule(said)


def test_each_time_that_you_do_something_lasts_and_each_time_that_i_do_does_not() -> None:
    assert sounds_like_a_rule("Cada vez que cambies el esquema, ejecuta las pruebas.")
    assert not sounds_like_a_rule("Cada vez que cambio el esquema, fallan las pruebas.")


@pytest.mark.parametrize(
    "said",
    [
        "Te rog, nu mai schimba fișierul de configurare până când nu îți spun eu, pentru că se strică.",
        "Mindig futtasd le a teszteket, és soha ne módosítsd a beállításokat, mert nem lehet visszaállítani.",
        "Använd alltid tabbar och ändra inte filen som jag har skrivit.",
        "Nikdy sa nedotýkaj súboru, ktorý som už upravil, keď to nie je treba.",
    ],
)
def test_a_language_that_is_not_known_says_nothing(said: str) -> None:
    assert told_as(said) == UNKNOWN
    assert all(not heard.cues for heard in listen(Turn("user", said, None, 2)))


@pytest.mark.parametrize("said", ["never use var", "no inline styles", "never log to stdout"])
def test_in_doubt_it_is_english(said: str) -> None:
    assert told_as(said) == "english"
    assert sounds_like_a_rule(said)


def test_the_common_words_of_other_languages_are_not_english() -> None:
    for language, words in _common_words():
        shared = [word for word in words if not uncommon((word,)) and "english" in languages_of((word,))]
        assert not shared, language
