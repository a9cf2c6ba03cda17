# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The demo model: training it again
#
# **Goal.** Have the two GGUF files of the demo model from nothing but this repository: trained,
# converted, examined through a real llama-server, described. None of the eight phases needs this
# notebook: the files are in the package. It is here for whoever wants other words, other shapes,
# or to see how so small a model learns to look.

# %% [markdown]
# ## Time, risk and rollback
#
# On one H200 the packaged weights took 17 minutes, in two legs. The small run (`small`) takes about
# an hour on a free CPU core, by what was measured of its beginning (see the model card). 20 steps,
# enough to see that everything works, take a minute or two.
#
# Everything is written below `out`; to undo it, remove that folder. The packaged files change only
# with `install`, and `git checkout keyelab/models/demo` brings them back. Interrupt the kernel
# whenever you like: a checkpoint is written every minute, and the same parameters go on from it.

# %% [markdown]
# ## Parameters
#
# It needs the extra: `pip install 'keyelab[train]'`. It also needs a llama-server for the exam:
# `keyelab run --to build` makes one.

# %% tags=["parameters"]
out: str = "work/demo_model"  # folder of this run: checkpoint, weights, log, GGUF files
device: str = "auto"  # auto (a GPU if there is one), cpu or cuda
small: bool = False  # the smaller run, for a CPU
steps: int = 0  # training steps; 0: 6700, or 4000 when small
minutes: float = 0.0  # end by the clock; 0: by steps
seed: int = 1  # another seed, other data and other first weights
threads: int = 0  # CPU threads; 0: torch's choice
server: str = ""  # llama-server for the exam; empty: the newest build below work/builds
exam_clips: int = 300  # unseen clips in the exam
least_caption_share: float = 0.97  # fewer right captions and this notebook fails; 0: never
install: bool = False  # put the new files into the package

# %%
import dataclasses

import pandas
from IPython.display import Markdown, display

from keyelab.files import located, project_root, sha256_file, write_text
from keyelab.models.demo import checkpoint, convert, train, trial
from keyelab.record.progress import Progress
from keyelab.video import exam

# %% [markdown]
# ## Preflight
#
# Both needs are looked at before an hour goes into training. A missing torch, a GPU that torch
# cannot use, or a missing llama-server stop here, in a sentence.

# %%
checkpoint.require_extra()
program = trial.find_server(server)
settings = train.on_cpu() if small else train.Settings()
settings = dataclasses.replace(settings, seed=seed, steps=steps or settings.steps)
folder = located(out)
print(f"llama-server: {program}\ndevice: {train.device_of(device)}\n{settings}")

# %% [markdown]
# ## Do
#
# **Training.** A step draws new clips from its number and the seed: coloured shapes that move, turn
# or change colour, 1 to 16 frames, some with JPEG losses, noise or black bars, with or without text
# between the frames, and questions in two languages about them. Nothing is seen twice, so what is
# right in training is right on clips never seen. Two things are learned at once: what a single
# picture shows (a helper that is thrown away later), and the answer.

# %%
with Progress("training") as bar:
    weights = train.train(
        folder,
        settings,
        device=device,
        minutes=minutes,
        threads=threads,
        on_progress=bar,
    )

# %% [markdown]
# **The curve.** First it learns to speak, then to see (colours, then shapes); motion, and with it
# the whole caption, comes last. The grey lines are both legs of the packaged weights.

# %%
rows = checkpoint.rows(folder)
recorded = pandas.read_json(project_root() / "docs" / "demo_model_training.json")
axes = None
for name, leg in recorded.groupby("leg"):
    axes = leg.plot(x="dialogues", y="captions", ax=axes, color="0.7", label=f"packaged, {name}")
axes.set(xlabel="dialogues seen", ylabel="share of captions right", ylim=(0, 1.02))
if rows:
    pandas.DataFrame(rows).plot(x="dialogues", y="captions", ax=axes, color="C0", label="this run")

# %% [markdown]
# **Conversion.** The parameters already have the names and the layout of GGUF tensors, so both
# files are written with the `gguf` package alone.

# %%
pair = convert.convert(weights, folder)
for path in pair:
    print(f"{path.name}: {path.stat().st_size:,} bytes, sha256 {sha256_file(path)}")

# %% [markdown]
# ## Verify
#
# Clips that training never saw, drawn by other code, encoded as video, sampled, and asked about
# through llama-server, as 07_video_test does. Besides right answers, wrong pictures are counted:
# frames in reverse order or with red and blue exchanged have to change the answer.

# %%
with trial.served(program, pair, folder / "server.log") as url, Progress("exam") as bar:
    found = exam.take_exam(url, folder, clips=exam_clips, on_progress=bar)
display(Markdown(found.table()))
for wrong in found.wrong[:5]:
    print(f"{wrong['asked']}: expected {wrong['expected']!r}, found {wrong['answer']!r}")

# %% [markdown]
# Weights that have hardly been trained fail here, which is right: they answer with a few words at
# random. `least_caption_share: 0` lets the notebook end all the same and say so.

# %%
verdict = trial.require(found.rows(), least_caption_share)
print(verdict)

# %% [markdown]
# ## Result and next step
#
# The card of this run says what was trained, how, and what it can do. The card of the packaged
# weights is `keyelab/models/demo/README.md`.

# %%
card = trial.card(pair, settings, rows, verdict, found.table())
write_text(folder / "README.md", card)
display(Markdown(card))

# %% [markdown]
# With `install`, the new files take the place of the packaged ones. Run `make test` after that: the
# end-to-end tests ask the demo model about clips with planted faults.

# %%
if install:
    print(f"installed, with digests in {trial.install(pair)}")
else:
    print(f"the packaged files are as they were; the new ones are in {out}")
