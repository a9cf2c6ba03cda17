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
# **Goal.** Two constructs in one header of the DTK stop the compiler. Have corrected copies of that
# header in a folder of our own that the compiler searches first, and leave the toolkit as the
# vendor shipped it.

# %% [markdown]
# ## Time, risk and rollback
#
# Seconds. The toolkit is only read; the copies go to `workdir/overlays/<digest>`. To undo it, remove
# that folder: since nothing else was changed, nothing else has to be put back.
#
# The published recipe edits the file below `/opt/dtk` instead. That works too, but for every other
# program on the machine as well, it needs root, and an update of the DTK takes it away unseen.

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

# %%
from keyelab.facts import EnvFacts, HeaderFacts
from keyelab.files import sha256_file, sha256_tree, shown
from keyelab.patching import headers
from keyelab.patching.apply import apply_plan, digest_checks
from keyelab.patching.recipe import header_rules
from keyelab.patching.verify import post_conditions
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
plan, reason = headers.plan_headers(step.params.headers_root, rules)
if plan is None:
    step.say(f"Nothing to correct: {reason}.")
else:
    original_sha256 = sha256_tree(plan.tree)
    step.say(f"Headers to correct, below `{shown(plan.tree)}`:")
    step.table({"header": f, "sha256": sha256_file(plan.tree / f)} for f in plan.after)
    for outcome in plan.outcomes:
        if outcome.diff:
            step.diff(outcome.diff, f"header-{outcome.rule.id}.diff")

# %% [markdown]
# ## Do
#
# The folder `hip` is copied whole, with the corrections in it: a quoted `#include` is looked up
# beside the file that names it, so a corrected header alone would never be found from its
# neighbours, nor they from it.

# %%
applied = None
if plan and not step.dry_run:
    applied = apply_plan(plan, step.workdir / "overlays", headers.FOLDER)
    include = applied.tree.parent
    step.say(f"Corrected headers, to be searched first: `{shown(include)}`.")

# %% [markdown]
# ## Verify
#
# The copy must have the digest that was computed from the plan, the original must have the one that
# it was read with, and the copies must hold what the rules promise. Where the specimen was read, the
# host's C++ compiler is the judge: its probe declares `__any`, defines ggml's macro, includes the
# header, and has to fail with the original and compile with the copy. g++ and clang for x86-64 know
# both constraint letters, so the first correction is shown by its text only.

# %%
if applied:
    step.add_checks(digest_checks(plan, applied, original_sha256))
    step.add_checks(post_conditions(applied.tree, rules))

# %%
if applied and headers.has_probe(plan.tree):
    compiler = step.facts("env_check", EnvFacts).cxx or "c++"
    step.add_checks([headers.probe_check(plan.tree.parent, include, compiler, step.log())])

# %% [markdown]
# ## Result and next step
#
# 05_build puts the folder below first for the HIP compiler; a CPU build needs no such folder. With
# the recipe `k100ai` the next phase also takes the only `#include` of cooperative groups out of
# ggml, so this overlay is the second of two locks: it also serves trees without that patch.

# %%
overlay = shown(include) if applied else ""
files = [f"{headers.FOLDER}/{file}" for file in plan.after] if applied else []
facts = HeaderFacts(overlay=overlay, files=files, reason=reason)
step.finish(None if step.dry_run else facts)
