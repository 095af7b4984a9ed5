"""PyDP: Laplace noise, rows truncated beforehand, since it leaves that to its caller."""

import pandas as pd
from pydp.algorithms.laplacian import BoundedMean
from task import Answer, given, measure, truncated

task = given()


def bounded_mean(rows: pd.DataFrame, most: int) -> Answer:
    kept = truncated(rows, task.max_groups, most)
    values = {name: part.tolist() for name, part in kept.groupby("category")["value"]}
    return [
        BoundedMean(
            epsilon=task.epsilon,
            lower_bound=task.lower,
            upper_bound=task.upper,
            l0_sensitivity=task.max_groups,
            linf_sensitivity=most,
            dtype="float",
        ).quick_result(values.get(category, []))
        for category in task.categories
    ]


measure(task, task.frame(), {"Laplace, truncated beforehand": bounded_mean})
