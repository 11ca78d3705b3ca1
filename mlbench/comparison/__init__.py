"""Whether two sets of numbers differ beyond noise. This package runs nothing and prints nothing.

The statistics take plain numbers, and work for those of any benchmark:

- `compare_values`: two sides, each a number per run by session, and the noise that the difference is judged by;
- `compare_pairs`: the same for runs of both sides that were interleaved;
- `judge_together`: verdicts on all numbers of a comparison, with one chance of a false alarm for all;
- `detectable_loss`: the smallest loss that such a comparison would have detected;
- `steps_in`: changes of the level of a long series;
- `mean_interval`, `is_bimodal`: a mean with its interval, and whether it means anything.

They are in `effect`, `spread`, `states`, `tested`, `verdicts`, `steps`, `sessions` and `readings`, which import nothing
of records. `speeds` is the one place where records become such numbers; `compare` and `history` begin there.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlbench.comparison.effect import Effect, detectable_loss, is_bimodal, mean_interval
    from mlbench.comparison.steps import steps_in
    from mlbench.comparison.tested import Tested, compare_pairs, compare_values
    from mlbench.comparison.verdicts import Decision, Number, SpeedVerdict, judge_together

from mlbench.contracts.lazy_names import lazy_names

__all__ = [
    "Decision",
    "Effect",
    "Number",
    "SpeedVerdict",
    "Tested",
    "compare_pairs",
    "compare_values",
    "detectable_loss",
    "is_bimodal",
    "judge_together",
    "mean_interval",
    "steps_in",
]

__getattr__ = lazy_names(globals())
