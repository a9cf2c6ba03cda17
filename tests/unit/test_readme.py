"""README.zh-CN.md says what README.md says, and what a README names exists."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path

import pytest
from calls import calls, refusal
from markdown_it import MarkdownIt

from keyelab.cli import cli
from keyelab.diagnose.entry import catalogue
from keyelab.errors import UsageError
from keyelab.params import PARAMETERS, parse_override, resolve

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE, CI = (ROOT / n for n in ("README.md", "README.zh-CN.md", "docs/ci/README.md"))
READMES = pytest.mark.parametrize("path", [ENGLISH, CHINESE], ids=lambda path: path.name)
ALL = pytest.mark.parametrize(
    "path", [ENGLISH, CHINESE, CI], ids=lambda path: str(path.relative_to(ROOT))
)
UNITS = "%|min|s|ms|MB|GB|MiB|GiB|tokens/s"


@dataclass
class Block:
    """A heading, paragraph, list item, table cell or code block; or all of a section."""

    kind: list[str]  # its elements, outermost first, such as table/tbody/tr/td
    code: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    prose: str = ""  # the words, with ` for a code span

    def numbers(self) -> list[str]:
        found = re.findall(rf"(\d+(?:[.,]\d+)*)(?:\s?({UNITS})(?![A-Za-z]))?", self.prose)
        return sorted(" ".join(filter(None, one)) for one in found)

    def names(self) -> list[str]:
        """Words of the prose that are code: options, and those with an underscore."""
        words = re.findall(r"[\w./=-]*_[\w./=-]*|(?<![\w-])--?[A-Za-z][\w=-]*", self.prose, re.A)
        return sorted(word.strip(".") for word in words)

    def quotes(self) -> list[str]:
        return re.findall(r'["“]([^"”]+)["”]', self.prose)

    def others(self) -> list[str]:
        """Targets of links, the other README's name left out."""
        return [re.sub(r"^README(\.zh-CN)?\.md$", "the other README", link) for link in self.links]


Section = list[Block]  # its heading first


def blocks(path: Path) -> Iterator[Block]:
    around: list[str] = []
    for token in MarkdownIt().enable("table").parse(path.read_text(encoding="utf-8")):
        if token.type == "fence":
            yield Block(["/".join([*around, f"code-{token.info}"])], [token.content])
        elif token.type == "inline":
            block = Block(["/".join(around)])
            for child in token.children or ():
                if child.type == "code_inline":
                    block.code.append(child.content)
                elif child.type == "link_open":
                    block.links.append(str(child.attrs["href"]))
                elif child.type == "image":
                    block.pictures.append(str(child.attrs["src"]))
                block.prose += "`" if child.type == "code_inline" else child.content
            yield block
        elif token.nesting == 1:
            around.append(token.tag)
        elif token.nesting == -1:
            around.pop()


def sections(path: Path) -> list[Section]:
    found: list[Section] = []
    for block in blocks(path):
        if re.fullmatch(r"h\d", block.kind[0]):
            found.append([])
        found[-1].append(block)
    return found


def joined(section: Section) -> Block:
    lists = (
        [x for block in section for x in getattr(block, name)]
        for name in ("kind", "code", "links", "pictures")
    )
    return Block(*lists, " ".join(block.prose for block in section))


def pairs() -> list[tuple[str, Block, Block]]:
    """(where, English, Chinese): block by block, or section by section where blocks differ."""
    english, chinese = sections(ENGLISH), sections(CHINESE)
    outline = [[f"{s[0].kind[0]} {s[0].prose}" for s in both] for both in (english, chinese)]
    levels = [[s[0].kind for s in both] for both in (english, chinese)]
    assert levels[0] == levels[1], "headings differ:\n" + "\n\n".join(map("\n".join, outline))
    found = []
    for one, other in zip(english, chinese, strict=True):
        title = one[0].prose
        if [block.kind for block in one] != [block.kind for block in other]:
            one, other = [joined(one)], [joined(other)]
        for a, b in zip(one, other, strict=True):
            found.append((f"§ {title}, {a.kind[0]} {a.prose[:60]!r}", a, b))
    return found


def codes(path: Path) -> list[str]:
    return [code for block in blocks(path) for code in block.code]


@pytest.mark.parametrize(
    "what",
    [
        lambda block: block.kind,
        lambda block: block.code,
        lambda block: block.pictures,
        Block.others,
        Block.numbers,
        Block.names,
        Block.quotes,
    ],
    ids=["blocks", "code", "pictures", "links", "numbers", "names_in_prose", "quoted_words"],
)
def test_both_have_the_same_in_the_same_order(what: Callable[[Block], list[str]]) -> None:
    compared, differing = 0, []
    for where, one, other in pairs():
        english, chinese = what(one), what(other)
        compared += len(english)
        if english != chinese:
            more, less = Counter(english) - Counter(chinese), Counter(chinese) - Counter(english)
            told = f"only English {list(more)}, only Chinese {list(less)}"
            order = f"another order: {english}, {chinese}"
            differing.append(f"{where}: {told if more or less else order}")
    assert compared
    assert not differing, "\n".join(differing)


def test_each_chinese_section_was_written_from_the_english_that_stands_there() -> None:
    marks = re.findall(r"<!-- (en:\w+) -->", CHINESE.read_text(encoding="utf-8"))
    stale = []
    for section, old in zip(sections(ENGLISH), marks, strict=True):
        content = repr([astuple(block) for block in section])
        new = f"en:{hashlib.sha256(content.encode()).hexdigest()[:8]}"
        if new != old:
            stale.append(f"§ {section[0].prose}: sed -i s/{old}/{new}/ {CHINESE.name}")
    assert not stale, "README.md changed; translate the change, then\n" + "\n".join(stale)


def test_each_links_the_other_at_its_top() -> None:
    for path, other in ((ENGLISH, CHINESE), (CHINESE, ENGLISH)):
        assert other.name in sections(path)[0][1].links, path.name


def test_chinese_stands_where_english_does() -> None:
    for where, one, other in pairs():
        words = re.findall(r"\b[a-z]{2,}\b", one.prose)
        assert len(words) < 2 or re.search("[一-鿿]", other.prose), where


def test_chinese_has_full_width_punctuation_and_spaces_around_latin_words() -> None:
    han, latin, narrow = "[一-鿿]", "[A-Za-z0-9`]", '[,;:!?()"]'
    fault = re.compile(f"{han}(?:{latin}|{narrow})|(?:{latin}|{narrow}){han}")
    for block in blocks(CHINESE):
        assert not (found := fault.search(block.prose)), f"{found and found[0]}: {block.prose}"


@ALL
def test_links_and_pictures_lead_to_something_in_the_repository(path: Path) -> None:
    found = [target for block in blocks(path) for target in (*block.links, *block.pictures)]
    relative = [target for target in found if not target.startswith(("https://", "http://"))]
    assert len(relative) >= 4
    for target in relative:
        name, _, heading = target.partition("#")
        assert (path.parent / name).exists(), target
        if heading:
            titles = [section[0].prose for section in sections(path.parent / name)]
            # a heading's name in a link, as code forges make it
            known = [re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles]
            assert heading in known, f"{target}: the headings are {known}"


@ALL
def test_keyelab_takes_the_words_of_every_call(path: Path) -> None:
    found = calls("keyelab", codes(path))
    assert len(found) >= 4
    for words in found:
        why = words and refusal(cli, words)
        assert not why, f"keyelab {' '.join(words)}: {why}"


@READMES
def test_an_option_in_the_row_of_a_command_is_its_own(path: Path) -> None:
    command: list[str] = []
    checked = 0
    for block in blocks(path):
        if block.kind[0].endswith("td"):
            command = next(iter(calls("keyelab", block.code)), command)
            for option in (code for code in block.code if code.startswith("--")):
                why = refusal(cli, [*command, *option.split()])
                assert "No such option" not in why, f"keyelab {command[0]}: {why}"
                checked += bool(command)
        else:
            command = []
    assert checked >= 5


@READMES
def test_papermill_takes_the_words_and_the_files_are_there(path: Path) -> None:
    from papermill.cli import papermill

    found = calls("papermill", codes(path))
    assert len(found) == 2
    for words in found:
        assert not (why := refusal(papermill, words)), f"papermill {' '.join(words)}: {why}"
        for word in words:
            assert not word.startswith(("notebooks/", "params/")) or (ROOT / word).is_file(), word


@READMES
def test_every_make_target_exists(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    words = {word for call in calls("make", codes(path)) for word in call}
    assert words >= {"demo", "lab", "run", "lint", "test"}
    assert {word for word in words if "=" not in word} <= known
    for value in (word.removeprefix("TARGET=") for word in words if "=" in word):
        assert (ROOT / "params" / value).is_dir(), value


@ALL
def test_every_parameter_exists_and_takes_the_value_given(path: Path) -> None:
    phases = "|".join(PARAMETERS)
    named = re.compile(rf"(?<![/\w])({phases})\.(\w+)(?:(?:=|: )([\w./-]+))?", re.ASCII)
    texts = [text for block in blocks(path) for text in (*block.code, block.prose)]
    found = [match.groups() for text in texts for match in named.finditer(text)]
    assert found
    for phase, key, value in found:
        assert key in PARAMETERS[phase].model_fields, f"{phase}.{key}"
        if value:
            resolve(phase, "cpu-demo", {key: parse_override(f"{phase}.{key}={value}")[2]})


@READMES
def test_a_key_with_a_value_and_no_phase_is_one_that_a_phase_takes(path: Path) -> None:
    found = [m for code in codes(path) if (m := re.fullmatch(r"([a-z_]+): (\w+)", code))]
    assert len(found) >= 2
    for key, value in (match.groups() for match in found):
        refused = ["no phase has it"]
        for phase in (name for name in PARAMETERS if key in PARAMETERS[name].model_fields):
            try:
                resolve(phase, "cpu-demo", {key: parse_override(f"{phase}.{key}={value}")[2]})
            except UsageError as error:
                refused.append(str(error))
            else:
                break
        else:
            pytest.fail(f"{key}: {value}: {refused[-1]}")


@READMES
def test_the_number_of_known_failures_is_the_catalogues(path: Path) -> None:
    (told,) = re.findall(r"catalogue\.yaml`\D+(\d+)", path.read_text(encoding="utf-8"))
    known = len(catalogue().entries)
    assert int(told) == known


@READMES
def test_every_notebook_named_exists(path: Path) -> None:
    found = {name for code in codes(path) for name in re.findall(r"\b0\d_[a-z_]+", code)}
    assert len(found) == len(PARAMETERS)
    assert all((ROOT / "notebooks" / f"{name}.ipynb").is_file() for name in found), found
