# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 03 · Header fixes
#
# **Goal.** Two constructs in one header of the DTK stop the compiler. Have the compiler read
# corrected ones, and leave the toolkit as the vendor shipped it unless you say otherwise.

# %% [markdown]
# ## Time, risk and rollback
#
# Seconds. The parameter `mode` says how:
#
# | mode | what is written | how to undo it |
# |---|---|---|
# | `overlay` | a corrected copy in `workdir/overlays/<digest>`, searched first | remove that folder |
# | `in_place` | the header below `headers_root` itself | `keyelab headers restore` with this run folder |
# | `none` | nothing | nothing to undo |
#
# The published recipe edits the file below `/opt/dtk`. That works too, but for every other program
# on the machine as well, it needs root, and an update of the DTK takes it away unseen. `in_place`
# does it for those who want it: only a header whose digest is listed in
# `patches/known_headers.yaml` or given in `accept_sha256`, with the original kept in this run folder.

# %% [markdown]
# ## Parameters

# %% tags=["parameters"]
run_dir: str = ""  # run folder; empty is the interactive scratch run
target: str = "cpu-demo"  # folder under params/ that this run is for
backend: str = "cpu"  # cpu, hip or cuda
workdir: str = "work"  # folder for sources, builds and models
tools_dir: str = ""  # folders to put first on PATH, colon between
dry_run: bool = False  # show what would be done and do nothing
verbose: bool = False  # show more of what the tools print
headers_root: str = ""  # toolkit whose headers are read; empty skips
mode: str = "overlay"  # overlay: a copy searched first; in_place: the file itself; none
accept_sha256: str = ""  # in_place: digest of an original to be edited

# %%
from keyelab.facts import EnvFacts, HeaderFacts
from keyelab.files import shown
from keyelab.patching import headers
from keyelab.patching.after import post_conditions
from keyelab.patching.recipe import header_rules
from keyelab.record import nb

step = nb.begin("header_fixes", globals())

# %% [markdown]
# ## Preflight
#
# The header is `hip/amd_detail/cooperative_groups/details/info.h`, and this is what is wrong in it:
#
# 1. `_CG_ASM_PTR_CONSTRAINT` names the inline-assembly constraint for a pointer: `"l"`, a letter of
#    NVIDIA's compiler. clang for gfx928 says *invalid input constraint 'l' in asm*. The message
#    points to sync.h, which uses the macro; the macro itself is in info.h. `"r"` is the general
#    letter for a register.
# 2. It defines a function `__any_sync`. ggml defines a macro of that name that expands to `__any`,
#    and the preprocessor makes a second `__any` of the function: *redefinition of '__any'*.
#
# On the target `cpu-demo` there is no DTK. What is read there is a **specimen**: a header of a few
# lines, written for this workbook, that holds these two constructs and nothing of a vendor's.

# %%
rules = header_rules()
reasons = [{"rule": rule.id, **rule.why.model_dump()} for rule in rules]
step.table(reasons, ["rule", "symptom", "cause", "article"])

# %%
plan, reason = headers.plan_headers(step.params.headers_root, rules, step.params.mode)
originals = headers.originals(plan) if plan else {}
if plan is None:
    step.say(f"Nothing to correct: {reason}.")
else:
    step.say(f"Headers to correct, below `{shown(plan.tree.parent)}`, mode `{step.params.mode}`:")
    step.table({"header": name, "sha256": sha256} for name, sha256 in originals.items())
    for outcome in plan.outcomes:
        if outcome.diff:
            step.diff(outcome.diff, f"header-{outcome.rule.id}.diff")

# %% [markdown]
# ## Do
#
# An overlay holds the folder `hip` whole, with the corrections in it: a quoted `#include` is looked
# up beside the file that names it, so a corrected header alone would never be found from its
# neighbours, nor they from it. In place, the original is copied into the run folder first; then the
# corrected file takes its name in one step.

# %%
done = None
if plan and not step.dry_run:
    done = headers.correct(plan, step.params, step.run_dir)
    step.say(f"The compiler gets the corrected headers from `{shown(done.include)}`.")
    if done.backup:
        step.say(f"The originals are in `{shown(done.backup)}`.")

# %% [markdown]
# ## Verify
#
# The corrected headers must have the digest that was computed from the plan, the originals (the
# toolkit beside an overlay, the backup of a header changed in place) the one that they were read
# with, and the rules must hold what they promise. Where the specimen was read, the host's C++
# compiler is the judge: its probe declares `__any`, defines ggml's macro, includes the header, and
# has to fail with the original and compile with the correction. g++ and clang for x86-64 know both
# constraint letters, so they show the second fault only. clang 19 with the target amdgcn rejects
# both in the specimen and takes the corrected one; the tests of this workbook show that where such
# a clang is installed.

# %%
if done:
    step.add_checks(done.checks)
    step.add_checks(post_conditions(done.include / headers.FOLDER, rules))

# %%
if done and headers.has_probe(plan):
    compiler = step.facts("env_check", EnvFacts).cxx or "c++"
    step.add_checks([headers.probe_check(plan, done, compiler, step.log())])

# %% [markdown]
# ## Result and next step
#
# 05_build puts an overlay first for the HIP compiler; a CPU build needs none. The recipes that edit
# the source also take the only `#include` of cooperative groups out of ggml, so this phase is the
# second of two locks: it serves trees without that rule, and the recipe `flags`, which edits nothing.

# %%
in_copy = done is not None and done.backup is None
overlay = shown(done.include) if in_copy else ""
backup = shown(done.backup) if done and done.backup else ""
if backup:
    step.code(f"keyelab headers restore {shown(step.run_dir)}", summary="To undo it")
files = list(originals) if done else []
facts = HeaderFacts(overlay=overlay, files=files, reason=reason, originals=originals, backup=backup)
step.finish(None if step.dry_run else facts)
