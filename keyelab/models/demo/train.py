"""Training the demo model: `python -m keyelab.models.demo.train --out work/demo_model`.

On a GPU in minutes; on a CPU in an hour, with fewer clips. A run that was interrupted goes on
where its last checkpoint was, with the data it would have had. On a CPU the same seed, settings and
number of threads give the same weights; on a GPU sums are rounded in another order every time.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from keyelab.errors import KeyelabError, UsageError
from keyelab.models.demo import checkpoint

_PEAK, _WARM, _END = 1.5e-3, 0.03, 0.01


@dataclass(frozen=True)
class Settings:
    """What defines a run.

    `tokens`: language tokens in one pass; `parts`: passes in a step; `native_share`: of the clips,
    in 96 × 96 px; the others come in the sizes that llama.cpp makes of larger pictures.
    """

    seed: int = 1
    steps: int = 6700
    tokens: int = 10240
    parts: int = 3
    most_frames: int = 16
    longest: int = 8192
    native_share: float = 0.55
    peak: float = _PEAK


def on_cpu(steps: int = 4000) -> Settings:
    """A run for two CPU cores: short clips of 96 × 96 px, and no long text."""
    return Settings(steps=steps, tokens=2500, parts=2, most_frames=8, longest=512, native_share=1.0)


def train(
    out: Path,
    settings: Settings,
    *,
    device: str = "auto",
    minutes: float = 0,
    start: Path | None = None,
    threads: int = 0,
    on_progress: Callable[[float | None, str], None] = lambda share, text: None,
) -> Path:
    """Train into the folder `out` and return its file of weights.

    `minutes`: an end by the clock (0: none); the learning rate falls to its end by then. `start`:
    weights to begin from. `threads`: of the CPU (0: torch's choice).

    Raises KeyelabError without torch, without the GPU that is asked for, and for a folder that
    holds a run with other settings.
    """
    place = device_of(device)
    import torch

    from keyelab.models.demo import tokenizer
    from keyelab.models.demo.data import Steps
    from keyelab.models.demo.model import Model, Shape

    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(settings.seed)
    out.mkdir(parents=True, exist_ok=True)
    found = checkpoint.earlier(out, asdict(settings))
    origin = found or (checkpoint.load(start) if start else {})
    words = tokenizer.Tokenizer(origin["tokenizer"]) if origin else tokenizer.build()
    model = Model(Shape.of(origin["shape"]) if origin else None)
    if origin:
        model.load_state_dict(origin["model"])
    model = model.to(place)
    optimizer = _optimizer(model, settings.peak, place)
    if found:
        optimizer.load_state_dict(found["optimizer"])
    steps = Steps(
        words,
        settings.seed,
        settings.tokens,
        settings.parts,
        settings.most_frames,
        settings.longest,
        settings.native_share,
    )
    run = _Run(out, settings, model, optimizer, words.text, place, minutes, on_progress)
    if found:
        run.step, run.before_s, run.dialogues = (
            found[name] for name in ("step", "seconds", "dialogues")
        )
    run.go(steps)
    return out / "weights.pt"


def device_of(name: str) -> str:
    """cpu or cuda, for auto, cpu or cuda; raises KeyelabError where it cannot be had."""
    checkpoint.require_extra()
    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 4):
        raise KeyelabError(
            f"expected torch 2.4 or later for training, found {torch.__version__}",
            "pip install 'keyelab[train]'",
        )
    has_gpu = torch.cuda.is_available()
    if name == "auto":
        return "cuda" if has_gpu else "cpu"
    if name not in ("cpu", "cuda"):
        raise UsageError(f"device: expected auto, cpu or cuda, found {name!r}", "--device auto")
    if name == "cuda" and not has_gpu:
        raise KeyelabError(
            f"expected a GPU for device cuda, found none that torch {torch.__version__} can use",
            "train on the CPU: --device cpu; or install the torch that fits the driver",
        )
    return name


def _optimizer(model: Any, peak: float, device: str) -> Any:
    import torch

    large = [one for one in model.parameters() if one.dim() > 1]
    small = [one for one in model.parameters() if one.dim() <= 1]
    return torch.optim.AdamW(
        [{"params": large, "weight_decay": 0.02}, {"params": small, "weight_decay": 0.0}],
        lr=peak,
        betas=(0.9, 0.98),
        fused=device == "cuda",
    )


@dataclass
class _Run:
    out: Path
    settings: Settings
    model: Any
    optimizer: Any
    tokenizer_text: str
    device: str
    minutes: float
    on_progress: Callable[[float | None, str], None]
    step: int = 0
    before_s: float = 0.0  # of earlier runs into this folder
    dialogues: int = 0

    def go(self, steps: Any) -> None:
        """Steps until the last one, or until the time is over."""
        from torch.utils.data import DataLoader

        from keyelab.models.demo import learn

        workers = max(2, min(14, (os.cpu_count() or 4) - 2)) if self.device == "cuda" else 0
        numbers = range(self.step, self.settings.steps)
        loader: Any = DataLoader(
            steps,
            batch_size=None,
            sampler=numbers,
            num_workers=workers,
            collate_fn=_as_it_is,
            prefetch_factor=4 if workers else None,
        )
        self.begun = self.saved = time.monotonic()
        tally = learn.Tally()
        sums: dict[str, Any] = {}
        for parts in loader:
            share = self.share()
            if share >= 1:
                break
            watched = self.step % 10 == 0
            for name, value in self.learn(parts, share, tally if watched else None).items():
                sums[name] = sums.get(name, 0) + value
            self.step += 1
            if self.step % 50 == 0:
                self.note(sums, tally)
                tally, sums = learn.Tally(), {}
            if time.monotonic() - self.saved > 60:
                self.save()
        self.save()

    def share(self) -> float:
        """How much of the run is over, by steps or by the clock, whichever is further."""
        by_clock = self.seconds() / (60 * self.minutes) if self.minutes else 0.0
        return max(self.step / self.settings.steps, by_clock)

    def seconds(self) -> float:
        return self.before_s + time.monotonic() - self.begun

    def learn(self, parts: Any, share: float, tally: Any) -> dict[str, Any]:
        """One step; returns the terms of the loss, still on the device."""
        import torch

        from keyelab.models.demo import learn

        warm = min(1.0, (self.step + 1) / max(1, min(300, _WARM * self.settings.steps)))
        rate = _END + (1 - _END) * (1 + math.cos(math.pi * share)) / 2
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.peak * warm * rate
        seen = 1.0 if share < 0.15 else 0.15
        sums: dict[str, Any] = {}
        for part in parts:
            with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
                total, terms = learn.loss(self.model, part, self.device, seen, tally)
            (total / len(parts)).backward()
            self.dialogues += len(part.dialogues.tokens)
            for name, value in terms.items():
                sums[name] = sums.get(name, 0) + value.detach()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {name: value / len(parts) for name, value in sums.items()}

    def note(self, sums: dict[str, Any], tally: Any) -> None:
        row = {
            "step": self.step,
            "seconds": round(self.seconds(), 1),
            "share": round(self.share(), 4),
            "dialogues": self.dialogues,
            **{name: round(float(value) / 50, 5) for name, value in sums.items()},
            "right": tally.shares(),
        }
        checkpoint.note(self.out, row)
        known = [value for name, value in row["right"].items() if name.startswith("caption")]
        right = f"{sum(known) / len(known):.0%} of captions right" if known else ""
        told = f"step {self.step}, {row['seconds']} s, loss {row['answers']:.4f}, {right}"
        self.on_progress(self.share(), told)

    def save(self) -> None:
        """Write weights and checkpoint; raises KeyelabError when they are no numbers any more."""
        weights = {name: value.cpu() for name, value in self.model.state_dict().items()}
        if not all(bool(value.isfinite().all()) for value in weights.values()):
            raise KeyelabError(
                f"expected finite weights, found none at step {self.step}: training went astray",
                f"train with a lower rate into another folder: --peak {self.settings.peak / 2}",
            )
        common = {
            "model": weights,
            "shape": self.model.shape.record(),
            "tokenizer": self.tokenizer_text,
            "settings": asdict(self.settings),
            "step": self.step,
            "seconds": self.seconds(),
            "dialogues": self.dialogues,
        }
        checkpoint.save(self.out / "weights.pt", common)
        whole = {**common, "optimizer": self.optimizer.state_dict()}
        checkpoint.save(self.out / "checkpoint.pt", whole)
        self.saved = time.monotonic()


def _as_it_is(item: Any) -> Any:
    return item


def main(argv: list[str] | None = None) -> int:
    """The command line; see --help."""
    wanted = argparse.ArgumentParser(prog="keyelab.models.demo.train", description=__doc__)
    wanted.add_argument("--out", type=Path, required=True, help="folder of this run")
    wanted.add_argument("--device", default="auto", help="auto, cpu or cuda")
    wanted.add_argument("--minutes", type=float, default=0, help="end by the clock, 0: by steps")
    wanted.add_argument("--start", type=Path, help="weights.pt to begin from")
    wanted.add_argument("--threads", type=int, default=0, help="CPU threads, 0: torch's choice")
    wanted.add_argument("--cpu-size", action="store_true", help="the smaller run for a CPU")
    for name in ("seed", "steps", "tokens", "parts", "most-frames", "longest"):
        wanted.add_argument(f"--{name}", type=int)
    wanted.add_argument("--peak", type=float)
    given = vars(wanted.parse_args(argv))
    out, cpu_size = given.pop("out"), given.pop("cpu_size")
    how = {name: given.pop(name) for name in ("device", "minutes", "start", "threads")}
    base = asdict(on_cpu() if cpu_size else Settings())
    settings = Settings(**{**base, **{key: one for key, one in given.items() if one is not None}})
    try:
        train(out, settings, **how, on_progress=lambda share, text: print(text, flush=True))
    except KeyelabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
