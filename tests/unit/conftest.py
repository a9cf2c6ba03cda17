"""A checkout whose eight notebooks do nothing but begin and finish."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from keyelab.params import PARAMETERS

BODY = """
from keyelab.facts import Facts
from keyelab.record import nb
step = nb.begin("{phase}", globals())
"""
FINISH = "step.finish(None if step.dry_run else Facts())"


class Checkout:
    """A temporary checkout; `write` replaces the middle cell of one phase's notebook."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for phase in PARAMETERS:
            self.write(phase, "step.say('done')")

    def write(self, phase: str, middle: str) -> None:
        """Make the notebook of a phase around one cell of its own."""
        model = PARAMETERS[phase]
        lines = [f"{name} = {field.default!r}" for name, field in model.model_fields.items()]
        sources = ["\n".join(lines), BODY.format(phase=phase), middle, FINISH]
        book = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(s, id=f"c{i}") for i, s in enumerate(sources)],
            metadata={
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
            },
        )
        book.cells[0].metadata["tags"] = ["parameters"]
        number = list(PARAMETERS).index(phase) + 1
        nbformat.write(book, self.root / "notebooks" / f"{number:02d}_{phase}.ipynb")

    def params(self, name: str, text: str, target: str = "cpu-demo") -> None:
        """Write params/<target>/<name>.yaml."""
        folder = self.root / "params" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """An empty checkout with the targets cpu-demo and k100ai, named by KEYELAB_HOME."""
    for folder in ("notebooks", "params/cpu-demo", "params/k100ai", "patches"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("KEYELAB_HOME", str(tmp_path))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    return Checkout(tmp_path)
