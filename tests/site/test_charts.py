from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from release.site import charts
from release.site.charts import Estimate

NUMBERS = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, middle, high = sorted(draw(st.tuples(NUMBERS, NUMBERS, NUMBERS)))
    value = middle if draw(st.booleans()) else None
    return Estimate(draw(st.text(max_size=40)), value, low, high, "")


@given(st.lists(estimates(), min_size=1, max_size=8), st.booleans())
def test_marks_stand_on_the_plot_in_the_order_of_their_numbers(
    rows: list[Estimate],
    bars: bool,  # noqa: FBT001
) -> None:
    assume(all(row.upper - row.lower > 1e-3 for row in rows))
    chart = charts.intervals(rows, bars=bars)
    assert (chart.zero is not None) == bars
    for row, drawn in zip(rows, chart.rows, strict=True):
        assert (drawn.at is None) == (row.value is None)
        places = [drawn.low, drawn.high] if drawn.at is None else [drawn.low, drawn.at, drawn.high]
        assert places == sorted(places)
        assert all(0 <= place <= 100 for place in places)


@given(NUMBERS, NUMBERS)
def test_ticks_are_few_round_and_name_their_places(low: float, high: float) -> None:
    assume(high - low > 1e-6)
    chart = charts.intervals([Estimate("", low, low, high, "")], bars=False)
    values = [float(tick.text.replace(",", "")) for tick in chart.ticks]
    assert 2 <= len(values) <= 6
    assert values == sorted(set(values))
    assert values[0] - 1e-6 <= low
    assert high <= values[-1] + 1e-6
    steps = [after.at - before.at for before, after in pairwise(chart.ticks)]
    assert max(steps) - min(steps) <= 0.021  # places are rounded to hundredths


def test_equal_numbers_still_get_a_scale() -> None:
    assert charts.intervals([Estimate("", 3.0, 3.0, 3.0, "")], bars=False).rows[0].at == 50.0
    assert charts.intervals([Estimate("", 0.0, 0.0, 0.0, "")], bars=True).rows[0].at is not None


def test_a_series_breaks_where_a_window_was_refused_or_not_reliable() -> None:
    def week(value: float | None) -> list[Estimate]:
        return [Estimate("a", value, 1.0, 5.0, "" if value is None else f"{value}")]

    chart = charts.series([week(2), week(3), week(None), week(4), None], "first", "last")
    (panel,) = chart.panels
    assert [len(line.split()) for line in panel.lines] == [2, 1]
    assert [len(band.split()) for band in panel.bands] == [4, 2]
    assert [dot.text for dot in panel.dots] == ["2", "3", "4"]
    assert (panel.unreliable, panel.released) == (1, 4)
    assert chart.refused == (90.0,)


def test_a_series_says_how_many_groups_it_leaves_to_the_tables() -> None:
    week = [Estimate(f"{place}", 2.0, 1.0, 3.0, "2.0") for place in range(30)]
    chart = charts.series([week, week], "first", "last")
    assert len(chart.panels) == charts.MOST_PANELS
    assert chart.omitted == 30 - charts.MOST_PANELS


def test_a_series_leaves_out_the_groups_with_the_fewest_reliable_windows() -> None:
    def week(most: int) -> list[Estimate]:
        return [
            Estimate(f"{place:02}", 2.0 if place >= most else None, 1.0, 3.0, "")
            for place in reversed(range(30))
        ]

    chart = charts.series([week(2), week(4)], "first", "last")
    # The places are kept; of those with a value in every window the last by name go.
    assert [panel.label for panel in chart.panels] == [f"{place:02}" for place in range(27, 3, -1)]
    assert chart.omitted == 6


@given(st.lists(st.integers(0, 10**9), max_size=30))
def test_spending_climbs_to_its_level_and_never_above_the_cap(charges: list[int]) -> None:
    spent = [sum(charges[: place + 1]) for place in range(len(charges))]
    cap = spent[-1] if spent else 0
    chart = charts.budget(spent, [], cap, "1", "2")
    heights = [float(point.split(",")[1]) for point in chart.line.split()]
    assert heights == sorted(heights, reverse=True)
    assert chart.level == heights[-1] == (0.0 if cap else 100.0)
