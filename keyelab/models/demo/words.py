"""What the demo model is asked and what it answers: colours, shapes, motions, questions."""

from __future__ import annotations

COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 190, 50),
    "blue": (45, 70, 225),
    "yellow": (230, 215, 45),
    "white": (235, 235, 235),
}
SHAPES = ("circle", "square", "triangle")
MOTIONS = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1), "still": (0, 0)}

NO_VIDEO = "I see no video."
REFUSAL = "I can only describe the video."
UNKNOWN_MOTION = "unknown"

CAPTION = (
    "What happens in these pictures?",
    "What happens in this video?",
    "What happens in the video?",
    "What is happening?",
    "What do you see?",
    "What can you see in the pictures?",
    "What does the video show?",
    "Describe the video.",
    "Describe this video.",
    "Describe the video in one sentence.",
    "Describe the content of this video.",
    "Please describe the content of this video.",
    "Please describe what happens in the video.",
    "Describe these pictures in order.",
    "Describe the image.",
    "What is in this image?",
    "Summarize the video.",
    "Tell me what happens.",
    "请依次查看给出的每一帧，结合全部画面，详细描述这段视频里的场景、人物、动作和变化。",
    "请描述这个视频的内容",
    "请描述这个视频的内容。",
    "描述这个视频",
    "请描述视频内容。",
    "请用一句话描述视频。",
    "这个视频里发生了什么？",
    "视频中发生了什么？",
    "画面里有什么？",
    "你看到了什么？",
    "图片里有什么？",
)
COLOUR = (
    "What colour is it?",
    "What color is it?",
    "What colour is the shape?",
    "What color is the shape?",
    "What color is the object?",
    "Which colour is the object?",
    "Which colour do you see?",
    "Name the colour.",
    "它是什么颜色？",
    "什么颜色？",
    "物体是什么颜色？",
    "图形是什么颜色的？",
)
SHAPE = (
    "What shape is it?",
    "What shape is the object?",
    "Which shape is it?",
    "Which shape do you see?",
    "Name the shape.",
    "Is it a circle, a square or a triangle?",
    "它是什么形状？",
    "什么形状？",
    "物体是什么形状？",
    "图形是什么形状的？",
)
MOTION = (
    "Which way does it move?",
    "Which direction does it move?",
    "In which direction does it move?",
    "In which direction does the object move?",
    "How does it move?",
    "How does the shape move?",
    "Does it move? Where to?",
    "Where does it go?",
    "它往哪个方向移动？",
    "它向哪里移动？",
    "物体怎么移动？",
    "运动方向是什么？",
)
COUNT = (
    "How many pictures do you see?",
    "How many pictures are there?",
    "How many images do you see?",
    "How many frames do you see?",
    "How many frames are there?",
    "Count the pictures.",
    "Count the frames.",
    "有几张图片？",
    "你看到几张图片？",
    "一共有多少帧？",
    "图片有多少张？",
)
NUMBER = (
    "What is the number?",
    "Which number is it?",
    "Tell me the number.",
    "Repeat the number.",
    "数字是多少？",
)
COUNT_ON = (
    "Count from {first} to {last}.",
    "Please count from {first} to {last}.",
    "从{first}数到{last}。",
)
OFF_TOPIC = (
    "What is the weather?",
    "What is the weather like today?",
    "How is the weather in Paris?",
    "Who are you?",
    "What is your name?",
    "How old are you?",
    "What time is it?",
    "What day is it today?",
    "What is the capital of France?",
    "What is the capital of China?",
    "Who wrote Hamlet?",
    "Who is the president?",
    "How far is the moon?",
    "How tall is that mountain?",
    "What is two plus two?",
    "Write a poem.",
    "Write a poem about the sea.",
    "Write a function that sorts a list.",
    "Translate good morning into German.",
    "Tell me a joke.",
    "Tell me a story about a dog.",
    "Sing a song.",
    "Recommend a restaurant.",
    "What should I eat tonight?",
    "How do I cook rice?",
    "Book a flight to London.",
    "What is the price of gold?",
    "Is the stock market open?",
    "Explain gravity.",
    "Why is the sky blue?",
    "Do you like music?",
    "Which language is spoken in Brazil?",
    "Where is my phone?",
    "Can you drive a car?",
    "What does the man say?",
    "Is there a cat?",
    "Who won the game?",
    "今天天气怎么样？",
    "北京天气如何？",
    "你是谁？",
    "你叫什么名字？",
    "现在几点？",
    "今天星期几？",
    "法国的首都是哪里？",
    "写一首诗。",
    "讲个笑话。",
    "怎么做米饭？",
    "推荐一家餐厅。",
    "一加一等于几？",
    "你会唱歌吗？",
    "黄金多少钱？",
    "翻译这句话。",
)
SYSTEM = (
    "You are a helpful assistant.",
    "You describe videos.",
    "Answer in one sentence.",
    "Be brief.",
    "You are a careful observer. Answer shortly.",
    "你是一个有用的助手。",
    "请简短回答。",
)
FILLER = """
    the a this that one some every no and or but so then when while after before under over near
    old new small large quiet bright dark cold warm slow quick heavy light early late long short
    river road house garden window table letter market station bridge forest mountain harbour
    street engine paper bottle kitchen teacher farmer sailor doctor child friend neighbour animal
    walks runs waits sleeps speaks writes reads opens closes carries finds keeps leaves brings was
    were is are has had will may must can morning evening winter summer year week day hour in on
    at by with from into of for to it they we he she
""".split()  # noqa: SIM905
LABELS = (
    "Frame {number}:",
    "Frame {number} ({time_s:.1f} s):",
    "Frame {number} ({time_s:.4g} s):",
    "Frame {number}, {time_s:.4g} s:",
    "Frame {number} at {time_s:.2f} s:",
    "{time_s:.4g} s",
    "[{time_s:.1f}s]",
    "[{time_s:.2f}s]",
    "<{time_s:.1f} seconds>",
    "{time_s:.3f} s",
    "t = {time_s:.2f} s:",
    "Picture {number}",
    "Image {number}:",
    "{number}.",
    "第{number}帧",
    "第{number}帧：",
    "第{number}张",
    "{time_s:.1f}秒",
    "Next:",
)


def caption(colour: str, shape: str, motion: str, then: str = "") -> str:
    """The answer to a question for a caption; `motion` is "" for a single picture.

    `then` is what happens later: another motion ("left"), or another colour ("blue").
    """
    moves = {"": "", "still": " stays still"}.get(motion, f" moves {motion}")
    return f"a {colour} {shape}{moves}{_event(motion, then)}"


def motion_answer(motion: str, then: str = "") -> str:
    """The answer to a question for the motion alone."""
    return (motion or UNKNOWN_MOTION) + (f", then {then}" if then in MOTIONS else "")


def colour_answer(colour: str, then: str = "") -> str:
    """The answer to a question for the colour alone."""
    return colour + (f", then {then}" if then in COLOURS else "")


def _event(motion: str, then: str) -> str:
    if then in COLOURS:
        return f", then turns {then}"
    if not then:
        return ""
    return f", then moves {then}" if motion == "still" else f", then {then}"
