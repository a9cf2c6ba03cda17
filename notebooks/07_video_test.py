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
# part of the video was shown to it, no frame was lost on the way, and the answer is whole.

# %% [markdown]
# ## Time, risk and rollback
#
# A second on `cpu-demo`; about ten minutes for ten full-size frames on the article's machine (it
# took 635 s). The server does the work and is not changed. To undo: nothing, except that a demo
# clip stays in `work/videos/`; interrupting the kernel closes the connection, and that cancels the
# task in the server. A dry run reads the video and chooses frames, and sends nothing.

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
video: str = ""  # video file; empty makes a demo clip
prompt: str = "What happens in these pictures?"  # the question
expect: str = ""  # text that the answer must contain; empty accepts any
fps: float = 2.0  # frames sampled per second of video
max_frames: int = 10  # most frames sent
frame_size_px: int = 0  # frames padded to a square of this side; 0 keeps size
frame_text: str = ""  # text before each frame; {number} and {time_s} filled in
jpeg_quality: int = 90  # JPEG quality, 1 to 100
temperature: float = 0.1  # sampling temperature
top_p: float = 0.001  # nucleus sampling share
max_tokens: int = 512  # longest answer, tokens
timeout_s: float = 1800.0  # longest wait for the answer, seconds

# %%
from keyelab.facts import ServeFacts
from keyelab.record import nb
from keyelab.video import chat, frame, probe, question, sample, sheet, source, verify

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
server = None if step.dry_run else step.facts("serve", ServeFacts)
file = source.obtain(p.video, step.workdir)
info = probe.probe(file)
step.table(probe.rows(info), ["fact", "value"])

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

# %%
step.table(sample.article_comparison(p.max_frames))

# %%
picks = sample.plan(info, fps=p.fps, max_frames=p.max_frames)
with step.progress("frames") as bar:
    frames = frame.collect(
        info, picks, size_px=p.frame_size_px, jpeg_quality=p.jpeg_quality, on_progress=bar
    )
step.table(frame.rows(frames))
step.add_checks(verify.sample_checks(info, picks, frames))

# %% [markdown]
# This is what the model is shown, decoded again from the very bytes that are sent. Look at it: an
# upside-down, stretched or colour-swapped picture is easier to see here than in an answer.

# %%
picture = sheet.contact_sheet(frames, step.plot("frames"), f"{len(frames)} of {info.frames} frames")
step.picture(picture, f"{file.name} as sent: {len(frames)} JPEGs of quality {p.jpeg_quality}")

# %% [markdown]
# ### Ask
#
# One user message: the frames as data URIs, then the question. With `frame_text` a line of text
# stands before each frame. It tells the model the order, and it keeps llama.cpp (b9631 to b10502)
# from fusing neighbouring frames of equal size into one for Qwen-VL projectors, which halves what
# the model sees and confuses the prompt cache.
#
# The request's fields are the article's. Its `skip_special_tokens` is left out, because
# llama-server does not know it and ignores it.
#
# When it fails, the client's words and what the server's log has to say since then are read as one
# story: a connection that is lost without a word is mostly a server that an assertion has ended.

# %%
if not step.dry_run:
    body = question.request(frames, p, model=server.alias)
    kept = step.log("reply").with_suffix(".jsonl")
    reply = chat.ask(server, body, timeout_s=p.timeout_s, kept=kept, on_text=chat.live)

# %% [markdown]
# ## Verify
#
# *Coverage* and *frames sent* say whether the video was shown. *Every frame is in the prompt* holds
# the tokens that the server counted against the fewest that frames of this size can cost: fewer
# means that frames were merged or dropped after they left here. *Finish reason* must be `stop`:
# `length` is an answer cut off, and a reasoning model that spends its whole budget on thinking
# leaves no answer at all.

# %%
if not step.dry_run:
    step.add_checks(verify.answer_checks(reply, expect=p.expect, max_tokens=p.max_tokens))
    step.add_checks([verify.vision_check(frames, reply.usage.get("prompt_tokens"))])
    step.table(verify.rows(reply), ["measure", "value"])

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
    step.say(f"> {reply.answer or '*no answer*'}")
    step.finish(verify.facts(info, picks, frames, p, reply))
