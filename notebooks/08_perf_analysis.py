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
# **Goal.** Find out why it is as fast, or as slow, as it is. The server's log becomes numbers that
# can be compared, the running server is measured at several depths and under load, the results are
# held against what the machine could do, and what they give reason to change is listed.

# %% [markdown]
# ## Time, risk and rollback
#
# Seconds for a log. It is read and never written, also while the server goes on using it.
#
# With `sweep` the server is kept busy: nothing else may use it meanwhile, and llama-bench loads the
# model a second time beside it. That takes about half a minute for the demo model. At the speeds
# of the article's log it would take hours, so for k100ai it is off. Nothing to roll back.

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
sweep: bool = False  # measure the running server at depths and under load
sweep_depths: list = [0, 512, 1024, 2048]  # context depths to measure at, tokens
sweep_clients: list = [1, 2, 4]  # numbers of clients at once
sweep_answer_tokens: int = 32  # length of every answer, tokens
sweep_repeats: int = 5  # measured rounds; one more warms up
ttft_limit_s: float = 0.0  # goodput: latest first token, s; 0 is none
token_limit_ms: float = 0.0  # goodput: slowest token, ms; 0 is none
memory_gb_per_s: float = 0.0  # memory speed; 0 measures it on a CPU
matrix_tflops: float = 0.0  # matrix speed; 0 measures it on a CPU

# %%
from keyelab.facts import BuildFacts, EnvFacts, PerfFacts, ServeFacts, VideoFacts
from keyelab.files import located, sha256_json, shown
from keyelab.perf import explain, plots, reader, requests, summary, tables, timeline, verify
from keyelab.record import nb
from keyelab.serving import status

step = nb.begin("perf_analysis", globals())
p = step.params

# %% [markdown]
# ## Preflight
#
# Without a `log` parameter, the log of this run's server is read, and the question of
# 07_video_test is looked for in it. The article's log comes with keyelab. With a sweep, the server
# must be up and idle.
#
# A line such as `1.53.597.137 I` gives minutes, seconds, ms and µs since the server's start:
# 113.6 s, not nearly two hours.

# %%
server = host = video = None
if not p.log and not step.dry_run:
    server = step.facts("serve", ServeFacts)
    host, video = step.facts("env_check", EnvFacts), step.facts("video_test", VideoFacts)
path = located(p.log or (server.log if server else reader.ARTICLE_LOG))
sweeping = p.sweep and server is not None
if sweeping:
    status.require_running(server)
step.say(f"Reading `{shown(path)}`. " + ("" if sweeping else "The server is not measured."))

# %% [markdown]
# ## Do
#
# ### One row a request
#
# `prompt_ms` runs from the start of the slot and holds image encoding; `decode_tps` is
# (n − 1) / t, because the clock starts at the first token. Builds up to b10019 print n / t, so
# their printed rate is kept beside it. A prompt that came from the cache has no prefill speed:
# one evaluated token in 53 ms is not "18.74 tokens per second" of anything. `line` is where the
# request begins in the log.

# %%
ours = explain.last(tables.read_tables([path]))
theirs = explain.last(tables.read_tables([reader.ARTICLE_LOG]))
asked = requests.rows(ours)
step.table(asked[-12:], requests.shown(asked))

# %% [markdown]
# ### What the log explains
#
# Load time by parts, decode speed as a line over depth with a 95 % interval, images, waiting,
# prompt cache, graphs. `keyelab perf LOG` prints the same for any llama-server log since 2023. What
# a log does not hold is unknown: a dozen tokens of an answer give no line.

# %%
step.code("\n".join(summary.lines(ours)), "text")

# %% [markdown]
# ### What the article's own numbers say
#
# Its text ends with "about 4.5 tokens per second". That number is nowhere in its log. What is there
# is a speed that depends on how much context lies behind the token being written: 18 tokens/s for
# short questions, 3.4 at the end of its video question.

# %%
step.code("\n".join(summary.lines(theirs)), "text")

# %%
subject = verify.find_task(asked, video.timings) if video else None
main = subject or requests.main(asked)
article = requests.main(requests.rows(theirs))
step.table(requests.side_by_side([("this run", ours, main), ("the article", theirs, article)]))

# %% [markdown]
# ### Measure the running server at several depths
#
# A log only has the depths that somebody asked for. Here each depth is asked on purpose, in two
# ways. **llama-bench** measures the library alone. **Through HTTP**, prompts of exactly so many
# tokens are sent to the server, answers have a fixed length (`ignore_eos`), nothing comes from the
# prompt cache, and the first round is thrown away. Rounds go over all depths, so that a machine
# that gets slower does so for each of them. Where the two disagree, the server itself costs time.

# %%
from keyelab.perf import client, depth

measured, rounds, answer = [], p.sweep_repeats, p.sweep_answer_tokens
if sweeping:
    binary = located(step.facts("build", BuildFacts).binaries["llama-bench"].path)
    fits = depth.fitting(p.sweep_depths, answer, server.context_tokens)
    argv = depth.bench_command(binary, server, located(server.model_path), fits, answer, rounds)
    measured = depth.bench(argv, step.environment(host.environment), step.log("bench"))

# %%
link = client.of(server) if sweeping else None
if link:
    with step.progress("depths") as bar:
        measured += depth.through_http(link, fits, answer, rounds, bar)
depths = depth.spread(measured) if measured else []
step.table(depths)

# %% [markdown]
# ### And under load
#
# So many clients at once, each asking again as soon as it has its answer. *First token* is what a
# user waits for, *each further token* is how fast the text flows, p99 is the unlucky user. Goodput
# counts the requests per second that kept both limits (`ttft_limit_s`, `token_limit_ms`).
#
# Text requests have 256 tokens; video requests are the question of 07_video_test, with its frames.
# With one slot the second client waits for the first: its time to the first token grows, the time
# per token does not.

# %%
from keyelab.params import resolve
from keyelab.video import frame, probe, question, tokens

film = {}
if sweeping:
    wanted, clip = resolve("video_test", p.target, {}).values, located(video.video.path)
    size = {"tile_px": tokens.SMALLEST_TILE_PX, "most": len(video.frames) or None}
    frames = frame.sampled(probe.probe(clip), wanted, **size)[1]
    body = question.request(frames, wanted, server.alias, video.prompt)
    film = client.fixed_chat(body, answer)

# %%
from keyelab.perf import load

under_load, clients = [], p.sweep_clients
if link:
    text = [client.fixed(link.tokens(256), answer)]
    with step.progress("load") as bar:
        under_load = load.sweep(link, "text", text, client.TEXT_PATH, clients, rounds, bar)
        under_load += load.sweep(link, "video", [film], client.CHAT, clients, rounds, bar)
latency = load.percentiles(under_load, p.ttft_limit_s, p.token_limit_ms)
step.table(latency)

# %% [markdown]
# ### Pictures
#
# The scale of speed is logarithmic, so that machines and models of very different size fit on it:
# compare the *fall* of a run, not one run's height with the other's, unless model and machine are
# the same. Small marks are windows of about 3 s, or rounds of the sweep; large ones are whole
# answers. The line is dashed where nothing was measured, and the band is its 95 % interval.

# %%
runs = [("this run's log", ours), ("the article", theirs)]
curves = [plots.curve(*run) for run in runs]
chart = plots.depth_plot(step.plot("depth"), curves + plots.swept(measured))
step.picture(chart, "decode speed against context depth, this run and the article's")

# %% [markdown]
# The second one starts every request at its arrival. In the article's video request, four fifths
# of the time are decoding; of the rest, nearly all is images, and a later one costs more than an
# early one because more context lies behind it.

# %%
chart = timeline.timeline_plot(step.plot("timeline"), runs)
step.picture(chart, "where each request's time goes, this run and the article's")
chart = plots.image_plot(step.plot("images"), runs)
step.picture(chart, "time of one image after another, this run and the article's")

# %%
from keyelab.perf import loadplots

if latency:
    chart = loadplots.latency_plot(step.plot("latency"), latency)
    step.picture(chart, "latency against clients at once: median, p90 and p99")
if server and server.buffers_mib:
    chart = loadplots.memory_plot(step.plot("memory"), server.buffers_mib)
    step.picture(chart, "memory that the server states in its log")

# %% [markdown]
# ### What the machine allows
#
# To write one token, every weight that is used must be read once, and the state of all tokens
# before it. Bytes over bandwidth is the shortest time for that; operations over the speed of
# arithmetic is the shortest time for a prompt. Bytes and operations come from the header of the
# model: of a mixture of experts only the experts that are used count. On a CPU, both speeds are
# measured here, with the server's number of threads. On a card they are parameters.
#
# The demo model's weights of 1 to 2 MB stay in the cache, so its roof is the cache's (dotted), and
# much of its time goes into starting many tiny operations a token.

# %%
from keyelab.perf import limits, machine, shape

model, points = shape.of_server(server) if server else None, []
if model:
    step.table(shape.rows(model), ["fact", "value"])
if sweeping:
    speeds = p.memory_gb_per_s, p.matrix_tflops
    threads, kept = depth.flags(server).get("--threads", ""), step.log("machine")
    roofs = machine.roofs(p.backend, threads, model.read_bytes, speeds, kept)
    points = limits.points(model, roofs, depths)
    step.say(f"Memory and arithmetic: {roofs.source}.")
    step.table(limits.rows(points))
    chart = loadplots.roofline_plot(step.plot("roofline"), points, roofs)
    step.picture(chart, "speed reached against what memory and arithmetic allow")

# %% [markdown]
# ### What gives reason to change something
#
# Each finding names what was seen, what it costs as far as that was measured, how to confirm it,
# and what to change. Where nothing was seen there is no advice. The article's log alone gives some,
# without its server.

# %%
from keyelab.perf import case, detective

known = case.Case(ours, asked, p.backend, server, host, model, machine.numa_nodes(), depths)
found = detective.findings(known)
step.table(detective.rows(found))
step.say("" if found else "Nothing was seen that gives reason to change anything.")

# %%
step.say("The article's log, by the same rules:")
alone = case.Case(theirs, requests.rows(theirs))
step.table(detective.rows(detective.findings(alone)))

# %% [markdown]
# ## Verify
#
# The log should be whole (damaged lines are left out, and counted here), each task should have
# come to its end with its whole context, and the two accounts of one request must agree: the
# client's, from the response and its own clock, and the server's, from the log. Under load, no
# request may have failed. llama-bench and HTTP are compared by their best rounds, because other
# work on the machine only ever makes a round slower.

# %%
step.add_checks(verify.log_checks(ours))
if video:
    step.add_checks(verify.client_checks(subject, video))
if sweeping:
    step.add_checks(verify.sweep_checks(measured, under_load))

# %% [markdown]
# ## Result and next step
#
# This is the last phase. `keyelab status` shows the server, `keyelab stop` ends it. To see what a
# change does, run again with it and hold the two runs against each other:
# `keyelab perf --compare RUN_A RUN_B`.

# %%
facts = PerfFacts(
    log=shown(path),
    load_s=requests.ready_s(ours),
    tasks=asked,
    decode_tps=main and main["decode_tps"],
    prefill_tps=main and main["prefill_tps"],
    sweep=measured,
    load=under_load,
    sweep_prompt=sha256_json([client.TEXT, answer, film]) if sweeping else "",
    limits=limits.rows(points),
    findings=detective.rows(found),
)
step.finish(None if step.dry_run else facts)
