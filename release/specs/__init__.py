"""What a project and its jobs ask for, as frozen values.

Each field's description says what is allowed there: a fault in a file quotes it. Nothing has a
default that could leak: privacy unit, groups, bounds and contribution bounds must be stated.
"""

from release.specs.conditions import Condition, Scalar
from release.specs.jobs import MAX_ROWS_PER_GROUP, Contribution, Job, Noise, Publish
from release.specs.projects import Budget, Dataset, Project
from release.specs.statistics import Count, Leaderboard, Mean, Scale, Statistic, Sum
from release.specs.values import (
    ASCII_SPACE,
    LATTICE_BITS,
    LEVELS,
    MAX_GROUPS,
    ONE,
    Discover,
    Key,
    Line,
    Spec,
    label,
    moderate,
    spellings,
    texts_of,
)

__all__ = [
    "ASCII_SPACE",
    "LATTICE_BITS",
    "LEVELS",
    "MAX_GROUPS",
    "MAX_ROWS_PER_GROUP",
    "ONE",
    "Budget",
    "Condition",
    "Contribution",
    "Count",
    "Dataset",
    "Discover",
    "Job",
    "Key",
    "Leaderboard",
    "Line",
    "Mean",
    "Noise",
    "Project",
    "Publish",
    "Scalar",
    "Scale",
    "Spec",
    "Statistic",
    "Sum",
    "label",
    "moderate",
    "spellings",
    "texts_of",
]
