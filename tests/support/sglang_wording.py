"""Writes the log of a launch in the wording of each release, as read in the sources of all 37."""

from __future__ import annotations

from launchmon_agent.sglang.table import releases

RELEASES = releases()
STAMP = "2026-11-29 16:{minute:02}:{second:02}"


class Wording:
    """The lines of one release. Each line is written one second after the one before."""

    def __init__(self, release: str) -> None:
        self.release = release
        self.lines: list[str] = []

    def since(self, first: str) -> bool:
        return RELEASES.index(self.release) >= RELEASES.index(first)

    def tags(self, tp: int) -> str:
        """Of a rank of the first of two pipeline stages, with expert parallelism."""
        if not self.since("0.4.6.post5"):
            return f"TP{tp}"
        if not self.since("0.4.10.post2"):
            return f"TP{tp} PP0"
        return f"PP0 TP{tp} EP{tp}" if self.since("0.5.5.post3") else f"TP{tp} EP{tp} PP0"

    def say(self, text: str, *ranks: int) -> None:
        for tag in [f" {self.tags(rank)}" for rank in ranks] or [""]:
            clock = divmod(len(self.lines), 60)
            stamp = STAMP.format(minute=clock[0], second=clock[1])
            self.lines.append(f"[{stamp[11:] if self.release == '0.2.15' else stamp}{tag}] {text}")

    def both(self, text: str) -> None:
        self.say(text, 0, 1)

    # ---------------------------------------------------------------------------------------------------------- phases

    def arguments(self) -> None:
        fields = {"model_path": "/models/a, b", "tp_size": 2, "api_key": "s3cret", "port": 30000}
        if self.since("0.5.19"):
            self.say(f"server_args={fields!r}")
        else:
            self.say(f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in fields.items())})")

    def dist_init(self) -> None:
        if self.since("0.5.21"):
            self.both("Init parallel begin.")
        else:
            self.both("Init nccl begin." if self.release == "0.2.15" else "Init torch distributed begin.")
        if self.since("0.4.0"):
            self.say("sglang is using nccl==2.21.5", 0)
        if self.since("0.5.21"):
            self.both("Init parallel ends. elapsed=3.00 s")
            self.both("Memory baseline taken. mem usage=0.91 GB")
        elif self.since("0.4.9.post6"):
            self.both("Init torch distributed ends. elapsed=3.00 s, mem usage=0.91 GB")
        elif self.since("0.4.3.post4"):
            self.both("Init torch distributed ends. mem usage=0.91 GB")

    def weights(self) -> None:
        self.both("Load weight begin. avail mem=78.55 GB")
        label = "Multi-thread loading shards" if self.since("0.5.9") else "Loading safetensors checkpoint shards"
        bar = f"\r{label}:  50% Completed | 1/2 [00:01<00:01,  1.00s/it]"
        self.lines.append(bar if self.since("0.5.8") else bar + "\n")
        self.lines.append(bar.replace(" 50%", "100%").replace("1/2", "2/2"))
        elapsed = "elapsed=4.00 s, " if self.since("0.5.2") else ""
        usage = ", mem usage=40.00 GB." if self.since("0.4.3.post4") else ""
        self.both(f"Load weight end. {elapsed}type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=38.55 GB{usage}")

    def kv_pool(self) -> None:
        if self.since("0.4.1.post7"):
            self.both("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 9000, K size: 9.00 GB, V size: 9.00 GB")
        self.both("Memory pool end. avail mem=18.05 GB")

    def autotune(self) -> None:
        if self.since("0.5.6.post2"):
            how = "with cache: /cache/tune" if self.since("0.5.12") else ""
            self.both(f"Running FlashInfer autotune {how}" if how else "Running FlashInfer autotune...")
            self.both("FlashInfer autotune completed.")

    def graphs(self, model: str = "") -> None:
        words = f"{model}decode CUDA graph" if self.since("0.5.14") else f"{model}cuda graph"
        self.both(f"Capture {words} begin. This can take up to several minutes. avail mem=18.05 GB")
        if self.since("0.4.4.post4"):
            label = "(bs=8 avail_mem=17.49 GB)" if self.since("0.4.8.post1") else "(avail_mem=17.49 GB)"
            self.lines.append(f"\rCapturing batches {label}:  50%|█████     | 4/8 [00:01<00:01, 4.00it/s]")
        if self.since("0.5.14"):
            self.both(f"Capture {words} end. bs=[1, 2], elapsed=2.00 s, mem usage=1.00 GB, avail mem=17.05 GB")
        elif self.since("0.4.0"):
            self.both(f"Capture {words} end. Time elapsed: 2.00 s. mem usage=1.00 GB. avail mem=17.05 GB.")

    def serving(self) -> None:
        speaking = (0,) if self.since("0.4.6.post5") else (0, 1)
        chunked = "chunked_prefill_size=8192, " if self.since("0.3.6.post3") else ""
        self.say(
            f"max_total_num_tokens=9000, {chunked}max_prefill_tokens=16384, max_running_requests=64, context_len=8192",
            *speaking,
        )
        if self.since("0.5.17"):
            self.say(
                "Engine startup timings (s): load_weight=4.00, kv_cache_allocation=1.00, scheduler_e2e=20.00, "
                "cuda_graph={prefill=0.00, decode=2.00}, tokenizer_e2e=30.00"
            )
        for line in (
            "INFO:     Started server process [1048]",
            "INFO:     Waiting for application startup.",
            "INFO:     Application startup complete.",
            "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
        ):
            if self.release == "0.2.15":
                self.lines.append(line)  # uvicorn had no stamp then
            else:
                self.say(line)
        self.say("Prefill batch. #new-seq: 1, #new-token: 6, #cached-token: 0, #running-req: 0, #queue-req: 0", 0)
        self.say("The server is fired up and ready to roll!")

    def log(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines).encode()


def launch(release: str) -> bytes:
    """A healthy launch with two ranks."""
    words = Wording(release)
    words.arguments()
    words.dist_init()
    words.weights()
    words.kv_pool()
    words.autotune()
    words.graphs()
    words.serving()
    return words.log()


def speculative_launch(release: str) -> bytes:
    """The same with a draft model: repeated whole up to 0.5.13, side by side from 0.5.14."""
    words = Wording(release)
    words.arguments()
    words.dist_init()
    words.weights()
    if words.since("0.5.14"):
        words.weights()
        words.kv_pool()
        words.kv_pool()
        words.graphs("target ")
    else:
        words.kv_pool()
        words.graphs()
        words.dist_init()
        words.weights()
        words.kv_pool()
    words.graphs("draft ")
    words.serving()
    return words.log()
