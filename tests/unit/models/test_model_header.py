"""The header reader agrees with the gguf package on good files and is exact about bad ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyelab.errors import KeyelabError
from keyelab.models.fetch import PACKAGED
from keyelab.models.header import read

MakeGguf = Callable[..., Path]


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def two_tensors(tail: int = 128, extra: bytes = b"") -> bytes:
    """GGUF 3 with one key and two F32 tensors of 4 x 4: an MoE layer without dense ffn tensors."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 2 if extra else 1)
    head += text("general.architecture") + struct.pack("<I", 8) + text("qwen3moe") + extra
    for number, name in enumerate(["blk.0.ffn_gate_exps.weight", "blk.0.attn_q.weight"]):
        head += text(name) + struct.pack("<I", 2) + struct.pack("<QQ", 4, 4)
        head += struct.pack("<IQ", 0, number * 64)
    return head + bytes(-len(head) % 32) + b"\1" * tail


GOOD = two_tensors()
WORDS = struct.pack("<IIQ", 9, 8, 3) + text("a") + text("") + text("é")
FLAGS = struct.pack("<IIQ", 9, 7, 4) + b"\1\0\1\1"


def saved(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["keyelab-tiny-f16.gguf", "mmproj-keyelab-tiny-f16.gguf"])
def test_it_agrees_with_the_gguf_package_on_the_demo_model(name: str) -> None:
    from gguf import GGUFReader

    ours, theirs = read(PACKAGED / name), GGUFReader(PACKAGED / name)
    assert [(t.name, t.shape, t.offset_bytes, t.size_bytes, t.type) for t in ours.tensors] == [
        (t.name, tuple(map(int, t.shape)), t.data_offset, t.n_bytes, t.tensor_type.name)
        for t in theirs.tensors
    ]
    for key, value in ours.values.items():
        other = theirs.fields[key].contents()
        assert value == (tuple(other) if isinstance(other, list) else other), key


def test_the_demo_model_tells_its_geometry() -> None:
    header = read(PACKAGED / "keyelab-tiny-f16.gguf")
    assert header.architecture == "qwen3vlmoe"
    assert header.parameters == 1_068_416
    assert header.quantization == "F16"
    assert header.number("context_length") == 8192
    assert header.number("embedding_length") == 128
    with pytest.raises(KeyelabError, match=r"number qwen3vlmoe.no_such_key in .*, found None"):
        header.number("no_such_key")
    assert header.chat_template


def test_a_model_without_dense_tensors_is_not_called_truncated(tmp_path: Path) -> None:
    header = read(saved(tmp_path, GOOD))
    assert header.parameters == 32
    assert header.quantization == "F32"  # by its tensors: there is no file_type


def test_cut_weights_name_the_tensor_and_the_bytes(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError) as caught:
        read(saved(tmp_path, GOOD[:-40]))
    message = caught.value.message
    assert "incomplete, 40 bytes of tensor blk.0.attn_q.weight are missing" in message
    assert f"expected {len(GOOD)} bytes" in message


def test_cut_weights_of_two_tensors_name_the_first_and_count_the_rest(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match=r"100 bytes of tensor blk.0.ffn_gate_exps.weight and 1"):
        read(saved(tmp_path, GOOD[:-100]))


def test_padding_after_the_last_tensor_is_not_asked_for(tmp_path: Path) -> None:
    head = len(GOOD) - 128
    content = GOOD[:head].replace(struct.pack("<QQ", 4, 4), struct.pack("<QQ", 4, 3))
    assert read(saved(tmp_path, content + bytes(64 + 48))).parameters == 24


def test_a_cut_header_says_where(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match=r"cut off or damaged at byte 64: .* the file has 70"):
        read(saved(tmp_path, GOOD[:70]))


def test_only_the_header_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path, GOOD[:-128])
    grown = GOOD.replace(
        struct.pack("<QQ", 4, 4) + struct.pack("<IQ", 0, 64),
        struct.pack("<QQ", 2**20, 2**14) + struct.pack("<IQ", 0, 64),
    )
    path.write_bytes(grown[:-128])
    with path.open("r+b") as stream:
        stream.truncate(len(GOOD) - 128 + 64 + 2**36)  # 64 GiB, all of it a hole
    assert read(path).parameters == 16 + 2**34


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (GOOD.replace(b"GGUF\x03\0\0\0", b"GGUF\x01\0\0\0"), "version 1"),
        (GOOD.replace(b"GGUF\x03\0\0\0", b"GGUF\0\0\0\x03"), "version 50331648"),
        (GOOD.replace(struct.pack("<IQ", 0, 64), struct.pack("<IQ", 999, 64)), "999 is not"),
        (two_tensors(extra=text("general.alignment") + struct.pack("<II", 4, 0)), "alignment 0"),
        (two_tensors(extra=text("x") + struct.pack("<I", 77)), "value type 77"),
        (two_tensors(extra=text("x") + struct.pack("<IIQ", 9, 9, 1)), "value type 9"),
        (two_tensors(extra=text("x") + struct.pack("<IIQ", 9, 7, 2**60)), f"{2**60} bytes wanted"),
    ],
)
def test_a_damaged_header_says_what_is_wrong(tmp_path: Path, content: bytes, found: str) -> None:
    with pytest.raises(KeyelabError) as caught:
        read(saved(tmp_path, content))
    assert found in caught.value.message


def test_alignment_moves_the_weights(tmp_path: Path) -> None:
    from gguf import GGUFReader

    content = two_tensors(extra=text("general.alignment") + struct.pack("<II", 4, 64))
    path = saved(tmp_path, content + bytes(64))
    assert read(path).tensors[0].offset_bytes == GGUFReader(path).tensors[0].data_offset


def test_arrays_are_read_whole(tmp_path: Path) -> None:
    assert read(saved(tmp_path, BASES[1])).values["x"] == ("a", "", "é")
    assert read(saved(tmp_path, BASES[2])).values["x"] == (True, False, True, True)


@pytest.mark.parametrize(
    ("number", "name"), [(32, "BF16"), (0, "F32"), (15, "Q4_K_M"), (99, "F32")]
)
def test_the_file_type_is_named_as_llama_cpp_does(
    text_model: MakeGguf, number: int, name: str
) -> None:
    assert read(text_model(general__file_type=number)).quantization == name


BASES = [GOOD, two_tensors(extra=text("x") + WORDS), two_tensors(extra=text("x") + FLAGS)]


def mutations(base: bytes) -> st.SearchStrategy[bytes]:
    """Truncations, overwritten bytes and plain noise behind the magic."""

    def overwritten(change: tuple[int, bytes]) -> bytes:
        at, new = change
        return base[:at] + new + base[at + len(new) :]

    return st.one_of(
        st.integers(0, len(base)).map(lambda end: base[:end]),
        st.tuples(st.integers(4, len(base) - 1), st.binary(min_size=1, max_size=16)).map(
            overwritten
        ),
        st.binary(max_size=200).map(lambda noise: b"GGUF" + noise),
        st.binary(max_size=200).map(lambda noise: b"GGUF\x03\0\0\0" + noise),
        st.binary(max_size=50),
    )


@settings(
    max_examples=600,
    deadline=2000,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(content=st.one_of(map(mutations, BASES)))
def test_no_input_raises_anything_but_our_error(tmp_path: Path, content: bytes) -> None:
    path = saved(tmp_path, content)
    try:
        header = read(path)
    except KeyelabError:
        return
    assert isinstance(header.parameters, int)
    assert header.quantization is None or header.quantization
    assert all(t.offset_bytes + t.size_bytes <= len(content) for t in header.tensors)


POINTER = (
    "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 61203283968\n"
)
PAGE = "<!DOCTYPE html>\n<html><head><title>x</title></head><body>login</body></html>\n"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "a file of 0 bytes"),
        (POINTER.encode(), "git-lfs pointer to a file of 61203283968 bytes"),
        (b"tjgg\x03\0\0\0" + b"\0" * 64, "an old GGML file (ggjt), from before GGUF"),
        (PAGE.encode(), "a web page (HTML)"),
        (b"\xef\xbb\xbf\n  <HTML><body>login", "a web page (HTML)"),
        (b'{"Code":10010,"Message":"no"}', 'a file that starts with b\'{"Code":10010,'),
        (b"GG", "a file that starts with b'GG'"),
    ],
)
def test_a_file_that_is_no_gguf_is_named_and_left_alone(
    tmp_path: Path, content: bytes, found: str
) -> None:
    path = saved(tmp_path, content)
    with pytest.raises(KeyelabError) as caught:
        read(path, "mmproj")
    assert found in caught.value.message
    assert "(mmproj)" in caught.value.message
    assert ("lfs pull --include model.gguf" in caught.value.hint) == ("git-lfs" in found)
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_opened_names_the_parameter(tmp_path: Path) -> None:
    with pytest.raises(KeyelabError, match="found: No such file") as caught:
        read(tmp_path / "absent.gguf", "mmproj")
    assert "model_fetch.mmproj_file" in caught.value.hint
    with pytest.raises(KeyelabError, match="found: Is a directory"):
        read(tmp_path)
