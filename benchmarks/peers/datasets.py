"""The rows on which products are compared: one set that is made, and one of real purchases."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

CHECKOUT = Path(__file__).resolve().parents[2]
SEED = 20_260_105
CATEGORIES = [f"Category {number:02}" for number in range(1, 41)]
# The departments that more than 400 of the households bought from. None of the others has so
# much as a tenth of the households, and at ε = 1 nobody's mean of them says anything.
DEPARTMENTS = [
    "GROCERY",
    "DRUG GM",
    "PRODUCE",
    "MEAT-PCKGD",
    "MEAT",
    "DELI",
    "PASTRY",
    "NUTRITION",
    "FUEL",
]


class AbsentError(Exception):
    """A data set that is not on this machine."""


@dataclass(frozen=True)
class Dataset:
    """Rows of ``unit``, ``category`` and ``value``, each value within the bounds."""

    title: str
    categories: list[str]
    lower: float
    upper: float
    rows: pd.DataFrame

    def means(self) -> list[float]:
        """The exact mean of all rows of each category, with no bound on what a unit adds."""
        found = self.rows.groupby("category")["value"].mean()
        return [float(found[category]) for category in self.categories]


def generated(size: int) -> Dataset:
    """Ratings from 1 to 5, of which the most active fifth of the users write about 70 %.

    A user's activity is Pareto with α = 1.16, cut where it comes to about a hundredth of all
    rows; there is a user for every 20 rows. Category k of 40 has a popularity of k^-0.8, times
    what each user makes of it: Gamma(½). A rating is its category's mean (2.6 to 4.4), plus the
    user's own leaning (of deviation 0.5), plus noise (of deviation 0.8), rounded.
    """
    draws = np.random.default_rng(SEED)
    users = size // 20
    activity = np.minimum(draws.pareto(1.16, users) + 1, users / 20)
    counts = draws.multinomial(size, activity / activity.sum())
    popularity = np.arange(1, len(CATEGORIES) + 1) ** -0.8
    taste = np.cumsum(popularity * draws.gamma(0.5, size=(len(counts), len(popularity))), axis=1)
    unit = np.repeat(np.arange(len(counts)), counts)
    point = draws.random(len(unit)) * taste[unit, -1]
    category = np.empty(len(unit), dtype=np.int64)
    for part in np.array_split(np.arange(len(unit)), max(1, len(unit) // 100_000)):
        category[part] = (taste[unit[part]] < point[part, None]).sum(axis=1)
    level = draws.permutation(np.linspace(2.6, 4.4, len(CATEGORIES)))
    leaning = draws.normal(0, 0.5, len(counts))
    rating = level[category] + leaning[unit] + draws.normal(0, 0.8, len(unit))
    rows = pd.DataFrame(
        {
            "unit": unit,
            "category": np.array(CATEGORIES)[category],
            "value": np.clip(np.rint(rating), 1, 5),
        }
    )
    title = f"Generated: {len(rows):,} ratings by {np.count_nonzero(counts):,} users"
    return Dataset(title, CATEGORIES, 1, 5, rows.iloc[draws.permutation(len(rows))])


def households() -> Dataset:
    """The part of the shelf price that was paid, by department, for the purchases of a year.

    It lies between 0 and 1 by nature. Purchases of which either price is 0 are left out.
    """
    root = Path(os.environ.get("DP_RELEASE_DATA", CHECKOUT.parent / "shared" / "data"))
    path = root / "households" / "transactions.csv.gz"
    if not path.is_file():
        raise AbsentError(f"{path.name} is not in the folder that DP_RELEASE_DATA names")
    bought = pd.read_csv(path)
    shelf = bought["sales_value"] + bought["retail_disc"]
    bought = bought.assign(value=bought["sales_value"] / shelf)
    listed = bought["department"].isin(DEPARTMENTS) & (shelf > 0)
    rows = bought[listed].rename(columns={"household_id": "unit", "department": "category"})
    rows = rows[["unit", "category", "value"]].reset_index(drop=True)
    title = f"Households: {len(rows):,} purchases by {rows['unit'].nunique():,} households"
    return Dataset(title, DEPARTMENTS, 0, 1, rows)


DATASETS: Mapping[str, Callable[[int], Dataset]] = {
    "generated": generated,
    "households": lambda _: households(),
}
