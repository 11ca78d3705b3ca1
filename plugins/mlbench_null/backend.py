"""The null backend: answers every sample with zeros or arbitrary tokens, at once or at a set speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlbench import Backend, Precision, Probe
from mlbench_null.options import NullOptions

if TYPE_CHECKING:
    from mlbench import Engine, EnginePlan, Model


class Null(Backend):
    """Answers in the right form without computing: misses every accuracy target, and shows mlbench's overhead."""

    name = "null"
    title = "answers zeros without computing: measures mlbench's overhead"
    computes_answers = False
    options = NullOptions()

    def probe(self) -> Probe:
        """Report that it runs anywhere, and is never the default."""
        return Probe(is_available=True, devices=("none",), precisions=(Precision.FP32,), rank=-100)

    def engine(self, model: Model, plan: EnginePlan) -> Engine:
        """Return an engine that answers in the model's form; it ignores graphs, batching and precision."""
        from mlbench import GenerationProgram
        from mlbench_null.engine import DelayedEngine, NullEngine, Script
        from mlbench_null.queue import Queue
        from mlbench_null.scripts import TokenStream, Zeros

        options = self.options
        delay_ns, token_ns = round(options.delay_ms * 1e6), round(options.token_ms * 1e6)
        script: Script = Zeros(model.program.reply, delay_ns)
        if isinstance(model.program, GenerationProgram):
            most, fewest = options.most_tokens, options.tokens
            script = TokenStream(model.program, fewest=fewest, most=most, delay_ns=delay_ns, token_ns=token_ns)
        if options.service_ms:
            mean_ns, spread, wobble = options.service_ms * 1e6, options.service_spread, options.service_wobble
            return DelayedEngine(Queue(script, mean_ns=mean_ns, spread=spread, wobble=wobble))
        return DelayedEngine(script) if delay_ns or token_ns else NullEngine(script)
