"""Writes are whole or not there, digests see content and mode, records hold no secrets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyelab import files
from keyelab.errors import KeyelabError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.cu").write_text("one\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "link").symlink_to("src/a.cu")
    return folder


def test_a_file_is_written_whole_and_its_folder_made(tmp_path: Path) -> None:
    path = files.write_text(tmp_path / "deep/er/note.md", "grün\n")
    assert path.read_bytes() == "grün\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["note.md"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = files.write_text(tmp_path / "run.json", "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_write_stopped_by_the_user_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        files.write_bytes(tmp_path / "x.bin", b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_is_no_json_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        files.write_json(tmp_path / "x.json", {"a": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_follows_the_umask_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = files.write_text(tmp_path / "new.txt", "x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o750)
    files.write_text(path, "y")
    assert path.stat().st_mode & 0o777 == 0o750


def test_json_is_sorted_and_reads_back(tmp_path: Path) -> None:
    path = files.write_json(tmp_path / "x.json", {"b": "视频", "a": [1]})
    assert path.read_text(encoding="utf-8").startswith('{\n  "a"')
    assert files.read_json(path) == {"a": [1], "b": "视频"}


def test_missing_and_broken_json_are_named(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="expected a file at"):
        files.read_json(tmp_path / "no.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(KeyelabError, match="expected JSON in"):
        files.read_json(tmp_path / "bad.json")


def test_the_digest_of_a_file_tells_its_progress(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc" * 500_000)
    told: list[int] = []
    assert files.sha256_file(path, told.append) == files.sha256_file(path)
    assert sum(told) == 1_500_000
    (tmp_path / "abc").write_bytes(b"abc")
    assert files.sha256_file(tmp_path / "abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1
    )


def test_the_digest_of_a_value_ignores_the_order_of_keys() -> None:
    assert files.sha256_json({"a": 1, "b": 2}) == files.sha256_json({"b": 2, "a": 1})
    assert files.sha256_json({"a": 1}) != files.sha256_json({"a": "1"})


def test_the_tree_digest_ignores_times_and_empty_folders(tree: Path) -> None:
    before = files.sha256_tree(tree)
    os.utime(tree / "src/a.cu", (1, 1))
    (tree / "empty").mkdir()
    assert files.sha256_tree(tree) == before


@pytest.mark.parametrize("change", ["content", "mode", "rename", "link", "new", "gone", "kind"])
def test_the_tree_digest_sees_every_real_change(tree: Path, change: str) -> None:
    before = files.sha256_tree(tree)
    if change == "content":
        (tree / "src/a.cu").write_text("two\n")
    elif change == "mode":
        (tree / "run.sh").chmod(0o755)
    elif change == "rename":
        (tree / "src/a.cu").rename(tree / "src/b.cu")
    elif change == "link":
        (tree / "link").unlink()
        (tree / "link").symlink_to("run.sh")
    elif change == "new":
        (tree / "src/new").touch()
    elif change == "gone":
        (tree / "run.sh").unlink()
    else:
        (tree / "link").unlink()
        (tree / "link").write_text("src/a.cu")
    assert files.sha256_tree(tree) != before


def test_the_tree_digest_leaves_out_the_named_entries(tree: Path) -> None:
    before = files.sha256_tree(tree)
    (tree / ".git").mkdir()
    (tree / ".git/HEAD").write_text("x")
    (tree / ".gitignore").write_text("x")
    assert files.sha256_tree(tree, skip=[".gitignore"]) == before
    assert files.sha256_tree(tree) != before


def test_the_tree_digest_leaves_out_what_git_and_keyelab_keep_there(tree: Path) -> None:
    before = files.sha256_tree(tree)
    for name in (".git", ".keyelab"):
        (tree / name).mkdir()
        (tree / name / "state").write_text("x")
    assert files.sha256_tree(tree) == before


def test_the_tree_digest_foretells_a_replacement(tree: Path) -> None:
    foretold = files.sha256_tree(tree, replaced={"src/a.cu": b"two\n"})
    (tree / "src/a.cu").write_bytes(b"two\n")
    assert files.sha256_tree(tree) == foretold


def test_names_that_are_not_utf_8_have_a_digest(tree: Path) -> None:
    before = files.sha256_tree(tree)
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff.txt")).touch()
    assert files.sha256_tree(tree) != before


def test_a_folder_that_is_not_there_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="expected a folder"):
        files.sha256_tree(tmp_path / "no")


def test_paths_show_relative_to_the_checkout_and_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert files.shown(files.project_root() / "params/x.yaml") == "params/x.yaml"
    assert files.shown("/home/someone/models/m.gguf") == "~/models/m.gguf"
    assert files.shown("/opt/models/m.gguf") == "/opt/models/m.gguf"
    for text in ("params/x.yaml", "~/models/m.gguf", "/opt/models/m.gguf"):
        assert files.shown(files.located(text)) == text


def test_a_home_of_slash_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert files.shown("/opt/m.gguf") == "/opt/m.gguf"
    assert files.redact("see /opt/m.gguf") == "see /opt/m.gguf"


def test_a_user_without_a_home_gets_paths_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(files.Path, "home", none)
    assert files.shown("/opt/m.gguf") == "/opt/m.gguf"
    assert files.redact("x") == "x"


def test_without_a_checkout_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYELAB_HOME", str(tmp_path))
    with pytest.raises(KeyelabError, match="expected a keyelab checkout") as caught:
        files.project_root()
    assert "KEYELAB_HOME" in caught.value.hint


SECRET = "s3cr3t-Value_9"


@pytest.mark.parametrize(
    "text",
    [
        f"api_key: {SECRET}",
        f"API-KEY={SECRET}",
        f'"api_key": "{SECRET}"',
        f"HF_TOKEN={SECRET}",
        f"MODELSCOPE_API_TOKEN = '{SECRET}'",
        f"Authorization: Bearer {SECRET}",
        f"Authorization: Basic {SECRET}",
        f'-H "Authorization: Bearer {SECRET}"',
        f"llama-server --api-key {SECRET} --port 8082",
        f'["--api-key", "{SECRET}"]',
        f"password={SECRET}&user=a",
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        f"git clone https://user:{SECRET}@host/repo.git",
        f"https://{SECRET}@host/v.mp4",
        f"https://host/v.mp4?X-Amz-Date=1&X-Amz-Signature={SECRET}&x=1",
        f"https://host/v.mp4?sv=1&sig={SECRET}",
        f"https://host/v.mp4?t={SECRET * 2}",
        f"&#39;https://host/v.mp4?Policy={SECRET}&amp;b={SECRET}&#39;",
        f'"video": "https://host/v.mp4?user=a&access_token={SECRET}"',
        f"password=123456:{SECRET}",
        "log in with hf_" + "A1b2" * 6,
    ],
)
def test_secrets_do_not_stay(text: str) -> None:
    cleaned = files.redact(text)
    assert SECRET not in cleaned
    assert "A1b2" not in cleaned
    assert "[redacted]" in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "print_info: EOS token        = 151645 '<|im_end|>'",
        "print_info: EOG token        = 151643 '<|endoftext|>'",
        "eval time = 494667.69 ms / 1703 tokens ( 290.47 ms per token, 3.44 tokens per second)",
        "max_tokens: 32760",
        "the token generation speed falls with depth",
        "--api-key-file keys.txt",
        "https://host/a@b",
        '{"finish_reason": "stop", "usage": {"completion_tokens": 171703}}',
        '{"ms_per_token": 55.4, "eos_token": 151645}',
        '[{"token": null}, {"token": false}, {"token": [123456]}, {"token": {"number": 1}}]',
        'curl -H "$(printf \'Authorization: Bearer %s\' "$(cat key)")"',
        "https://host/watch?v=dQw4w9WgXcQ&t=10",
        "https://host/search?q=a@b",
        "git@github.com:a/b, see https://host/a@b",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert files.redact(text) == text


KEYS = st.sampled_from(
    ["token", "ms_per_token", "--api-key", "password", "Authorization", "a", "https://u:p@h?sig=x"]
)
TEXTS = st.text(alphabet='token=:" \\{}[],ab12\n', max_size=30) | st.sampled_from(
    [
        "Bearer",
        "--token",
        "https://host/?key=12&\\x",
        "token=\nabcdefgh",
        'api_key="\\"',
        "://a:b@c",
    ]
)
VALUES = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
)


@pytest.mark.parametrize("line", ["tiktoken==0.12.0", "if secret == expected_value:"])
def test_a_version_or_a_comparison_is_no_secret(line: str) -> None:
    assert files.redact(line) == line


@given(
    st.dictionaries(KEYS, VALUES, max_size=5),
    st.sampled_from([None, 2]),
    st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
    st.integers(0, 2),
)
def test_redaction_leaves_json_readable_and_its_shape_as_it_was(
    value: dict[str, Any], indent: int | None, separators: tuple[str, str], depth: int
) -> None:
    secret = f'api_key = "{SECRET}"\nAuthorization: Bearer {SECRET}'
    source: Any = {"value": value, "note": secret}
    for _ in range(depth):  # JSON in a text of JSON, as a notebook's output holds it
        source = {"text": json.dumps(source), "note": secret}
    cleaned = files.redact(json.dumps(source, indent=indent, separators=separators))
    assert SECRET not in cleaned
    assert shape(json.loads(cleaned)) == shape(source)


def shape(value: Any) -> Any:
    """A JSON value without what its texts say."""
    if isinstance(value, dict):
        return {number: shape(item) for number, item in enumerate(value.values())}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return "" if isinstance(value, str) else value


def test_home_folders_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert files.redact("at /home/someone/work/x") == "at ~/work/x"
