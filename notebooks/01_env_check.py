# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 01 · Environment check
#
# **Goal.** Know in a minute whether this machine can carry the other seven phases, and what to do
# about each thing that it cannot.

# %% [markdown]
# ## Time, risk and rollback
#
# Seconds. Nothing on the machine is changed: every check reads, and every remedy is a command
# that is printed and never run. Nothing to roll back.

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
toolkit_root: str = ""  # DTK, ROCm or CUDA root; empty when none is used
min_memory_gib: float = 2.0  # least available memory, GiB
min_disk_gib: float = 3.0  # least free disk in workdir, GiB
port: int = 0  # TCP port that 06_serve will use; 0 takes a free one

# %%
from keyelab.host import machine, tools
from keyelab.host.checks import machine_checks, tool_checks
from keyelab.record import nb

step = nb.begin("env_check", globals())

# %% [markdown]
# ## Preflight
#
# None: this phase is the preflight of the others.

# %% [markdown]
# ## Do
#
# Read the machine first, then look for the tools the build needs. Where the host has no cmake or
# ninja, or too old ones, those of keyelab's own Python environment are taken.

# %%
host = machine.read()
step.table(machine.rows(host), ["fact", "value"])

# %%
found = tools.look(step.environment(), step.params.backend, step.params.toolkit_root)
step.table(tools.rows(found), ["tool", "version", "path"])

# %% [markdown]
# ## Verify
#
# A check is *ok*, *warned*, *failed* or *unknown*. Unknown means that it could not be read; it is
# never counted as a pass.

# %%
step.add_checks(machine_checks(host, step.params, step.workdir))
step.add_checks(tool_checks(found, step.params.backend))

# %% [markdown]
# ## Result and next step
#
# The verdict card lists what needs attention first. The facts below are what later phases read.

# %%
step.finish(tools.facts(host, found))
