# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 07 · Video test
#
# **Goal.** Ask the running server about a video and know that the answer is the model's: every
# part of the video was shown to it, no frame was lost on the way, and the answer is whole and says
# what the video shows.

# %% [markdown]
# ## Time, risk and rollback
#
# Two seconds on `cpu-demo`; about ten minutes for ten full-size frames on the article's machine (it
# took 635 s). The server does the work and is not changed. To undo: nothing, except that a demo
# clip or a downloaded video stays in `work/videos/`; interrupting the kernel closes the connection,
# and that cancels the task in the server. A dry run reads the video and chooses frames, and sends
# nothing.

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
video: str = ""  # video file, folder of pictures or URL; empty: a demo clip
max_download_mib: int = 2048  # largest video taken from a URL, MiB
prompt: str = "What happens in these pictures?"  # the question
more_prompts: list = []  # further questions on the same frames
expect: list = []  # facts that the answer must contain, such as red|crimson; [] accepts any
mode: str = "frames"  # frames sends pictures, native the video itself (input_video)
sampling: str = "even"  # even takes equal parts of the time, scene one frame a scene
times_s: list = []  # frames at these times, seconds; [] samples
fps: float = 2.0  # frames sampled per second of video
max_frames: int = 10  # most frames sent
decoder: str = "pyav"  # pyav or opencv
frame_size_px: int = 0  # frames padded to a square of this side; 0 keeps size
frame_max_px: int = 0  # most pixels a frame; 0 is no limit
frame_max_tokens: int = 0  # most tokens of a frame without its marks; 0 is no limit
frame_text: str = "Frame {number} ({time}):"  # text before each frame: {number}, {time}, {time_s}
jpeg_quality: int = 90  # JPEG quality, 1 to 100
temperature: float = 0.1  # sampling temperature
top_p: float = 0.001  # nucleus sampling share
max_tokens: int = 512  # longest answer, tokens
timeout_s: float = 1800.0  # longest wait for the answer, seconds
clips_dir: str = ""  # folder of clips with truth.json, scored; empty: none
min_score: float = 1.0  # share of the clips that must be right

# %%
from keyelab.facts import ModelFacts, ServeFacts
from keyelab.files import located
from keyelab.models import header
from keyelab.record import nb
from keyelab.serving import status
from keyelab.video import native, probe, score, source, tokens

step = nb.begin("video_test", globals())
p = step.params

# %% [markdown]
# ## Preflight
#
# The server is the one that 06_serve started and proved. The video is opened before anything is
# sent: an empty file, a Git LFS pointer, an interrupted recording or a file without pictures is
# told apart here, with what to do about it.
#
# Length and rate are read from the time stamps of the packets. What a container *states* about
# itself is often missing and sometimes absurd (0 or 1000 frames a second), and frames need not be
# evenly spaced. Where the time stamps cannot be used, times are unknown and frames are counted.

# %%
server, tile = None, tokens.SMALLEST_TILE_PX
if not step.dry_run:
    server = step.facts("serve", ServeFacts)
    status.require_running(server)
    projector = located(step.facts("model_fetch", ModelFacts).mmproj.path)
    tile = tokens.tile_px(header.read(projector, "mmproj").values)
clips = score.clips(located(p.clips_dir)) if p.clips_dir else []

# %%
file = source.obtain(p.video, step.workdir, max_download_mib=p.max_download_mib)
info = probe.probe(file)
step.table(probe.rows(info), ["fact", "value"])
if p.mode == "native":
    native.require(info, server)
    step.add_checks([native.check_of(info, p, server, tile)])

# %% [markdown]
# ## Do
#
# ### Choose frames that stand for the whole video
#
# The duration is divided into N equal parts and the frame nearest to the middle of each is taken.
# It sounds too obvious to say. But counting indices instead, as the article does, loses the tail:
# it lists candidates at `fps`, keeps every (candidates // max)-th, and cuts the list at `max`.
# With 19 candidates and at most 10 frames that step is 1, so the first ten are kept and the
# second half of the video is never seen. The model cannot know; it describes half a video.
#
# `times_s` takes the frames at given times instead, and `sampling: scene` one frame a scene.

# %%
from keyelab.video import budget, chat, frame, question, sample, sheet

step.table(sample.article_comparison(p.max_frames))

# %%
with step.progress("frames") as bar:
    picks, frames = frame.sampled(info, p, tile_px=tile, on_progress=bar)

# %% [markdown]
# ### Count tokens before anything is sent
#
# Frames, text and the longest answer must fit into the context of one slot. What a frame costs is
# the server's own count: all labels and the question are sent once without a frame and once with
# the first one, for an answer of one token, and the difference is the frame. (A dry run computes
# it, and `mode: native` leaves the frames to the server.) If fewer frames fit than were asked for,
# fewer are chosen, still over the whole video, and a check says so. If none fits, nothing is sent.

# %%
asked, slot = len(picks), server.context_tokens if server else None
cost = budget.computed(frames[0], picks, p, slot, tile)
if server and p.mode == "frames":
    kept = step.log("measure").with_suffix(".jsonl")
    put = chat.asking(server, timeout_s=p.timeout_s, kept=kept)
    cost = budget.measured(frames[0], picks, p, slot, put)

# %%
if p.mode == "frames":
    count = budget.frames_to_send(cost, asked, p)
    step.table(budget.rows(cost, asked, count), ["fact", "value"])
    step.add_checks([budget.check_of(cost, asked, count)])
    if count < asked:
        picks, frames = frame.sampled(info, p, tile_px=tile, most=count)
        cost = budget.measured(frames[0], picks, p, slot, put)  # fewer labels

# %% [markdown]
# This is what the model is shown, decoded again from the very bytes that are sent. Look at it: an
# upside-down, stretched or colour-swapped picture is easier to see here than in an answer. With
# `mode: native` it is only what our sampler would take.

# %%
sent = sample.sampling(info, picks, [one.pick for one in frames])
step.table(frame.rows(frames))
what = f"{file.name}: {len(frames)} of {info.frames} frames, JPEG quality {p.jpeg_quality}"
step.picture(sheet.contact_sheet(frames, step.plot("frames")), what)

# %% [markdown]
# ### Ask
#
# One user message: the frames as data URIs, then the question. `frame_text` puts a line with number
# and time before each frame. It tells the model the order, and it keeps llama.cpp (b9631 to b10502)
# from fusing neighbouring frames of equal size into one for Qwen-VL projectors. Fused frames halve
# what the model sees, and a fused pair is cached under its first frame alone, so that a second
# video can get the first one's answer.
#
# `more_prompts` are asked about the same frames. They stand last and the frames' bytes are the
# same, so the server takes the frames from its prompt cache and only reads the new question.
#
# The request's fields are the article's. Its `skip_special_tokens` is left out, because
# llama-server does not know it and ignores it.
#
# When it fails, the client's words and what the server's log has to say since then are read as one
# story: a connection that is lost without a word is mostly a server that an assertion has ended.

# %%
replies = []
if server:
    kept = step.log("reply").with_suffix(".jsonl")
    how, what = (native, info) if p.mode == "native" else (question, frames)
    bodies = how.requests_for(what, p, server.alias)
    heard = {"on_text": chat.live, "timeout_s": p.timeout_s, "kept": kept}
    with step.progress("answer") as bar:
        put = chat.asking(server, on_progress=bar, **heard)
        replies = chat.ask_each(put, bodies, on_text=chat.live)

# %%
scored = []
if server and clips:
    kept = step.log("clips").with_suffix(".jsonl")
    put = chat.asking(server, timeout_s=p.timeout_s, kept=kept)
    with step.progress("clips") as bar:
        scored = score.score(clips, put, p, tile_px=tile, on_progress=bar)
    step.table(score.rows(scored))
    step.add_checks([score.check_of(scored, p.min_score)])

# %% [markdown]
# ## Verify
#
# *Coverage* and *frames sent* say whether the video was shown. *Every frame is in the prompt* holds
# the tokens that the server counted against the budget: fewer means that frames were merged or
# dropped after they left here. *Finish reason* must be `stop`: `length` is an answer cut off, and a
# reasoning model that spends its whole budget on thinking leaves no answer at all. *Says* looks for
# each fact of `expect` in the first answer.

# %%
from keyelab.video import outcome, verify

if p.mode == "frames":
    step.add_checks(verify.sample_checks(info, sent))
if server:
    for number, reply in enumerate(replies, 1):
        step.add_checks(verify.answer_checks(reply, max_tokens=p.max_tokens, number=number))
    step.add_checks(verify.fact_checks(replies[0].answer, p.expect))
    if p.mode == "frames":
        step.add_checks([verify.arrival_check(frames, len(picks), cost, replies)])
    step.table(verify.rows(replies[0]), ["measure", "value"])
    if p.more_prompts:
        step.table(verify.question_rows([p.prompt, *p.more_prompts], replies))

# %% [markdown]
# ## Result and next step
#
# 08_perf_analysis finds the same request in the server's log and holds the two accounts against
# each other.

# %%
if step.dry_run:
    step.say(f"Would ask **{p.prompt}** with {len(frames)} frames.")
    step.finish()
else:
    step.say(f"> {replies[0].answer or '*no answer*'}")
    covered = sent.coverage if p.mode == "frames" else None
    shown = frames if p.mode == "frames" else []
    step.finish(outcome.facts(info, shown, p, replies, coverage=covered, budget=cost, clips=scored))
