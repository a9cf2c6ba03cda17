# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 02 · Model fetch
#
# **Goal.** Have the two files that llama-server needs, and know that they are whole and belong
# together before hours go into building for them: the text model, and the projector (`mmproj`)
# that turns pictures into the numbers the model reads.

# %% [markdown]
# ## Time, risk and rollback
#
# The packaged demo model: seconds. The 57 GB of Keye-VL-2.0-30B-A3B: as long as the line takes
# (at 10 MB/s about 100 minutes), then minutes to read it once for the digests. Files are added to
# `model_dir` and never changed or removed.
#
# To undo it, remove the files from `model_dir`; the packaged and `path` sources are used where
# they are, so there is nothing to undo.

# %% [markdown]
# ## Parameters
#
# `source` is one of: `packaged` (a 4.6 MB demo pair inside keyelab), `path` (files that are
# already on this machine), `modelscope` or `huggingface` (a download with that hub's client).

# %% tags=["parameters"]
run_dir: str = ""  # run folder; empty is the interactive scratch run
target: str = "cpu-demo"  # folder under params/ that this run is for
backend: str = "cpu"  # cpu, hip or cuda
workdir: str = "work"  # folder for sources, builds and models
tools_dir: str = ""  # folders to put first on PATH, colon between
dry_run: bool = False  # show what would be done and do nothing
verbose: bool = False  # show more of what the tools print
source: str = "packaged"  # packaged, path, modelscope or huggingface
repo: str = ""  # owner/name on ModelScope or Hugging Face
revision: str = ""  # branch, tag or commit of the repository
model_dir: str = ""  # folder that holds, or gets, the files
model_file: str = "keyelab-tiny-f16.gguf"  # GGUF file of the text model
mmproj_file: str = "mmproj-keyelab-tiny-f16.gguf"  # GGUF of the projector
model_sha256: str = ""  # expected digest, hex; empty records it only
mmproj_sha256: str = ""  # expected digest, hex; empty records it only

# %%
from keyelab.models import digest, fetch, header, pairing
from keyelab.record import nb

step = nb.begin("model_fetch", globals())

# %% [markdown]
# ## Preflight
#
# What is there, what has to come, and whether the disk has room for it: too little stops here. A
# hub is asked for the sizes and digests of the files first. An unfinished download next to a file
# (`.incomplete`, `.part`) is refused: a file that is still growing can pass for a whole one.

# %%
todo = fetch.plan(step.params, step.workdir, step.environment())
step.table(fetch.rows(todo))

# %% [markdown]
# This is the download, as you would type it. For ModelScope the files are named with `--include`
# on purpose: its client checks size and SHA-256 of what it downloads only then, and not for files
# that are listed one by one.

# %%
step.code(fetch.command_line(todo))

# %% [markdown]
# ## Do
#
# A download that stops leaves only files under temporary names, so nothing half-written looks
# finished. Run the phase again to go on: ModelScope's client continues inside a file, Hugging
# Face's current one begins an unfinished file again.

# %%
if not step.dry_run:
    with step.progress("download") as bar:
        fetch.obtain(todo, step.environment(), step.log("client"), bar)

# %% [markdown]
# ## Verify
#
# **The headers.** A GGUF file begins with its key-values and a table that gives each tensor's
# place and size. Reading that table is enough to tell a git-lfs pointer, a web page or a cut file
# from a model, without reading a single weight.

# %%
if not step.dry_run:
    model = header.read(todo.model, "model")
    mmproj = header.read(todo.mmproj, "mmproj")
    pairing.require_pair(model, mmproj)
    step.table(pairing.rows(model, mmproj))

# %% [markdown]
# **The pair.** The projector writes a row of numbers per picture token, and the model reads rows
# of its own embedding width. When the two differ, llama-server stops after loading the whole
# model; here it is one comparison. An architecture or projector type that the `gguf` package does
# not list is a warning: the file is sound, but a stock llama.cpp will not know it and the model's
# own branch is needed.

# %%
if not step.dry_run:
    step.add_checks(pairing.checks(model, mmproj))

# %% [markdown]
# **The digests.** They are compared with `model_sha256` and `mmproj_sha256` where given, else with
# `SHA256SUMS` beside the files, which a download fills with what the hub lists. Without either
# they are recorded, so that a later run can tell whether it used the same weights.

# %%
if not step.dry_run:
    known = digest.expected(step.params, todo.folder)
    with step.progress("sha256") as bar:
        files = digest.read(todo.model, todo.mmproj, bar)
    step.table([file.model_dump() for file in files.values()])
    step.add_checks(digest.checks(files, known))

# %% [markdown]
# ## Result and next step
#
# The facts name both files, their digests and the geometry that 06_serve is checked against.

# %%
step.finish(None if step.dry_run else pairing.facts(model, mmproj, files, todo.origin))
