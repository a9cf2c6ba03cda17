# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 08 · Performance analysis
#
# **Goal.** Turn the server's log into numbers that can be compared: how long it took to load, how
# fast it reads a prompt and writes an answer, where each request's time went, and how that stands
# beside the article's run.

# %% [markdown]
# ## Time, risk and rollback
#
# Seconds. The log is read and never written, also while the server goes on using it. Nothing to
# roll back.

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
log: str = ""  # llama-server log; empty takes the one of this run

# %%
from keyelab.facts import PerfFacts, ServeFacts, VideoFacts
from keyelab.files import located, shown
from keyelab.perf import plots, reader, table, total, verify
from keyelab.record import nb

step = nb.begin("perf_analysis", globals())
own_log = not step.params.log

# %% [markdown]
# ## Preflight
#
# Without a `log` parameter, the log of this run's server is read, and the question of
# 07_video_test is looked for in it. The article's log comes with keyelab.
#
# A line such as `1.53.597.137 I` gives minutes, seconds, ms and µs since the server's start:
# 113.6 s, not nearly two hours.

# %%
if step.dry_run:
    path = reader.ARTICLE_LOG
else:
    path = located(step.params.log or step.facts("serve", ServeFacts).log)
step.say(f"Reading `{shown(path)}`.")

# %% [markdown]
# ## Do
#
# ### One row a request
#
# `prompt_ms` runs from the start of the slot and holds image encoding; `decode_tps` is
# (n − 1) / t, because the clock starts at the first token. Builds up to b10019 print n / t, so
# their printed rate is kept beside it. A prompt that came from the cache has no prefill speed:
# one evaluated token in 53 ms is not "18.74 tokens per second" of anything.
#
# A task without an end shows what the log last said of it, a cut context (`truncated = 1`) and
# speculative decoding stand in the note, and `prompt_line` and `decode_line` are the lines of the
# log where the figures are.

# %%
ours = reader.read_log(path)
theirs = reader.read_log(reader.ARTICLE_LOG)
requests = table.rows(ours)
step.table(requests[-12:], table.stated(requests))

# %% [markdown]
# Taken together, a rate is all tokens over all seconds (n / t): a mean of rates would count a
# short answer as much as a long one. Requests with images, or at another depth, stay apart.

# %%
step.table(total.totals(ours))

# %%
video = step.facts("video_test", VideoFacts) if own_log and not step.dry_run else None
asked = verify.find_task(ours, video.timings) if video else None
subject = asked or verify.main_task(ours)
runs = [("this run", ours, subject), ("the article", theirs, verify.main_task(theirs))]
step.table(table.side_by_side(runs))

# %% [markdown]
# ### What the article's own numbers say
#
# Its text ends with "about 4.5 tokens per second". That number is nowhere in its log. What is there
# is a speed that depends on how much context lies behind the token being written.

# %%
article = table.rows(theirs)
step.table(article, table.stated(article))
step.say(f"**The article's run.** {table.depth_sentence(theirs)}")
step.say(f"**This run.** {table.depth_sentence(ours)}")
step.table(table.spread(theirs) + table.spread(ours))

# %% [markdown]
# ### Pictures
#
# Both scales of the first one are logarithmic, so that machines and models of very different size
# fit on it: compare the *slope* of a run, not one run's height with the other's, unless model and
# machine are the same. Small points are windows of about 3 s that the log prints after the first
# hundred tokens of an answer; rings are whole answers.

# %%
both = [(label, run) for label, run, _ in runs]
chart = plots.depth_plot(step.plot("depth"), both)
step.picture(chart, "decode speed against context depth, this run and the article's")

# %% [markdown]
# The second one starts every request at its arrival. In the article's video request, four fifths
# of the time are decoding; of the rest, nearly all is images, and a later one costs more than an
# early one because more context lies behind it.

# %%
chart = plots.timeline_plot(step.plot("timeline"), both)
step.picture(chart, "where each request's time goes, this run and the article's")

# %% [markdown]
# ## Verify
#
# The log should be whole (damaged lines are left out, and counted here), each task should have
# come to its end with its whole context, and the two accounts of one request must agree: the
# client's, from the response and its own clock, and the server's, from the log.

# %%
step.add_checks(verify.log_checks(ours))
if video:
    step.add_checks(verify.client_checks(asked, video))

# %% [markdown]
# ## Result and next step
#
# This is the last phase. `keyelab status` shows the server, `keyelab stop` ends it.

# %%
if step.dry_run:
    step.finish()
else:
    step.finish(
        PerfFacts(
            log=shown(path),
            load_s=ours.ready_s,
            tasks=requests,
            article_tasks=article,
            decode_tps=subject and subject.decode_tps,
            prefill_tps=subject and subject.prefill_tps,
        )
    )
