# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 05 · Build
#
# **Goal.** Compile the patched tree into `llama-server`, `llama-bench` and `llama-quantize` (for a
# GPU also `test-backend-ops`), and prove that the result is a build of this tree, for this card.

# %% [markdown]
# ## Time, risk and rollback
#
# About 5 minutes on two cores for the CPU build (seen: 5 min 19 s); a HIP build has several times
# the work. The second run of the same inputs takes seconds: nothing is compiled again. On a GPU the
# tests of the kernels and the answers are run each time, and take minutes.
#
# Files are written below `workdir/builds/` only, nothing is installed. The risk is memory: each
# compile job wants about 1 GiB, GPU templates more. To undo it, remove the build folder.

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
build_type: str = "Release"  # CMAKE_BUILD_TYPE
gpu_targets: str = ""  # hip: GPU_TARGETS; cuda: CMAKE_CUDA_ARCHITECTURES
cmake_options: dict = {}  # further cache entries, name to value
jobs: int = 0  # parallel compile jobs; 0 is one a core
reuse: bool = True  # take a finished build of the same inputs

# %%
from keyelab.build import fallback, gate, greedy, plan, result, run, toolchain
from keyelab.facts import EnvFacts, HeaderFacts, ModelFacts, SourceFacts
from keyelab.record import nb

step = nb.begin("build", globals())

# %% [markdown]
# ## Preflight
#
# The plan comes from the facts of four phases: the tools of 01, the model of 02, the header overlay
# of 03 and the tree of 04. The compilers are asked for their versions, because another compiler
# makes another build. A recipe that is for some types of weights only stops a GPU build for a model
# of another type. A dry run reads the tools only and plans for a tree that is not there yet.

# %%
host = step.facts("env_check", EnvFacts)
dry = step.dry_run
headers = HeaderFacts() if dry else step.facts("header_fixes", HeaderFacts)
source = plan.NO_SOURCE if dry else step.facts("source_patch", SourceFacts)
env = step.environment(host.environment)
if not dry:
    model = step.facts("model_fetch", ModelFacts)
    source.require_weights(model, step.params.backend)
tools = toolchain.NOT_ASKED if dry else toolchain.look(step.params.backend, host, env)
the_plan = plan.make(source, host, headers, step.params, tools)
step.code(tools.compiler, "text", summary="compilers")

# %% [markdown]
# What CMake is told, as one command that can be pasted at the root of the checkout. Web UI, TLS,
# examples and the unified binary are off: they fetch files or need libraries that the server does
# not. The build number and the commit are set from the tree itself, so that the running server can
# later be recognised as ours: the commit is the beginning of the tree's digest. What the recipe
# asks of CMake is among the options of a HIP build; `cmake_options` wins over it, and compiler
# flags of the overlay, the recipe and `cmake_options` add up.

# %%
step.code(the_plan.command)
options = the_plan.inputs["options"]
step.table({"option": name, "value": value} for name, value in options.items())

# %% [markdown]
# ## Do
#
# The build folder is named by a digest of everything that matters: tree, options, overlay,
# compilers, processor, programs. A finished build with intact files is taken as it is. A lock keeps
# a second writer out, also a compiler left over from a kernel that was killed; an interrupted build
# goes on where it stopped.
#
# When it fails, the first cause is shown with its surroundings, not the last line: a compiler that
# the system killed for lack of memory prints many lines after the one that counts.

# %%
reused = False
if not step.dry_run:
    plan.check_tree(the_plan)
    with step.progress("compile") as bar:
        reused = run.build(the_plan, env, step.log(), bar, step.params.reuse)
    step.say(f"Build `{the_plan.key[:16]}`: {'taken as it was' if reused else 'compiled'}.")

# %% [markdown]
# ## Verify
#
# An exit status of 0 says little: CMake ignores an option with an old name and builds for the CPU.
# So the binary is run, must report our tree, must find every library it links, and for a GPU must
# hold the backend and code objects for exactly the cards that were asked for.

# %%
if not step.dry_run:
    seen = result.look(the_plan, env)
    step.add_checks(result.checks(the_plan, seen))
    step.table(
        {"file": name, "MiB": fact.size_bytes / 2**20, "sha256": fact.sha256[:12]}
        for name, fact in seen.binaries.items()
    )

# %% [markdown]
# On a GPU, ggml's own `test-backend-ops` then compares the kernels with the CPU's results: what the
# recipe touches, what the model needs, and matrix products of the weights that the recipe is for. A
# launch above a kernel's bounds gives wrong numbers without an error, and this is where it shows.
# The error of a failing case is mostly the mean squared difference over the mean square; 1 means
# that the result has nothing to do with the right one. The rule to suspect is the one that asks for
# this operation to be tested. A CPU build has no such kernels and no such checks.

# %%
if not step.dry_run:
    with step.progress("kernel gate") as bar:
        operations, verdicts = gate.run(the_plan, seen, env, step.log("gate"), bar)
    step.add_checks(verdicts)
    step.table(operations)

# %% [markdown]
# What the card does not take is computed by the CPU, correctly and slowly, without a word. Sparse
# attention picks the tokens it looks at with TOP_K over the whole context.

# %%
if not step.dry_run:
    with step.progress("fallback") as bar:
        lost, verdicts = fallback.run(the_plan, seen, model, env, step.log("gate"), bar)
    step.add_checks(verdicts)
    step.table(lost)

# %% [markdown]
# Single operations on test data are not the model. So the built server continues a row of numbers
# that repeats, without sampling, once on the card and once with `--device none` on the CPU. The
# lengths are those at which the article's edits leave most of a softmax row uncomputed, and which
# none of its own prompts met. With 57 GB of weights this loads the model twice and takes minutes.

# %%
if not step.dry_run:
    with step.progress("greedy answers") as bar:
        answers, verdicts = greedy.run(the_plan, seen, model, env, step.log("greedy"), bar)
    step.add_checks(verdicts)
    step.table(answers)

# %% [markdown]
# ## Result and next step
#
# Only a build that failed no check is kept for reuse. The facts name every program and library with
# its digest; 06_serve starts the server from them.

# %%
if not step.dry_run:
    facts = result.facts(the_plan, seen, reused)
    result.keep(the_plan, facts, step.checks)
    step.finish(facts)
else:
    step.finish()
