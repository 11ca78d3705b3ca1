"""The sizes of a DLRM with a low-rank cross network; those of the official one are the defaults."""

from __future__ import annotations

from dataclasses import dataclass

DENSE_FEATURES = 13

# fmt: off
OFFICIAL_TABLE_ROWS = (
    40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282, 10, 2_209, 11_938,
    155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36,
)
OFFICIAL_HOT_SIZES = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
"""Number of indices of each categorical feature in every row."""
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Sizes that determine the weights.

    Source of the defaults: MLPerf Inference v4.1, recommendation/dlrm_v2.
    """

    table_rows: tuple[int, ...] = OFFICIAL_TABLE_ROWS
    hot_sizes: tuple[int, ...] = OFFICIAL_HOT_SIZES
    dimension: int = 128
    """Numbers in an embedding."""
    dense_layers: tuple[int, ...] = (512, 256, 128)
    """Ends in ``dimension``."""
    cross_layers: int = 3
    cross_rank: int = 512
    top_layers: tuple[int, ...] = (1024, 1024, 512, 256, 1)

    @property
    def table_bytes(self) -> int:
        """Size of all tables together, fp32."""
        return sum(self.table_rows) * self.dimension * 4


def cap_tables(largest: int) -> tuple[int, ...]:
    """Return the official number of rows of each table, or ``largest`` where that is less."""
    return tuple(min(rows, largest) for rows in OFFICIAL_TABLE_ROWS)
