"""A plugin of one backend that works."""

RIGHT = """
from mlbench import Backend, Probe, hookimpl

class Quick(Backend):
    name = "quick"
    def probe(self):
        return Probe(is_available=True, rank=1000)
    def engine(self, model, plan):
        raise NotImplementedError

@hookimpl
def mlbench_backends():
    return [Quick()]
"""
