"""The recorded K100_AI host of tests/fakes, copied so that a test can break it."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from keyelab.checks import Check
from keyelab.host import cardchecks, checks, inventory, select, toolkit
from keyelab.host.inventory import Cards, Seen
from keyelab.host.reading import Reading
from keyelab.params import EnvCheck

FAKES = Path(__file__).parent / "fakes"
SAMPLES = Path(__file__).parent / "data" / "host" / "samples"
BUSES = ("06", "09", "36", "37", "86", "89", "b6", "b7")
ADDRESSES = [f"0000:{bus}:00.0" for bus in BUSES]
PCI = "sys/bus/pci/devices"
PARAMS = EnvCheck(
    backend="hip", probe_arch="gfx928", expected_cards=8, weights_gib=53.1, projector_gib=1.5,
    context_tokens=262144, state_kib_per_token=114.0,
)  # fmt: skip


class RecordedHost:
    """A copy of the recorded host below `folder`: its files, its tools, its toolkit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "host"
        shutil.copytree(FAKES, self.folder, symlinks=True)
        self.root = self.folder / "root"
        self.toolkit = self.folder / "dtk"
        self.env = {"PATH": f"{self.toolkit}/bin:{self.folder}:{os.defpath}"}
        self.params = PARAMS

    def edit(self, name: str, old: str, new: str, count: int = -1) -> None:
        """Replace text in a file of the host; it must be there."""
        path = self.folder / name
        text = path.read_text()
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new, count))

    def says(self, tool: str, text: str) -> None:
        """Let a tool with its words, such as hy-smi--showpids, say something else."""
        (self.folder / "recorded" / "host" / f"{tool}.txt").write_text(text)

    def silence(self, *tools: str) -> None:
        """Take tools away."""
        for tool in tools:
            (self.folder / tool).unlink()

    def remove(self, name: str) -> None:
        """Remove a file or folder below the root."""
        path = self.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def put(self, name: str, text: str = "") -> None:
        """Write a file below the root."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def look(self) -> Seen:
        """Ask the tools."""
        log = self.folder / "logs" / "01_env_check.log"
        return inventory.look(self.params.backend, self.env, self.root, log, pause_s=0)

    def cards(self) -> Cards:
        """The cards as they are joined."""
        return inventory.join(self.look())

    def choice(self) -> list[int | None]:
        """The numbers of the cards chosen."""
        return [d.index for d in select.choose(self.devices(), self.env, self.params).cards]

    def devices(self) -> tuple[Reading, ...]:
        """The cards as facts."""
        return self.cards().devices

    def checks(self) -> dict[str, Check]:
        """Every check of a host with cards, by name, as notebook 01 makes them."""
        kit = toolkit.load(str(self.toolkit), "hip", self.env, self.folder / "env.log")
        env = {**self.env}
        for name, value in kit.difference.items():
            env[name] = re.sub(rf"\$\{{{name}\}}", self.env.get(name, ""), value)
        cards = self.cards()
        choice = select.choose(cards.devices, self.env, self.params)
        log = self.folder / "empty.log"
        found = [
            *cardchecks.card_checks(cards, self.env, self.params, kit.version),
            *checks.kernel_checks(cards),
            checks.proxy_check(self.env),
            checks.clock_check(time.time()),
            *toolkit.toolkit_checks(kit, self.params, cards, env, log),
            *select.choice_checks(choice),
        ]
        return {item.name: item for item in found}
