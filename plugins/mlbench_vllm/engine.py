"""vLLM's asynchronous engine, as an engine of mlbench: token ids in, token ids out."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mlbench import Decoding, Engine, EngineStatistics, GenerationProgram, Reply, Samples, UnavailableError
from mlbench.toolkit import AwaitedReply, first_line
from mlbench_vllm.growing_answer import GrowingAnswer

if TYPE_CHECKING:
    from collections.abc import Coroutine


class VllmEngine(Engine):
    """Passes prompts to vLLM's event loop, which has a thread here; the model is computed in processes of vLLM's."""

    def __init__(self, config: Any, program: GenerationProgram) -> None:
        """Keep vLLM's configuration; nothing is loaded."""
        self._config = config
        self._program = program
        self._llm: Any = None
        self._sampling: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mlbench-vllm", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = 0
        self._counts = {"answered": 0, "failed": 0, "answer_tokens": 0}

    def __enter__(self) -> Self:
        """Load the model.

        Raises:
            UnavailableError: vLLM cannot, and says so in the log.
        """
        self._thread.start()
        try:
            self._call(self._load())
        except Exception as error:  # its processes end with whatever they meet
            self.__exit__(None, None, None)
            raise UnavailableError(f"vLLM does not start: {first_line(error)}", hint="Its log says why.") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End vLLM's processes; requests under way are dropped."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def warm_up(self, samples: Samples) -> None:
        """Ask for these answers, and drop them.

        Raises:
            UnavailableError: one fails.
        """
        reply = AwaitedReply(len(samples))
        self.submit(samples, reply)
        reply.wait()
        if reply.failure:
            raise UnavailableError(f"{reply.failure}.", hint="vLLM failed while warming up; its log says why.")
        self.statistics()

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Hand the samples to the event loop."""
        self._loop.call_soon_threadsafe(self._begin, samples, reply)

    def statistics(self) -> EngineStatistics:
        """Return counts of answers since this was last asked, and what vLLM chose where the options left it open."""
        counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
        scheduler, cache, model = (getattr(self._config, f"{part}_config") for part in ("scheduler", "cache", "model"))
        return EngineStatistics(
            batching="vllm",
            samples=counts["answered"],
            extra={
                **counts,
                "max_num_seqs": scheduler.max_num_seqs,
                "max_num_batched_tokens": scheduler.max_num_batched_tokens,
                "kv_cache_dtype": str(cache.cache_dtype),
                "quantization": str(model.quantization or ""),
            },
        )

    async def _load(self) -> None:
        from vllm.v1.engine.async_llm import AsyncLLM

        self._sampling = sampling(self._program.decoding)
        self._llm = AsyncLLM.from_vllm_config(self._config, disable_log_stats=True)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._llm:
            self._llm.shutdown()
        self._llm = None

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the event loop, and wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _begin(self, samples: Samples, reply: Reply) -> None:
        """Start a task for each sample."""
        for place in range(len(samples)):
            part = samples if len(samples) == 1 else samples[place : place + 1]
            task = self._loop.create_task(self._answer(part, reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, sample: Samples, reply: Reply) -> None:
        """Answer a sample, or fail it."""
        try:
            tokens = await self._generate(sample, reply)
            answer = self._program.answer(tokens)
        except Exception as error:  # vLLM's and the workload's code; the task serves this sample alone
            self._counts["failed"] += 1
            reply.fail(sample, first_line(error))
            return
        self._counts["answered"] += 1
        self._counts["answer_tokens"] += len(tokens)
        reply.complete(sample, [answer], [len(answer)])

    async def _generate(self, sample: Samples, reply: Reply) -> list[int]:
        """Return the tokens of an answer, and report its first one.

        Raises:
            ValueError: the prompt is too long, or vLLM ends the answer without having finished it.
        """
        (data,) = sample.data()
        prompt = self._program.prompt(data)
        answer = GrowingAnswer(prompt, self._program.decoding)
        answer.check()
        if answer.is_over:
            reply.first_token(sample, np.array([answer.tokens[:1]], self._program.reply.dtype))
            return answer.tokens
        self._requests += 1
        asked = {"type": "token", "prompt_token_ids": prompt.tokens.tolist()}
        async with aclosing(self._llm.generate(asked, self._sampling, f"{self._requests}")) as parts:
            async for part in parts:  # left early, vLLM gives the request up
                (choice,) = part.outputs
                is_first = not answer.tokens
                answer.add(choice.token_ids, choice.finish_reason)
                if is_first and answer.tokens:
                    reply.first_token(sample, np.array([answer.tokens[:1]], self._program.reply.dtype))
                if answer.is_over:
                    break
        return answer.finished()


def sampling(decoding: Decoding) -> Any:
    """Return the rules of decoding as vLLM takes them: greedy, with these end tokens and no others."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=0,
        max_tokens=decoding.max_new_tokens,
        min_tokens=decoding.min_new_tokens,
        stop_token_ids=list(decoding.end_tokens),
        ignore_eos=True,  # that of the folder
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
