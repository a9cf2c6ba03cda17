from __future__ import annotations

from keyelab.build.progress import parse


def test_ninja_line_gives_share_and_short_text() -> None:
    line = "[19/305] Building CXX object ggml/src/CMakeFiles/ggml-cpu.dir/ggml-cpu/repack.cpp.o"
    step = parse(line)
    assert step is not None
    assert step.fraction == 19 / 305
    assert step.text == "19 of 305: compiling repack.cpp"


def test_ninja_link_line_names_the_program() -> None:
    step = parse("[305/305] Linking CXX executable bin/llama-server")
    assert step is not None
    assert step.fraction == 1.0
    assert step.text == "305 of 305: linking llama-server"


def test_shared_library_is_linked() -> None:
    step = parse("[7/9] Linking CXX shared library bin/libggml-cpu.so")
    assert step is not None
    assert step.text == "7 of 9: linking libggml-cpu.so"


def test_make_line_gives_percent() -> None:
    step = parse("[ 51%] Building HIP object a/b.dir/mmq-instance-q6_k.cu.o")
    assert step is not None
    assert step.fraction == 0.51
    assert step.text == "compiling mmq-instance-q6_k.cu"


def test_other_lines_are_no_progress() -> None:
    assert parse("-- Configuring done") is None
    assert parse("a.cpp:1:2: warning: [1/2] unused") is None
    assert parse("") is None


def test_nothing_to_do_is_not_divided_by_zero() -> None:
    step = parse("[0/0] nothing")
    assert step is not None
    assert step.fraction == 1.0
