"""For each kind of statistic: which totals it needs, and how noisy totals become a table.

Everything here looks at noisy totals and public parameters only, so it is post-processing and
free. It runs after the noise is drawn, so nothing here may fail for one draw and not another:
every division is guarded by the comparison that makes its divisor positive, and all that is
rounded is rounded once, from exact rationals, intervals outward.

Intervals cover the noise at the stated level, over all releases. They bound the exact bounded
statistic; what the contribution bounds changed is stated beside them, in words. The proofs are
in docs/statistics.md.
"""

from release.statistics.kinds import STATISTICS, Statistic
from release.statistics.series import Series
from release.statistics.tables import Noisy, Row, RowStatus, Sigma, Table

__all__ = ["STATISTICS", "Noisy", "Row", "RowStatus", "Series", "Sigma", "Statistic", "Table"]
