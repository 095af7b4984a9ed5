"""Events, their costs, conversions, filters and planning: pure functions of numbers."""

from release.accounting.accountants import ACCOUNTANTS, Accountant, accountants_for
from release.accounting.budget import Budget, Charge, Spend, admits, delta_charge, replay
from release.accounting.conversions import (
    Best,
    edge_warning,
    epsilons,
    grid_epsilon,
    rdp_epsilon,
    zcdp_cap,
    zcdp_epsilon,
)
from release.accounting.curves import ORDERS
from release.accounting.events import Event
from release.accounting.exact import DELTA_UNITS, RHO_UNITS, AccountingError, Exact
from release.accounting.gaussian import gdp_cap, gdp_delta, gdp_epsilon
from release.accounting.mechanisms import (
    ApproximateDP,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    GaussianThreshold,
    Laplace,
    PoissonGaussian,
    PureDP,
    ZeroConcentrated,
)
from release.accounting.planning import (
    admissible_releases,
    epsilons_after,
    fits_exactly,
    per_release_charge,
    reach,
    rho_caps,
    share_cap,
)
from release.accounting.registry import (
    EVENTS,
    Composed,
    composed,
    event_from_json,
    event_from_text,
)

__all__ = [
    "ACCOUNTANTS",
    "DELTA_UNITS",
    "EVENTS",
    "ORDERS",
    "RHO_UNITS",
    "Accountant",
    "AccountingError",
    "ApproximateDP",
    "Best",
    "Budget",
    "Charge",
    "Composed",
    "DiscreteGaussian",
    "Event",
    "Exact",
    "Exponential",
    "Gaussian",
    "GaussianThreshold",
    "Laplace",
    "PoissonGaussian",
    "PureDP",
    "Spend",
    "ZeroConcentrated",
    "accountants_for",
    "admissible_releases",
    "admits",
    "composed",
    "delta_charge",
    "edge_warning",
    "epsilons",
    "epsilons_after",
    "event_from_json",
    "event_from_text",
    "fits_exactly",
    "gdp_cap",
    "gdp_delta",
    "gdp_epsilon",
    "grid_epsilon",
    "per_release_charge",
    "rdp_epsilon",
    "reach",
    "replay",
    "rho_caps",
    "share_cap",
    "zcdp_cap",
    "zcdp_epsilon",
]
