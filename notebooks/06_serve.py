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
cache_type_k: str = "f16"  # type of the K cache, such as f16 or q8_0
cache_type_v: str = "f16"  # type of the V cache; quantized needs attention
ubatch_tokens: int = 0  # tokens computed at once; 0 is the default
image_max_tokens: int = 0  # most tokens of a picture; 0 is the model's
devices: str = ""  # llama.cpp devices, such as ROCm0,ROCm1; empty is all
split_mode: str = ""  # how weights are spread: none, layer, row or tensor; empty is the default
load_mode: str = ""  # weights: mmap maps the file, read reads it; empty is the default
fit: bool = False  # let llama-server shrink what does not fit, unasked
replicas: int = 1  # servers on card sets of their own
api_key_file: str = ""  # file with the API key; empty reads LLAMA_API_KEY
max_starts_per_hour: int = 20  # starts of a server an hour; 0 any
extra_args: list = []  # further llama-server arguments
ready_timeout_s: float = 120.0  # longest wait without a sign of progress, seconds
keep_server: bool = False  # leave the server running after a whole run

# %%
from keyelab.facts import BuildFacts, EnvFacts, ModelFacts, SourceFacts
from keyelab.record import nb
from keyelab.serving import attest, command, exposure, lifecycle, observed, quiz, status

step = nb.begin("serve", globals())

# %% [markdown]
# ## Preflight
#
# The command is built from the parameters and from the files of phases 02 and 05, and shown before
# anything is started. Its flags are those that this very binary lists in its `--help`: they come
# and go between versions (`--no-mmap` became `--load-mode none`), and one that it does not have
# would end the server at once. The same holds for `extra_args`.
#
# Settings that cannot work together stop here, with the reason: a quantized V cache or a tensor
# split without flash attention, quantized weights with a recipe that leaves their kernels wrong, a
# missing projector, slots without context, cards that the replicas cannot share evenly.
#
# Flash attention follows the recipe: where that does not make its kernels right for the card,
# `auto` becomes off and `on` stops here, instead of a server that aborts at the first question.

# %%
plans = []
if not step.dry_run:
    machine = step.facts("env_check", EnvFacts)
    build = step.facts("build", BuildFacts)
    model = step.facts("model_fetch", ModelFacts)
    source = step.facts("source_patch", SourceFacts)
    env = step.environment(machine.environment)
    plans = command.plans(step.params, env, machine, model, source, build)
    if plans[0].params.flash_attention != step.params.flash_attention:
        step.say(f"Flash attention is off: the recipe `{source.recipe}` asks for it.")
lines = [plan.command(plan.params.port) for plan in plans] or command.sketch(step.params)
step.code("\n".join(lines))

# %% [markdown]
# With `replicas` above 1 there is a line for each server: its own port, and its own cards by the
# variable that hides the others (on a CPU its own share of the threads). Where each word comes
# from:

# %%
step.table(command.rows(plans, step.params), ["parameter", "words", "why"])

# %% [markdown]
# A key for the API is never among these words, where records and process lists would show it: name
# a file with `api_key_file` (one key a line, `chmod 600`), or export `LLAMA_API_KEY`.
#
# Servers that this work folder knows of, from this run or an earlier one:

# %%
columns = ["port", "pid", "state", "why", "cards", "started", "run"]
step.table(status.rows(step.workdir), columns)

# %% [markdown]
# ## Do
#
# Each server is started in a session of its own, with its output in a log file, so that closing
# this notebook or killing its kernel does not end it. Its state is written down at once, for
# `keyelab status` and `keyelab stop`. A server that already runs from the same words and files is
# adopted; another one on the wanted port or cards is an error.
#
# Ready means that `/health` and `/props` both answer: `/health` alone is a moment early, and
# `/v1/models` answers while the model is still loading. The process is watched while waiting: one
# that dies is reported at once, with its log's cause. A slow one is told from a stuck one by its
# log, its memory and what it has read: `ready_timeout_s` counts from when one of them last grew.

# %%
servers = []
if plans:
    most = step.params.max_starts_per_hour
    place = lifecycle.Place(step.workdir, step.run_dir, step.log("server"), most)
    with step.progress("load") as bar:
        servers = lifecycle.ensure(plans, place, step.params.ready_timeout_s, bar)
    step.table(lifecycle.rows(servers, step.run_dir))

# %% [markdown]
# ## Verify
#
# ### Declared and observed
#
# A healthy answer proves only that something answers. What was asked for stands here beside what
# the server, its log and its process show:
#
# * **who answers**: the process that was started, alone on its port, also to a client that follows
#   `http_proxy`; this build's libraries and this model in its memory; projector, name, slots and
#   context as planned.
# * **where it computes**: a server whose cards were not found runs on the CPU, is healthy and
#   answers right, only slowly; b10019 may even log "offloaded 4/4 layers". So the buffers are
#   counted, in MiB by device, and the parts that the graph is cut into: each one too many is an
#   operation that goes to the CPU and back for every token.
# * **what it said**: kernels that were started with more threads than they are compiled for leave
#   a `Launch params` line and wrong numbers; memory that ran out in the warm-up leaves an error.
#
# What cannot be read is unknown, and no pass. Of several servers, what is alike is one row.

# %%
seen = [observed.look(*each) for each in zip(servers, [plan.env for plan in plans], strict=True)]
each = zip(plans, servers, seen, strict=True)
proof = attest.together(servers, [attest.checks(*one) for one in each])
step.table(attest.rows(proof))
step.add_checks(proof)

# %% [markdown]
# ### Questions with known answers
#
# A wrong kernel or a wrong projector shows in no endpoint. The server is asked for the colour of
# two drawn discs, a red one and a blue one, so that an answer that is always the same fails; and
# for 37 × 89 − 156, which is 3,137. An answer signed by another build (a proxy, a replay) is no
# proof either way, and unknown.

# %%
if servers:
    calculates = model.source != "packaged"
    asked = [quiz.ask(*each, calculates=calculates) for each in zip(plans, servers, strict=True)]
    step.table(quiz.rows([one for group in asked for one in group]))
    right = [quiz.checks(group, plans[0].build_info) for group in asked]
    step.add_checks(attest.together(servers, right))
    if not calculates:
        step.say("The sum was not asked: the packaged demo model knows shapes, not numbers.")

# %% [markdown]
# ### Who can reach it
#
# llama-server has one lock, the API key, and no encryption.

# %%
if servers:
    step.say(exposure.said(plans[0], servers, seen[0]))

# %% [markdown]
# What the log has to say, errors first:

# %%
for server, looked in zip(servers, seen, strict=True):
    step.say(f"Port {server.port}: {looked.report}")

# %% [markdown]
# ## Result and next step
#
# Talk to it, and stop it, with:

# %%
for plan, server in zip(plans, servers, strict=True):
    step.code(command.example(plan, server.port))

# %%
step.finish(attest.facts(plans, servers, seen) if servers else None)
