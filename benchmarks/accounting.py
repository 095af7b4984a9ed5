"""Our ε by each formula beside other libraries', and the time each took.

Run as ``python -m benchmarks.accounting`` or ``python benchmarks/accounting.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from release.accounting import (
    ORDERS,
    RHO_UNITS,
    Budget,
    Charge,
    Composed,
    Event,
    Gaussian,
    Laplace,
    PoissonGaussian,
    Spend,
    epsilons_after,
    gdp_cap,
    gdp_epsilon,
    rdp_epsilon,
    replay,
    zcdp_cap,
    zcdp_epsilon,
)
from release.accounting.comparison import advanced_epsilon, basic_epsilon
from release.accounting.interop import pld_epsilon, to_dp_accounting

DELTA = Decimal("1e-6")
SETS: dict[str, Event] = {
    "52 weekly releases, σ = 22.36": Gaussian(1, 22.36, 52),
    "20 federated rounds, σ = 2": Gaussian(1, 2, 20),
    "DP-SGD, q = 0.01, z = 1.1, 1,000 steps": PoissonGaussian(0.01, 1.1, 1000),
    "Gaussian, Laplace and DP-SGD": Composed(
        (Gaussian(1, 10, 30), Laplace(1, 20, 10), PoissonGaussian(0.01, 1.1, 300))
    ),
}


def show(name: str, compute: Callable[[], float | None]) -> None:
    began = time.perf_counter()
    value = compute()
    took = 1e3 * (time.perf_counter() - began)
    shown = "does not apply" if value is None else f"{value:.9f}"
    print(f"  {name:28}{shown:>18}{took:12.3f} ms")


def google_rdp(event: Event) -> float:
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant([float(order) for order in ORDERS if order <= 1024])
    return float(accountant.compose(to_dp_accounting(event).event).get_epsilon(float(DELTA)))


def google_pld(event: Event) -> float:
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant().compose(to_dp_accounting(event).event)
    return float(accountant.get_epsilon(float(DELTA)))


def open_dp(event: Event) -> float | None:
    import opendp.prelude as dp

    rho = event.rho()
    if rho is None:
        return None
    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    noise = dp.m.make_gaussian(*space, scale=float(2 * rho) ** -0.5)
    return float(dp.c.make_zCDP_to_approxDP(noise).map(1.0).epsilon(float(DELTA)))


def compare(event: Event) -> None:
    spend = Spend().plus(event)
    rho = None if spend.rho is None else Fraction(spend.rho, RHO_UNITS)
    if rho is not None:
        show("zcdp", lambda: zcdp_epsilon(rho, DELTA))
    if rho is not None and spend.curve is None:
        show("rdp, any order", lambda: rdp_epsilon(rho, DELTA))
        show("gdp", lambda: gdp_epsilon(rho, DELTA))
    show("rdp with the curve", lambda: Spend().plus(event).epsilons(DELTA)["rdp"])
    show("rdp-classic", lambda: Spend().plus(event).epsilons(DELTA)["rdp-classic"])
    show("pld", lambda: pld_epsilon(event, DELTA))
    show("dp-accounting, RDP", lambda: google_rdp(event))
    show("dp-accounting, PLD", lambda: google_pld(event))
    show("OpenDP, zCDP", lambda: open_dp(event))
    show("basic composition", lambda: basic_epsilon(event, DELTA))
    show("advanced composition", lambda: advanced_epsilon(event, DELTA))


def charged(entries: int) -> float:
    """Charges so many Gaussian entries one by one and converts the sum."""
    budget, spent = Budget.open("gdp", 10, DELTA), 0
    for seq in range(entries):
        charge = budget.charge(Gaussian(1, 10_000 + seq % 1000))
        assert budget.admits(Charge(spent), charge)
        spent += charge.units
    return budget.spent_epsilon(spent)


def stored(entries: int) -> list[tuple[str, int]]:
    """So many rows as a ledger holds them, of a thousand different jobs."""
    budget = Budget.open("gdp", 10, DELTA)
    events = [Gaussian(1, 10_000 + job) for job in range(1000)]
    rows = [(json.dumps(event.to_json()), budget.charge(event).units) for event in events]
    return [rows[seq % len(rows)] for seq in range(entries)]


def main() -> None:
    import dp_accounting.pld
    import dp_accounting.rdp  # noqa: F401
    import opendp.prelude  # noqa: F401

    for name, event in SETS.items():
        print(f"{name}, δ = {DELTA}")
        compare(event)
    print("ours alone")
    show("gdp cap, ρ at ε = 1", lambda: gdp_cap(1, DELTA) / RHO_UNITS)
    show("zcdp cap, ρ at ε = 1", lambda: zcdp_cap(1, DELTA) / RHO_UNITS)
    show("ε after each of 520", lambda: list(epsilons_after(10**9, DELTA, 520))[-1]["gdp"])
    show("100,000 entries charged, ε", lambda: charged(100_000))
    rows = stored(1_000_000)
    show("1,000,000 rows replayed, ε", lambda: replay(rows).epsilons(DELTA)["gdp"])


if __name__ == "__main__":
    main()
