"""Columns of a source as unit, keys, time and value: rules on one row, refusals by type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from release.errors import SourceError
from release.specs import Condition, Dataset, spellings

if TYPE_CHECKING:
    import ibis.expr.types as ir

KEY_COLUMN = "dp_key_"
ASCII_NUMBER = r"^[ \t]*[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?[ \t]*$"
# The commonest first: the rest are tried only where it does not fit.
ISO_FORMATS = (
    *(f"%Y-%m-%d{mark}%H:%M{rest}" for rest in (":%S", ":%S.%f", "") for mark in " T"),
    "%Y-%m-%d",
)


@dataclass(frozen=True)
class Wanted:
    """What a job needs of each row, beside whose it is and when it happened."""

    by: tuple[str, ...]
    value: str | None = None
    where: tuple[Condition, ...] = ()

    def columns(self, dataset: Dataset) -> list[str]:
        """Every column of the source that is read, once."""
        value = [] if self.value is None else [self.value]
        compared = [condition.column for condition in self.where]
        return list(dict.fromkeys([dataset.unit, *self.by, dataset.time, *value, *compared]))


def shaped(
    raw: ir.Table, wanted: Wanted, dataset: Dataset, where: str, *, textual: bool
) -> ir.Table:
    """The rows that have all that is ``wanted``, as the columns that all sources have.

    ``textual`` says that the format knows text only, so that numbers are written in it. Raises
    SourceError for a column of a type that will not do.
    """
    columns = {
        "dp_unit": _unit(raw[dataset.unit], where),
        **{key_column(i): _key(raw[name], where) for i, name in enumerate(wanted.by)},
        "dp_time": _time(raw[dataset.time], dataset, where),
    }
    if wanted.value is not None:
        value = raw[wanted.value]
        columns["dp_value"] = _number(value, where, "a value", "`value`", textual=textual)
    fixed = list(columns)
    for place, condition in enumerate(wanted.where):
        compared = _compared(raw[condition.column], condition, where, textual=textual)
        columns[_condition(place)] = compared
    table = raw.select(**columns)
    # First, so that no comparison below meets a missing value, which engines treat differently.
    table = table.filter(*(table[name].notnull() for name in columns))
    for place, condition in enumerate(wanted.where):
        table = table.filter(_passes(table[_condition(place)], condition))
    return table.select(*fixed)


def key_column(place: int) -> str:
    """The name that the column of that place in `by` has in every source."""
    return f"{KEY_COLUMN}{place}"


def is_key_column(name: str) -> bool:
    """Whether a column is one that groups are named in."""
    return name.startswith(KEY_COLUMN)


def _condition(place: int) -> str:
    return f"dp_where_{place}"


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


def _number(column: ir.Column, where: str, what: str, key: str, *, textual: bool) -> ir.Column:
    import ibis

    kind = column.type()
    if kind.is_decimal():
        # By its digits, to the nearest double: an engine's own cast may be a bit off it.
        return column.cast("string").cast("float64")
    if kind.is_numeric():
        return _finite(column.cast("float64"))
    if kind.is_string() and textual:
        number = ibis.ifelse(column.re_search(ASCII_NUMBER), column, ibis.null("string"))
        return _finite(number.cast("float64"))
    hint = f"Name another column in {key}."
    raise _refused(where, column, f"{what} is a number", hint)


def _compared(column: ir.Column, condition: Condition, where: str, *, textual: bool) -> ir.Column:
    """What a condition looks at in a row; NULL where the row has nothing of the kind."""
    kind = column.type()
    match condition.kind:
        case "number":
            what = "what is compared with a number"
            return _number(column, where, what, "`where`", textual=textual)
        case "text" if kind.is_string():
            return column.strip().nullif("")
        case "truth" if kind.is_boolean():
            return column
        case "truth" if kind.is_string() and textual:
            return column.strip().lower().cases(("true", True), ("false", False))
    what = "text" if condition.kind == "text" else "true or false"
    must = f"what is compared with {what} is {what}"
    raise _refused(where, column, must, "Compare with another `value`, or name another `column`.")


def _passes(compared: ir.Column, condition: Condition) -> ir.Column:
    values = _values(condition)
    match condition.operator:
        case "<":
            return compared < values[0]
        case "<=":
            return compared <= values[0]
        case ">":
            return compared > values[0]
        case ">=":
            return compared >= values[0]
        case "=" | "in":
            return compared.isin(values)
        case "!=" | "not in":
            return compared.notin(values)


def _values(condition: Condition) -> list[Any]:
    """What to compare with, as the column holds it."""
    if condition.kind == "text":
        return [form for text in condition.values for form in spellings(str(text))]
    if condition.kind == "number":
        return [double(float(number)) for number in condition.values]
    return list(condition.values)


def double(number: float) -> ir.Scalar:
    """A finite number for the engine, to the last bit: a plain literal is a decimal to some."""
    import ibis

    return ibis.literal(repr(number)).cast("float64")


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
