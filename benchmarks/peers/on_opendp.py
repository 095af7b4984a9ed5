"""OpenDP through its Polars interface, with a given set of keys, as its manual shows for means."""

from functools import partial
from typing import Any, Literal

import opendp.prelude as dp
import pandas as pd
import polars as pl
from opendp.extras.polars import Bound, LazyFrameQuery, Margin
from task import Answer, given, measure, truncated

dp.enable_features("contrib")
task = given()
KEYS = pl.LazyFrame({"category": task.categories})
MOST_ROWS = 1_000_000
REACH = task.upper - task.centre
# Centred, since its noise on a sum follows the largest value.
CENTRED = (pl.col("value") - task.centre).fill_nan(0.0).fill_null(0.0)


def mean(query: LazyFrameQuery) -> Answer:
    released: Any = (
        query.group_by("category")
        .agg(CENTRED.dp.mean((-REACH, REACH)).alias("mean"))
        .with_keys(KEYS)
        .release()
    )
    table = released.collect()
    return task.ordered(
        {
            category: value + task.centre
            for category, value in zip(table["category"], table["mean"], strict=True)
        }
    )


def query(rows: pd.DataFrame, unit: tuple[Any, Any]) -> Any:
    return dp.Context.compositor(
        data=pl.from_pandas(rows).lazy(),
        privacy_unit=unit,
        privacy_loss=dp.loss_of(epsilon=task.epsilon),
        split_evenly_over=1,
        margins=[Margin(by=["category"], max_length=MOST_ROWS)],
    ).query()


def own(rows: pd.DataFrame, most: int, keep: Literal["sample", "first"]) -> Answer:
    everything = query(rows, dp.unit_of(contributions=1, identifier="unit"))
    few = everything.truncate_per_group(most, by=["category"])
    return mean(few.truncate_num_groups(task.max_groups, by=["category"], keep=keep))


def beforehand(rows: pd.DataFrame, most: int) -> Answer:
    bound = Bound(by=["category"], per_group=most, num_groups=task.max_groups)
    kept = truncated(rows, task.max_groups, most)
    return mean(query(kept, dp.unit_of(contributions=[bound])))


measure(
    task,
    task.frame(),
    {
        "Laplace, its own truncation, a sample": partial(own, keep="sample"),
        "Laplace, its own truncation, the first": partial(own, keep="first"),
        "Laplace, truncated beforehand": beforehand,
    },
)
