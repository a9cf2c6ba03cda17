"""The packaged GGUF files as transformers' Qwen3VLMoeForConditionalGeneration.

A second implementation of the same model: what both answer alike, neither has wrong by chance.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LANGUAGE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate_inp": "mlp.gate",
}
_VISION = {
    "ln1": "norm1",
    "ln2": "norm2",
    "attn_qkv": "attn.qkv",
    "attn_out": "attn.proj",
    "ffn_up": "mlp.linear_fc1",
    "ffn_down": "mlp.linear_fc2",
}
_OTHERS = {
    "v.position_embd": "visual.pos_embed",
    "v.post_ln": "visual.merger.norm",
    "mm.0": "visual.merger.linear_fc1",
    "mm.2": "visual.merger.linear_fc2",
    "token_embd": "language_model.embed_tokens",
    "output_norm": "language_model.norm",
}


@dataclass
class Hugging:
    """Model, tokenizer and image processor of transformers; needs the extra `[train]`."""

    model: Any
    tokenizer: Any
    processor: Any

    def answer(self, parts: Sequence[str | bytes], most_tokens: int = 64) -> tuple[str, int]:
        """The greedy answer to a message of texts and JPEG files, and the tokens of the prompt."""
        import PIL.Image
        import torch

        files = [PIL.Image.open(io.BytesIO(one)) for one in parts if isinstance(one, bytes)]
        content = [
            {"type": "text", "text": one} if isinstance(one, str) else {"type": "image"}
            for one in parts
        ]
        text = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        pictures = dict(self.processor(files, return_tensors="pt")) if files else {}
        for _, high, wide in pictures.get("image_grid_thw", torch.zeros(0, 3)).tolist():
            text = text.replace("<|image_pad|>", "\0" * (high * wide // 4), 1)
        ids = self.tokenizer(text.replace("\0", "<|image_pad|>"), return_tensors="pt").input_ids
        kinds = (ids == self.model.config.image_token_id).int()
        with torch.no_grad():
            out = self.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                mm_token_type_ids=kinds,
                max_new_tokens=most_tokens,
                do_sample=False,
                **pictures,
            )
        told = self.tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
        return str(told), ids.shape[1]


def load(model: Path, mmproj: Path) -> Hugging:
    """Both GGUF files as one model in 32-bit floats on the CPU."""
    import gguf
    import torch
    from transformers import Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    readers = gguf.GGUFReader(model), gguf.GGUFReader(mmproj)
    known = {name: field.contents() for one in readers for name, field in one.fields.items()}
    tensors = {
        tensor.name: torch.from_numpy(tensor.data.copy()).float()
        for one in readers
        for tensor in one.tensors
    }
    built = Qwen3VLMoeForConditionalGeneration(Qwen3VLMoeConfig(**_config(known)))
    built.load_state_dict(_renamed(tensors))
    patch = known["clip.vision.patch_size"]
    processor = Qwen2VLImageProcessorPil(
        image_mean=known["clip.vision.image_mean"],
        image_std=known["clip.vision.image_std"],
        patch_size=patch,
        temporal_patch_size=2,
        merge_size=2,
        # llama.cpp: 8 to 4096 tokens of 2 × 2 patches
        size={"shortest_edge": 8 * 4 * patch**2, "longest_edge": 4096 * 4 * patch**2},
    )
    return Hugging(built.eval(), _tokenizer(known), processor)


def _config(known: dict[str, Any]) -> dict[str, Any]:
    """Qwen3VLMoeConfig's keywords from the keys of both files."""

    def of(name: str) -> Any:
        return known[f"qwen3vlmoe.{name}"]

    def seen(name: str) -> Any:
        return known[f"clip.vision.{name}"]

    tokens = {name: number for number, name in enumerate(known["tokenizer.ggml.tokens"])}
    rope = {
        "rope_type": "default",
        "rope_theta": of("rope.freq_base"),
        "mrope_section": of("rope.dimension_sections")[:3],
        "mrope_interleaved": True,
    }
    text = {
        "vocab_size": len(tokens),
        "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"),
        "moe_intermediate_size": of("expert_feed_forward_length"),
        "num_hidden_layers": of("block_count"),
        "num_attention_heads": of("attention.head_count"),
        "num_key_value_heads": of("attention.head_count_kv"),
        "head_dim": of("attention.key_length"),
        "num_experts": of("expert_count"),
        "num_experts_per_tok": of("expert_used_count"),
        "max_position_embeddings": of("context_length"),
        "rms_norm_eps": of("attention.layer_norm_rms_epsilon"),
        "eos_token_id": known["tokenizer.ggml.eos_token_id"],
        "pad_token_id": known["tokenizer.ggml.padding_token_id"],
        "rope_parameters": rope,
        "tie_word_embeddings": True,
    }
    vision = {
        "depth": seen("block_count"),
        "hidden_size": seen("embedding_length"),
        "intermediate_size": seen("feed_forward_length"),
        "num_heads": seen("attention.head_count"),
        "patch_size": seen("patch_size"),
        "spatial_merge_size": seen("spatial_merge_size"),
        "out_hidden_size": seen("projection_dim"),
        "num_position_embeddings": (seen("image_size") // seen("patch_size")) ** 2,
        "deepstack_visual_indexes": [],
    }
    special = {
        f"{short}_token_id": tokens[f"<|{long}|>"]
        for short, long in (
            ("image", "image_pad"),
            ("video", "video_pad"),
            ("vision_start", "vision_start"),
            ("vision_end", "vision_end"),
        )
    }
    return {"text_config": text, "vision_config": vision, "tie_word_embeddings": True, **special}


def _renamed(tensors: dict[str, Any]) -> dict[str, Any]:
    """Tensors under the names of transformers' state_dict."""
    import torch

    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        stem, _, end = name.rpartition(".")
        parts = stem.split(".")
        if stem in _OTHERS:
            found[f"model.{_OTHERS[stem]}.{end}"] = tensor
        elif parts[0] == "blk" and parts[2] in _LANGUAGE:
            layer = f"model.language_model.layers.{parts[1]}"
            found[f"{layer}.{_LANGUAGE[parts[2]]}.{end}"] = tensor
        elif parts[:2] == ["v", "blk"]:
            found[f"model.visual.blocks.{parts[2]}.{_VISION[parts[3]]}.{end}"] = tensor
        elif parts[-1] == "ffn_gate_exps":
            experts = f"model.language_model.layers.{parts[1]}.mlp.experts"
            up, down = tensors[f"blk.{parts[1]}.ffn_up_exps.weight"], stem.replace("gate", "down")
            found[f"{experts}.gate_up_proj"] = torch.cat([tensor, up], 1)
            found[f"{experts}.down_proj"] = tensors[f"{down}.weight"]
    patches = [tensors["v.patch_embd.weight"], tensors["v.patch_embd.weight.1"]]
    found["model.visual.patch_embed.proj.weight"] = torch.stack(patches, 2)
    found["model.visual.patch_embed.proj.bias"] = tensors["v.patch_embd.bias"]
    found["lm_head.weight"] = tensors["token_embd.weight"]
    return found


def _tokenizer(known: dict[str, Any]) -> Any:
    """transformers' tokenizer from the vocabulary, merges and chat template of the GGUF file."""
    from tokenizers import AddedToken, models
    from transformers import PreTrainedTokenizerFast

    from keyelab.models.demo.tokenizer import SPECIAL, library

    names = known["tokenizer.ggml.tokens"]
    merges = [tuple(one.split(" ")) for one in known["tokenizer.ggml.merges"]]
    vocabulary = {name: number for number, name in enumerate(names)}
    built = library(models.BPE(vocabulary, merges))
    built.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=built,
        eos_token=names[known["tokenizer.ggml.eos_token_id"]],
        pad_token=names[known["tokenizer.ggml.padding_token_id"]],
        chat_template=known["tokenizer.chat_template"],
    )
