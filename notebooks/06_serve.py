# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 06 · Serve
#
# **Goal.** A llama-server that answers for the model and its projector, outlives this notebook, and
# is proven to be the one that was started here.

# %% [markdown]
# ## Time, risk and rollback
#
# Under a second for the demo model; the article's load of 57 GB took 129 s. The server takes memory
# and a TCP port until it is stopped.
#
# It listens on this machine only unless `host` says otherwise. To undo it: `keyelab stop`, which
# waits until process and port are gone. A run of the whole pipeline stops it at its end, unless
# `keep_server` is set.

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
host: str = "127.0.0.1"  # address to listen on
port: int = 0  # TCP port; 0 takes a free one
alias: str = "keyelab-tiny"  # model name that the server reports
context_tokens: int = 4096  # context size, tokens; 0 is the model's own
parallel: int = 1  # request slots
threads: int = 0  # CPU threads; 0 is llama-server's choice
flash_attention: str = "auto"  # auto, on or off
cache_ram_mib: int = 0  # host prompt cache, MiB; 0 turns it off
extra_args: list = []  # further llama-server arguments
ready_timeout_s: float = 120.0  # longest wait without a sign of progress, seconds
keep_server: bool = False  # leave the server running after a whole run

# %%
from keyelab.facts import BuildFacts, EnvFacts, ModelFacts, SourceFacts
from keyelab.record import nb
from keyelab.serving import attest, command, lifecycle, state

step = nb.begin("serve", globals())

# %% [markdown]
# ## Preflight
#
# The command is built from the parameters and from the files of phases 02 and 05. An argument in
# `extra_args` that a parameter sets is refused; one that this llama-server does not take ends it
# at once, and the error names it. Variables named `LLAMA_ARG_…` are taken out of the server's
# environment: they set flags that no record shows.
#
# Flash attention follows the recipe: where that does not make its kernels right for the card,
# `auto` becomes off and `on` stops here, instead of a server that aborts at the first question.

# %%
plan = None
if not step.dry_run:
    env = step.environment(step.facts("env_check", EnvFacts).environment)
    build = step.facts("build", BuildFacts)
    model = step.facts("model_fetch", ModelFacts)
    source = step.facts("source_patch", SourceFacts)
    settled = command.for_recipe(step.params, build.backend, source)
    plan = command.make(settled, build, model, env)
    if settled != step.params:
        step.say(f"Flash attention is off: the recipe `{source.recipe}` asks for it.")
step.code(plan.command(step.params.port) if plan else command.sketch(step.params))

# %% [markdown]
# `--log-verbosity 4` is there for phase 08: without it the lines on image encoding and devices stay
# out of the log. `--cache-ram 0` turns off the prompt cache in host memory, which grows with every
# distinct prompt and whose saving and restoring costs time between requests.
#
# Servers that this work folder knows of, from this run or an earlier one:

# %%
known = state.all_states(step.workdir)
columns = ["port", "pid", "running", "started", "run_dir"]
step.table([vars(one) | {"running": state.is_running(one)} for one in known], columns)

# %% [markdown]
# ## Do
#
# The server is started in a session of its own, with its output in a log file, so that closing this
# notebook or killing its kernel does not end it. Its state is written down at once, for
# `keyelab status` and `keyelab stop`. A server that already runs from the same words and files is
# adopted; a different one on the wanted port is an error.
#
# Ready means that `/health` and `/props` both answer: `/health` alone is a moment early, and
# `/v1/models` answers while the model is still loading. The process is watched while waiting: one
# that dies is reported at once, with its log's cause. A slow one is told from a stuck one by its
# log, its memory and what it has read: `ready_timeout_s` counts from when one of them last grew.

# %%
server = None
if plan:
    place = lifecycle.Place(step.workdir, step.run_dir, step.log("server"))
    with step.progress("load") as bar:
        server = lifecycle.ensure(plan, env, place, step.params.ready_timeout_s, bar)
    step.say(
        f"Pid {server.pid} on port {server.port}, started {server.started} by `{server.run_dir}`, "
        f"ready after {server.ready_s:.1f} s."
    )

# %% [markdown]
# ## Verify
#
# A healthy answer proves only that something answers. The process that listens must be the one
# that was started, its build, model file, name, slots and context as planned, pictures accepted,
# and its log free of errors. A server that ran out of memory during warm-up still says that it is
# healthy, and so does one whose kernels were started with more threads than they are compiled for.

# %%
if server:
    seen = attest.look(server)
    step.add_checks(attest.checks(plan, server, seen))
    step.say(str(seen.report))

# %% [markdown]
# ## Result and next step
#
# The server runs. Talk to it, and stop it, with:

# %%
if server:
    step.code(command.example(plan, server.port))

# %%
step.finish(attest.facts(plan, server, seen) if server else None)
