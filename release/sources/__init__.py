"""Where rows come from: an Ibis table of a fixed shape, and a fence that no value gets through.

Whatever the source, the table has these columns, and holds only the rows that have a unit, a
key, a time and (where one is asked for) a finite value, and that pass every condition. Whether a
row is left out is decided by that row alone.

===========  ======================================================================
dp_unit      the privacy unit: a whole number, text, or a finite double
dp_key_0, …  the group's texts, without the ASCII white space around them
dp_time      when it happened: with a zone, as the local clock read, or a date
dp_value     the value as a finite double (only where one is asked for)
===========  ======================================================================

A source's schema (the names and types of its columns) is public; its rows are not. So a wrong
schema is an error that says what to change, and a row that does not fit is left out in silence:
an error about a row would tell something of it. What a text file's first line or fields are is
not quoted either, since a file without a header begins with a row.

A line of NDJSON is a row, whatever is on it. A record of CSV may span lines inside quotes, so it
is a row of its own only where its quotes are balanced, as every writer of CSV sees to.
"""

from release.sources.columns import Wanted, double, is_key_column, key_column
from release.sources.rows import Rows, fence, open_rows

__all__ = ["Rows", "Wanted", "double", "fence", "is_key_column", "key_column", "open_rows"]
