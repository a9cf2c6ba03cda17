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
# Seconds; with cards less than a minute to ask the vendor's tools, and about a minute more for a
# small HIP program that is compiled six times and run on one card. Nothing on the machine is
# changed: every check reads, and every remedy is a command that is printed and never run. With
# `disk_probe_mib` a file of that size is written in `workdir` and removed. Nothing to roll back.

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
probe_arch: str = ""  # hip: name of the card for the compiler, to probe it; empty does not
expected_cards: int = 0  # cards that the machine has; 0 is any number
cards: str = ""  # cards to serve on, such as 0,1; empty chooses
weights_gib: float = 0.0  # size of the model, GiB; 0 chooses no cards
projector_gib: float = 0.0  # size of its projector, GiB
context_tokens: int = 0  # context that the cards must hold, tokens
state_kib_per_token: float = 0.0  # KV state of a token, KiB
disk_probe_mib: int = 0  # written and read in workdir for its speed, MiB
root: str = ""  # folder that stands for / when /sys is read; empty is /

# %%
from keyelab.files import located
from keyelab.host import card, inventory, machine, picture, select, toolkit
from keyelab.host.probe import transcript
from keyelab.record import nb

step = nb.begin("env_check", globals())

# %% [markdown]
# ## Preflight
#
# None: this phase is the preflight of the others.

# %% [markdown]
# ## Do
#
# Read the machine first, then load the toolkit's `env.sh` in a shell of its own, because a notebook's
# kernel is no login shell and has not. What it changes is kept as a difference, and every later
# phase runs its programs with it.

# %%
host = machine.read()
step.table(machine.host_rows(host))
p = step.params
kit = toolkit.load(p.toolkit_root, p.backend, step.environment(), step.log("env-sh"))
env = step.environment(kit.difference)
if kit.difference:
    step.table({"variable": name, "value": value} for name, value in kit.difference.items())

# %% [markdown]
# Then the tools that the build needs. Where the host has no cmake or ninja, or too old ones, those
# of keyelab's own Python environment are taken.

# %%
found = machine.look(env, p.backend)
step.table(machine.tool_rows(found))

# %% [markdown]
# The cards. The bus, the kernel, the runtime and the vendor's tool are asked, each answer is kept in
# `logs/host/`, and the answers are joined by PCI address: each source counts the cards in its own
# order. Memory and use are sampled three times, and a card is busy when two of them say so. Without
# the vendor's tool the kernel's own files say less.

# %%
root, asked = located(p.root or "/"), "cpu" if step.dry_run else p.backend
with step.progress("cards") as bar:
    cards = inventory.join(inventory.look(asked, env, root, step.log(), bar))
if p.backend == "cpu":
    step.say("None are asked for on this target.")
else:
    step.table(inventory.rows(cards.devices))

# %% [markdown]
# The cards to serve on: idle, on one CPU socket, and as few as hold the model and its context.
# llama.cpp gives each card some of the layers, and one answer passes through them in turn: more
# cards than needed add hops and no speed. The later phases see the chosen cards only.

# %%
choice = select.choose(cards.devices, env, p)
if p.weights_gib and cards.devices:
    step.table(select.rows(p, len(cards.devices)))
chosen = [device.pci_address for device in choice.cards]
env |= select.environment(choice, p.backend)
if cards.devices:
    drawn = picture.draw(step.plot("cards"), cards.devices, chosen)
    step.picture(drawn, f"{len(cards.devices)} cards, {len(chosen)} of them chosen for serving")

# %% [markdown]
# Now one card itself, where there is one to ask. How many threads a block may have is not what a
# data sheet says: DTK's compiler makes a kernel without bounds for at most 256, whatever the card
# can do, and a launch over that prints a line and goes on with undefined results. The program hands
# a value from each thread of a block to the opposite one and counts the slots that come out right:
# with 512 and 1,024 threads, with and without bounds, and with the flag
# `--gpu-max-threads-per-block=1024`; then the two dot products of the recipe gcn-dot. A launch that
# does not end is ended, and nothing is tried after it.

# %%
probed = None
if p.backend != "hip" or not p.probe_arch or step.dry_run:
    step.say("Not on this target." if not step.dry_run else "Not in a dry run.")
else:
    with step.progress("probe") as bar:
        probed = card.read(transcript("hipcc", p.probe_arch, env, step.log("probe"), bar))
    step.table(probed.rows(), ["fact", "value", "because"])

# %% [markdown]
# 04_source_patch takes the strongest recipe that these facts allow. The same in a shell:
# `keyelab probe`.

# %% [markdown]
# ## Verify
#
# A check is *ok*, *warned*, *failed* or *unknown*. Unknown means that it could not be read; it is
# never counted as a pass. First what matters on every machine.

# %%
from keyelab.host import cardchecks, checks

step.add_checks(checks.machine_checks(p, step.workdir, env))
step.add_checks(checks.tool_checks(found, env))
step.add_checks([checks.probe_check(probed)] if probed else [])

# %% [markdown]
# Then the cards and what they need: driver, device nodes, toolkit, runtime, and settings of the
# kernel that make cards slow without a word.

# %%
if p.backend != "cpu" and not step.dry_run:
    step.add_checks(toolkit.toolkit_checks(kit, p, cards, env, step.log("empty")))
    step.add_checks(cardchecks.card_checks(cards, step.environment(), p, kit.version))
    step.add_checks(checks.kernel_checks(cards))
if p.weights_gib and not step.dry_run:
    step.add_checks(select.choice_checks(choice))

# %% [markdown]
# ## Result and next step
#
# The verdict card lists what needs attention first. The facts below are what later phases read.

# %%
host |= {"devices": list(cards.devices), "chosen": chosen, "toolkit_version": kit.version}
host |= {"environment": kit.difference | select.environment(choice, p.backend)}
step.finish(machine.facts(found, kit.root, probe=probed and probed.facts, **host))
