from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from release.accounting import RHO_UNITS
from release.site import figures

AMOUNTS = st.floats(min_value=0, max_value=1e15, allow_nan=False)
PLACES = st.integers(min_value=0, max_value=12)


@given(AMOUNTS, PLACES)
def test_a_loss_is_never_shown_smaller_than_it_is(amount: float, places: int) -> None:
    shown = Fraction(figures.round_up(amount, places))
    assert Fraction(amount) <= shown < Fraction(amount) + Fraction(1, 10**places)


@given(AMOUNTS, PLACES)
def test_what_is_left_is_never_shown_greater_than_it_is(amount: float, places: int) -> None:
    shown = Fraction(figures.round_down(amount, places))
    assert Fraction(amount) - Fraction(1, 10**places) < shown <= Fraction(amount)


@given(st.decimals(min_value=0, max_value=10**6, places=9), PLACES)
def test_decimals_round_as_floats_do(amount: Decimal, places: int) -> None:
    assert Decimal(figures.round_up(amount, places)) >= amount
    assert Decimal(figures.round_down(amount, places)) <= amount
    assert "E" not in figures.round_up(amount, places)


@given(st.integers(min_value=0, max_value=10**20))
def test_rho_is_shown_exactly(units: int) -> None:
    assert Fraction(figures.rho(units)) == Fraction(units, RHO_UNITS)


@given(st.integers(min_value=0, max_value=10**14))
def test_rho_has_the_same_digits_in_json(units: int) -> None:
    assert Decimal(repr(figures.rho_number(units))) == Decimal(figures.rho(units))


@given(st.integers(0, 10**15), st.integers(1, 10**15))
def test_spent_and_left_round_apart(part: int, whole: int) -> None:
    exact = Fraction(100 * part, whole)
    assert Fraction(figures.percent_down(part, whole)) <= exact
    assert Fraction(figures.percent_up(part, whole)) >= exact


def test_a_budget_of_nothing_has_nothing_left() -> None:
    assert figures.percent_down(0, 0) == "0.0"


@given(
    st.integers(-(10**12), 10**12),
    st.integers(min_value=0, max_value=9),
)
def test_a_number_that_was_rounded_once_is_not_rounded_again(digits: int, decimals: int) -> None:
    figure = figures.fixed(digits / 10**decimals, decimals)
    assert Fraction(figure.raw) == Fraction(digits, 10**decimals)
    assert figure.text.replace(",", "") == figure.raw
    assert figure.number == digits / 10**decimals
    assert not figure.raw.startswith("-0") or digits


@pytest.mark.parametrize(
    ("value", "decimals", "raw", "text"),
    [
        (-0.0, 2, "0.00", "0.00"),
        (-0.001, 2, "0.00", "0.00"),
        (1234567.5, 1, "1234567.5", "1,234,567.5"),
        (-1234.0, 0, "-1234", "-1,234"),
    ],
)
def test_numbers_for_reading_are_grouped(value: float, decimals: int, raw: str, text: str) -> None:
    assert figures.fixed(value, decimals) == figures.Figure(raw, text)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("1.5", "1.5"),
        ("1.50", "1.5"),
        ("1e-6", "1e-6"),
        ("2.5E-7", "2.5e-7"),
        ("1E+2", "100"),
        ("0", "0"),
        ("0.001", "0.001"),
        ("-3", "-3"),
    ],
)
def test_parameters_are_shown_as_they_were_written(amount: str, text: str) -> None:
    assert figures.plain(Decimal(amount)) == text
    assert Decimal(text) == Decimal(amount)


def test_the_factor_is_rounded_up_and_left_out_where_it_means_nothing() -> None:
    assert figures.factor(Decimal("1.5")) == "4.49"  # e^1.5 = 4.4816…
    assert figures.factor(Decimal(0)) == "1.00"
    assert figures.factor(Decimal(11)) is None
