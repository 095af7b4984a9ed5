"""Tumult Analytics on a local Spark, with a key set and its own contribution bounding."""

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from task import Answer, given, measure
from tmlt.analytics import (
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)

task = given()
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.memory", "4g")
    .config("spark.sql.shuffle.partitions", "4")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
keys = KeySet.from_dict({"category": task.categories})


def average(data: DataFrame, most: int) -> Answer:
    session = Session.from_dataframe(
        privacy_budget=PureDPBudget(task.epsilon),
        source_id="rows",
        dataframe=data,
        protected_change=AddRowsWithID("unit"),
    )
    query = (
        QueryBuilder("rows")
        .enforce(MaxRowsPerGroupPerID("category", most))
        .enforce(MaxGroupsPerID("category", task.max_groups))
        .groupby(keys)
        .average("value", low=task.lower, high=task.upper, name="mean")
    )
    table = session.evaluate(query, PureDPBudget(task.epsilon)).toPandas()
    return task.ordered(dict(zip(table["category"], table["mean"], strict=True)))


loaded = spark.read.parquet(task.rows).cache()
loaded.count()


def release(rows: pd.DataFrame, most: int) -> Answer:
    del rows  # Spark reads the file itself
    return average(loaded, most)


measure(task, task.frame(), {"Laplace": release})
spark.stop()
