"""Paths, folders, patterns and archives; and input that is not what it should be."""

from __future__ import annotations

import io
import json
import os
import stat
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from recollect.rules.chats.finding import read_chats
from recollect.rules.chats.models import Chat
from tests.rules.chats.conftest import Found, Read, Write


def user(text: str) -> dict[str, Any]:
    return {"type": "user", "sessionId": "s", "uuid": text[:40], "message": {"role": "user", "content": text}}


def one(text: str) -> bytes:
    return json.dumps(user(text)).encode() + b"\n"


def packed(entries: dict[str, bytes], **more: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, **more) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_folders_patterns_and_files_are_read_each_file_once(read: Read, write: Write, tmp_path: Path) -> None:
    write("a/one.jsonl", one("one"))
    write("a/deep/two.jsonl", one("two"))
    write("a/deep/notes.txt", "not looked at")
    three = write("three", one("three"))
    found = read(tmp_path / "a", str(tmp_path / "**" / "*.jsonl"), three)
    assert sorted(found.said) == ["one", "three", "two"]
    assert not found.skipped


def test_a_home_folder_is_meant_by_its_sign(
    read: Read, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("one.jsonl", one("one"))
    monkeypatch.setenv("HOME", str(path.parent))
    assert read("~/one.jsonl").said == ["one"]


def test_a_path_that_is_not_there_is_reported(read: Read, tmp_path: Path) -> None:
    found = read(tmp_path / "nothing")
    assert "no such file" in found.reasons


def test_progress_rises_to_the_size_of_all_files(read: Read, write: Write, tmp_path: Path) -> None:
    write("one.jsonl", one("one") * 20_000)
    write("two.jsonl", one("two"))
    found = read(tmp_path)
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert {each[1] for each in found.progress} == {total}
    assert found.progress[-1][0] == total
    assert found.progress == sorted(found.progress)


def test_links_out_of_a_folder_are_not_followed(read: Read, write: Write, tmp_path: Path) -> None:
    write("secret/two.jsonl", one("two"))
    write("a/one.jsonl", one("one"))
    (tmp_path / "a" / "file.jsonl").symlink_to(tmp_path / "secret" / "two.jsonl")
    (tmp_path / "a" / "folder").symlink_to(tmp_path / "secret")
    (tmp_path / "a" / "same.jsonl").symlink_to(tmp_path / "a" / "one.jsonl")
    for given in (tmp_path / "a", str(tmp_path / "a" / "**" / "*.jsonl")):
        found = read(given)
        assert found.said == ["one"]
        assert "link out of the folder" in found.reasons


def test_a_pipe_is_not_waited_for(read: Read, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert "neither a file nor a folder" in read(tmp_path / "pipe.jsonl").reasons


def test_an_archive_is_read_without_being_unpacked(read: Read, write: Write, tmp_path: Path) -> None:
    path = write(
        "all.zip", packed({"x/one.jsonl": one("one"), "picture.png": b"\x89PNG", "two.jsonl": one("two")})
    )
    found = read(path)
    assert found.said == ["one", "two"]
    assert found.chats[0].source == f"{path}!x/one.jsonl"
    assert not found.skipped
    assert [each.name for each in tmp_path.iterdir()] == ["all.zip"]


def test_tricks_in_an_archive_are_refused_and_the_rest_read(read: Read, write: Write) -> None:
    link = zipfile.ZipInfo("link.jsonl")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../up.jsonl", one("up"))
        archive.writestr("/root.jsonl", one("root"))
        archive.writestr("a\\..\\..\\up.jsonl", one("up"))
        archive.writestr("C:up.jsonl", one("drive"))
        archive.writestr(link, "/etc/passwd")
        archive.writestr("inner.zip", packed({"one.jsonl": one("inner")}))
        archive.writestr("hidden.jsonl", packed({"one.jsonl": one("inner")}))
        archive.writestr("good.jsonl", one("good"))
    found = read(write("all.zip", buffer.getvalue()))
    assert found.said == ["good"]
    assert len(found.skipped) == 7
    assert {skipped.source.partition("!")[2] for skipped in found.skipped} >= {
        "../up.jsonl",
        "inner.zip",
        "hidden.jsonl",
    }


def test_an_archive_whose_names_are_no_text_is_reported_and_the_rest_read(read: Read, write: Write) -> None:
    archive = packed({"\u00e9.jsonl": one("inside")}).replace("\u00e9".encode(), b"\xff\xfe")
    found = read(write("a.zip", archive), write("b.jsonl", one("beside")))
    assert found.said == ["beside"]
    assert "damaged" in found.reasons


def test_a_bomb_is_not_unpacked(read: Read, write: Write) -> None:
    bomb = packed({"bomb.jsonl": b"\0" * 100_000_000, "good.jsonl": one("good")})
    found = read(write("bomb.zip", bomb))
    assert found.said == ["good"]
    assert found.skipped[0].source.endswith("bomb.zip!bomb.jsonl")
    zst = zstandard.ZstdCompressor().compress(one("one") + b" " * 100_000_000)
    assert "far more than chats do" in read(write("bomb.jsonl.zst", zst)).reasons


def test_an_archive_of_too_many_files_is_refused(read: Read, write: Write) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(20_001):
            archive.writestr(str(number), b"")
    assert "more than 20,000 files" in read(write("many.zip", buffer.getvalue())).reasons


def test_an_archives_list_is_not_read_when_it_is_huge(read: Read, write: Write) -> None:
    whole = bytearray(packed({"one.jsonl": one("one")}))
    # The end record says that the list has 5 MB.
    end = whole.rindex(b"PK\x05\x06")
    whole[end + 12 : end + 16] = (5_000_000).to_bytes(4, "little")
    padded = b"PK\x03\x04" + b"\0" * 6_000_000 + bytes(whole)
    found = read(write("list.zip", padded))
    assert not found.chats
    assert "files; unpack it" in found.reasons


def test_a_damaged_archive_is_read_as_far_as_it_goes(read: Read, write: Write) -> None:
    whole = bytearray(
        packed({"one.jsonl": one("one"), "two.jsonl": os.urandom(5_000), "three.jsonl": one("three")})
    )
    middle = whole.index(b"two.jsonl") + 2_000
    whole[middle : middle + 50] = b"\0" * 50
    found = read(write("a.zip", bytes(whole)))
    assert found.said == ["one", "three"]
    assert "damaged" in found.reasons
    assert "damaged" in read(write("b.zip", bytes(whole[:-30]))).reasons


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 500, "binary"),
        (b"\x1f\x8b\x08rest", "gzip"),
        (b"# My notes\n\nNothing else.\n", "none of the formats"),
        (b'{"some": "other", "json": 1}', "none of the formats"),
        (b'[{"uuid": "1", "name": "a project", "docs": []}]', "none of the formats"),
        (b'[{"mapping": 7}, {"mapping": {}}, 8]', "Nobody says anything"),
        (b"[" * 100_000, "none of the formats"),
    ],
)
def test_what_is_no_chat_is_reported(read: Read, write: Write, content: bytes, reason: str) -> None:
    write("good.jsonl", one("good"))
    found = read(write("bad.json", content).parent)
    assert found.said == ["good"]
    assert reason in found.reasons
    assert len(found.skipped) == 1


def test_a_line_that_is_cut_off_is_reported_with_its_number(read: Read, write: Write) -> None:
    found = read(write("a.jsonl", one("one") + one("broken")[:-20] + b"\n" + one("two")))
    assert found.said == ["one", "two"]
    (skipped,) = found.skipped
    assert (skipped.line, "cut off" in skipped.reason) == (2, True)


def test_many_bad_lines_are_counted(read: Read, write: Write) -> None:
    found = read(write("a.jsonl", one("one") + b'{"type":"user",\n' * 1_000))
    assert len(found.skipped) == 6
    assert "995 more lines" in found.reasons


def test_a_line_that_is_nested_very_deeply_is_reported(read: Read, write: Write) -> None:
    deep = b'{"type":"user","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    found = read(write("a.jsonl", deep + one("one")))
    assert found.said == ["one"]
    assert "nested too deeply" in found.reasons


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_other_encodings_are_read(read: Read, write: Write, encoding: str) -> None:
    text = json.dumps(user("Größe prüfen 🙂"), ensure_ascii=False) + "\n"
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    assert read(write("a.jsonl", mark + text.encode(encoding))).said == ["Größe prüfen 🙂"]
    export = json.dumps([{"role": "user", "content": "Größe"}], ensure_ascii=False)
    assert read(write("b.json", mark + export.encode(encoding))).said == ["Größe"]


def test_bytes_of_latin_1_among_utf_8_are_read_as_such(read: Read, write: Write) -> None:
    lines = '{"role":"user","content":"Größe"}\n'
    mixed = lines.encode() + lines.encode("latin-1")
    assert read(write("a.jsonl", mixed)).said == ["Größe", "Größe"]
    array = b"[" + lines.encode() + b"," + lines.encode("latin-1") + b"]"
    assert read(write("b.json", array)).said == ["Größe", "Größe"]


def test_a_name_that_is_no_text_can_be_stored(read: Read, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.jsonl"
    Path(os.fsdecode(path)).write_bytes(one("one"))
    (chat,) = read(tmp_path).chats
    assert chat.source.encode().endswith("\N{REPLACEMENT CHARACTER}.jsonl".encode())


def traced(read: Read, path: Path) -> tuple[Found, int]:
    """What is read, and the most memory that it took."""
    tracemalloc.start()
    found = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found, peak


def test_a_very_long_line_is_left_out_and_memory_stays_small(read: Read, write: Write) -> None:
    path = write("a.jsonl", one("one"))
    with path.open("ab") as stream:
        stream.write(b'{"type":"user","message":{"role":"user","content":"')
        for _ in range(100):
            stream.write(b"x" * 1_000_000)
        stream.write(b'"}}\n' + one("two"))
    found, peak = traced(read, path)
    assert found.said == ["one", "two"]
    assert "longer than 16 MB" in found.reasons
    assert peak < 60_000_000


def test_a_line_of_very_many_objects_is_left_out_and_memory_stays_small(read: Read, write: Write) -> None:
    many = b'{"type":"user","x":[' + b'{"b":""},' * 600_000 + b"0]}\n"
    path = write("a.jsonl", one("one") + many + one("two"))
    found, peak = traced(read, path)
    assert found.said == ["one", "two"]
    assert "too many objects" in found.reasons
    assert peak < 60_000_000


def test_an_export_is_held_one_conversation_at_a_time(read: Read, write: Write) -> None:
    node = {"parent": None, "message": {"author": {"role": "user"}, "content": {"parts": ["x" * 60_000]}}}
    text = json.dumps({"mapping": {"u": node}, "current_node": "u"})
    path = write("conversations.json", "[" + ",".join([text] * 1_000) + "]")
    count = 0
    tracemalloc.start()
    for chat in _streamed(path):
        count += len(chat.turns)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1_000
    assert peak < 10_000_000


def _streamed(path: Path) -> Iterator[Chat]:
    return read_chats([path], report=lambda _: None, progress=lambda *_: None)


def test_keys_without_end_take_no_room(read: Read, write: Write) -> None:
    keys = ",".join(f'"{number}{"k" * 1_000_000}":1' for number in range(60))
    path = write("a.json", f'[{{"messages": [{{"role": "user", "content": "one"}}], {keys}}}]')
    found, peak = traced(read, path)
    assert "larger than 32 MB" in found.reasons
    assert peak < 60_000_000


def test_a_line_of_very_many_texts_is_left_out(read: Read, write: Write) -> None:
    many = b'{"type":"user","x":[' + b'"ab",' * 1_600_000 + b"0]}\n"
    found, peak = traced(read, write("a.jsonl", one("one") + many + one("two")))
    assert found.said == ["one", "two"]
    assert "too many objects, lists or texts" in found.reasons
    assert peak < 60_000_000
