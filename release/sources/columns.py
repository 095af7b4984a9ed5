"""Columns of a source as unit, key, time and value: rules on one row, refusals by type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from release.errors import SourceError
from release.specs import Dataset

if TYPE_CHECKING:
    import ibis.expr.types as ir

ASCII_NUMBER = r"^[ \t]*[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?[ \t]*$"
# The commonest first: the rest are tried only where it does not fit.
ISO_FORMATS = (
    *(f"%Y-%m-%d{mark}%H:%M{rest}" for rest in (":%S", ":%S.%f", "") for mark in " T"),
    "%Y-%m-%d",
)


def shaped(
    raw: ir.Table, wanted: dict[str, str], dataset: Dataset, where: str, *, textual: bool
) -> ir.Table:
    """The rows that have all that is ``wanted``, as the columns that all sources have.

    ``textual`` says that the format knows text only, so that numbers are written in it. Raises
    SourceError for a column of a type that will not do.
    """
    columns = {
        "dp_unit": _unit(raw[wanted["unit"]], where),
        "dp_key": _key(raw[wanted["key"]], where),
        "dp_time": _time(raw[wanted["time"]], dataset, where),
    }
    if "value" in wanted:
        columns["dp_value"] = _value(raw[wanted["value"]], where, textual=textual)
    table = raw.select(**columns)
    return table.filter(*(table[name].notnull() for name in columns))


def _refused(where: str, column: ir.Column, must: str, hint: str) -> SourceError:
    return SourceError(
        f"{where}: column {column.get_name()!r} is {column.type()}; {must}", hint=hint
    )


def _unit(column: ir.Column, where: str) -> ir.Column:
    kind = column.type()
    if kind.is_integer() or kind.is_uuid():
        return column
    if kind.is_string():
        return column.nullif("")
    if kind.is_floating():
        number = column.cast("float64")
        # Adding zero makes one unit of 0.0 and -0.0 on every engine.
        return _finite(number) + 0.0
    raise _refused(
        where, column, "a privacy unit is a whole number or text", "Name another column as `unit`."
    )


def _key(column: ir.Column, where: str) -> ir.Column:
    kind = column.type()
    if kind.is_string():
        return column.strip().nullif("")
    if kind.is_integer():
        return column.cast("string")
    raise _refused(
        where, column, "groups are text or whole numbers", "Name another column in `by`."
    )


def _value(column: ir.Column, where: str, *, textual: bool) -> ir.Column:
    import ibis

    kind = column.type()
    if kind.is_numeric():
        return _finite(column.cast("float64"))
    if kind.is_string() and textual:
        number = ibis.ifelse(column.re_search(ASCII_NUMBER), column, ibis.null("string"))
        return _finite(number.cast("float64"))
    raise _refused(where, column, "a value is a number", "Name another column as `value`.")


def _finite(number: ir.Column) -> ir.Column:
    # Not isnan or isinf, which engines disagree about; and no comparison with a bound, which an
    # engine takes for true where a file's statistics, made without its NaNs, say that it is.
    import ibis

    return ibis.ifelse(number - number == 0.0, number, ibis.null("float64"))


def _time(column: ir.Column, dataset: Dataset, where: str) -> ir.Column:
    kind = column.type()
    if kind.is_timestamp():
        # The engine turns seconds and milliseconds into microseconds, and fails for a row whose
        # time then overflows.
        if kind.scale in {0, 3}:
            raise _refused(
                where, column, "times are read in microseconds", "Keep them in microseconds."
            )
        return column
    if kind.is_date():
        return column  # dates reach further than timestamps, so a cast could fail for one row
    if kind.is_string() and dataset.time_format is not None:
        return _read_time(column, dataset, dataset.time_format, where)
    if kind.is_string():
        raise _refused(
            where,
            column,
            "how to read a time from it must be declared",
            f'Add `time_format = "iso"`, or a pattern such as "%d/%m/%Y %H:%M", '
            f"to [dataset.{dataset.name}].",
        )
    raise _refused(
        where, column, "a time is a timestamp, a date or text", "Name another column as `time`."
    )


def _read_time(column: ir.Column, dataset: Dataset, pattern: str, where: str) -> ir.Column:
    import duckdb
    import ibis

    if pattern == "iso":
        # An offset makes an instant of a row's time, whose local clock reading is then taken.
        offset = tuple(f"{form}%z" for form in ISO_FORMATS if "%H" in form)
        local = _clock(dataset.time_zone, _parsed(column, offset, zoned=True))
        return ibis.coalesce(_parsed(column, ISO_FORMATS, zoned=False), local)
    kind = "SELECT typeof(try_strptime('', ?))"
    try:
        (found,) = column.get_backend().con.execute(kind, [pattern]).fetchone()
    except duckdb.Error:
        found = None
    if found is None:
        raise SourceError(
            f"{where}: {pattern!r} is not a pattern for times",
            hint=f"Mend `time_format` of [dataset.{dataset.name}].",
        )
    return _parsed(column, (pattern,), zoned=found == "TIMESTAMP WITH TIME ZONE")


def _parsed(column: ir.Column, formats: Sequence[str], *, zoned: bool) -> ir.Column:
    import ibis

    kind = "timestamp('UTC')" if zoned else "timestamp"

    @ibis.udf.scalar.builtin(  # type: ignore[untyped-decorator]
        name="try_strptime", signature=(("string", "string"), kind)
    )
    def parsed(text: Any, pattern: Any) -> Any:
        """The engine's own reading, NULL where the text does not fit."""

    if zoned:
        column = column.re_replace(r"Z\s*$", "+00:00")
    return ibis.coalesce(*(parsed(column, form) for form in formats))


def _clock(zone: str, instant: ir.Column) -> ir.Column:
    import ibis

    @ibis.udf.scalar.builtin(  # type: ignore[untyped-decorator]
        name="timezone", signature=(("string", "timestamp('UTC')"), "timestamp")
    )
    def timezone(zone: Any, instant: Any) -> Any:
        """What the clocks of a zone read at an instant."""

    return timezone(zone, instant)
