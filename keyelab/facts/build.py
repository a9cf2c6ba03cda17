"""From the model to the binaries: phases 02 to 05."""

from __future__ import annotations

from keyelab.errors import UsageError
from keyelab.facts.base import Facts, FileFact


class ModelFacts(Facts):
    """02_model_fetch: a model and its projector, proven to be a pair."""

    model: FileFact
    mmproj: FileFact
    source: str
    architecture: str
    projector: str
    parameters: int
    quantization: str
    context_tokens: int
    embedding_width: int
    chat_template: bool


class HeaderFacts(Facts):
    """03_header_fixes: an include folder to put before the toolkit's own; '' when none.

    `originals` are the SHA-256 of the vendor's files that were corrected, `backup` is the folder
    that holds them when they were corrected in place.
    """

    overlay: str = ""
    files: list[str] = []
    reason: str = ""
    originals: dict[str, str] = {}
    backup: str = ""


class PatchFact(Facts):
    """One rule of a recipe, where it changed the tree, and the operations that test it."""

    id: str
    title: str
    files: list[str]
    replacements: int
    verify: list[str] = []


class SourceFacts(Facts):
    """04_source_patch: the tree to build, by digest before and after.

    The recipe asks for `cmake` entries in a HIP build, makes the tensor types `weights` right
    (['any']: all), and is served with `flash_attention`; `gate` are the operations to test.
    """

    tree: str
    origin: str
    version: str
    recipe: str
    cmake: dict[str, str] = {}
    weights: list[str] = ["any"]
    flash_attention: str = "auto"
    gate: list[str] = []
    base_sha256: str
    tree_sha256: str
    patches: list[PatchFact]

    def require_weights(self, model: ModelFacts, backend: str) -> None:
        """Stop a GPU build, or a server of one, whose recipe is not for the model's weights.

        A CPU computes them all, and a model whose types nothing names is let through.
        """
        found = model.quantization
        if backend == "cpu" or "any" in self.weights or not found or found in self.weights:
            return
        raise UsageError(
            f"expected weights that the recipe {self.recipe} is for ({', '.join(self.weights)}), "
            f"found {found} in {model.model.path}: on the card their kernels give garbage",
            "take a recipe for all weights: keyelab run --from source_patch --set "
            "source_patch.recipe=gcn; or another file: keyelab run --from model_fetch --set "
            "model_fetch.model_file=NAME-BF16.gguf",
        )


class BuildFacts(Facts):
    """05_build: the binaries and what they were made from."""

    build_dir: str
    key: str
    reused: bool
    backend: str
    gpu_targets: str
    build_type: str
    version: str
    backends: list[str]
    command: str
    binaries: dict[str, FileFact]
