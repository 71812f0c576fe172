"""Makes two model directories that SGLang loads in well under a second: random weights, a real tokenizer, no hub.

    python tiny_models.py DIR    →  DIR/tiny-llama, DIR/tiny-qwen2

Two attention heads of each kind at least, so that ``--tp 2`` can split them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from transformers.utils import logging

VOCABULARY = 512
END = "<|endoftext|>"
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE, so every text has tokens. Its first token, number 0, is the end of a text."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        ["A rank waits for its peers; a peer waits for the rank."] * 20,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=[END, "<|im_start|>", "<|im_end|>"],
        ),
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=END, eos_token=END, pad_token=END)
    fast.chat_template = CHAT
    return fast


def make(path: Path, config_class: Any, model_class: Any) -> None:
    torch.manual_seed(0)
    config = config_class(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=False,
        dtype=torch.bfloat16,
    )
    model_class(config).to(torch.bfloat16).save_pretrained(path)
    tokenizer().save_pretrained(path)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    logging.disable_progress_bar()
    make(root / "tiny-llama", LlamaConfig, LlamaForCausalLM)
    make(root / "tiny-qwen2", Qwen2Config, Qwen2ForCausalLM)
