"""Stands in for the wheel of SGLang's CUDA kernels, which cannot load without CUDA.

SGLang imports many names from it on every path, and its CPU path for Llama and Qwen calls none of them: each name is
there, and calling it raises.
"""

from __future__ import annotations

from typing import Any, NoReturn


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def kernel(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"sgl_kernel.{name} was called, and this machine has no CUDA kernels")

    kernel.__name__ = name
    return kernel
