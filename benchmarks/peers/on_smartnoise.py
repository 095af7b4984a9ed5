"""SmartNoise SQL: AVG by its private reader, which bounds a unit's rows but not its categories."""

import pandas as pd
import snsql
from snsql import Privacy
from task import Answer, given, measure, truncated

task = given()
QUERY = "SELECT category, AVG(value) AS mean FROM data.rows GROUP BY category"
# Its ε is for each statistic; AVG is made of two, as get_privacy_cost confirms below.
STATISTICS = 2


def average(rows: pd.DataFrame, most: int, *, sample: bool) -> Answer:
    columns = {
        "max_ids": task.max_groups * most,
        "sample_max_ids": sample,
        "censor_dims": False,
        "clamp_columns": True,
        "unit": {"type": "int", "private_id": True},
        "category": {"type": "string"},
        # Centred, since its noise on a sum follows the largest value.
        "value": {
            "type": "float",
            "lower": task.lower - task.centre,
            "upper": task.upper - task.centre,
        },
    }
    reader = snsql.from_df(
        rows.assign(value=rows["value"] - task.centre),
        privacy=Privacy(epsilon=task.epsilon / STATISTICS, delta=task.delta),
        metadata={"": {"data": {"rows": columns}}},
    )
    cost, _ = reader.get_privacy_cost(QUERY)
    if cost > task.epsilon * (1 + 1e-9):
        raise ValueError(f"the query costs an ε of {cost}")
    table = reader.execute_df(QUERY)
    return task.ordered(
        {
            category: float(mean) + task.centre
            for category, mean in zip(table["category"], table["mean"], strict=True)
        }
    )


def own(rows: pd.DataFrame, most: int) -> Answer:
    return average(rows, most, sample=True)


def beforehand(rows: pd.DataFrame, most: int) -> Answer:
    return average(truncated(rows, task.max_groups, most), most, sample=False)


measure(
    task,
    task.frame(),
    {
        "Laplace, its own sample of rows": own,
        "Laplace, truncated beforehand": beforehand,
    },
)
