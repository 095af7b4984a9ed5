"""Makes the sample data: twelve weeks of ratings of a kitchen shop that does not exist.

No person, product or maker in it is real. The seed is fixed, so with the locked versions the
files come out byte for byte the same: ``make sample`` followed by ``git diff`` shows nothing.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HERE = Path(__file__).parent
SEED = 20260105
WEEKS = 12
START = np.datetime64("2026-01-05T00:00:00", "us")
HOUR = np.timedelta64(1, "h")
CLOCKS_GO_FORWARD = np.datetime64("2026-03-29T01:00:00", "us")

CUSTOMERS = 20_000
HEAVY = 300  # customers who rate dozens of times a week
RING = 40  # of those, the ones who rate one product again and again, always five
MISSING = {"customer_id": 0.004, "category": 0.006, "rating": 0.012}


@dataclass(frozen=True)
class Category:
    """One shelf of the shop: three makers who each sell the same eleven kinds of thing."""

    name: str
    mean_at_start: float
    mean_at_end: float
    makers: str
    kinds: str
    extra: str = ""

    def products(self) -> list[str]:
        made = [f"{m} {k}" for m in self.makers.split(", ") for k in self.kinds.split(", ")]
        return made + ([self.extra] if self.extra else [])


SHOP = (
    Category(
        "Baking", 4.2, 4.4, "Wheatley, Dovecote, Marlpit",
        "loaf tin, muffin tray, rolling pin, dough scraper, proving basket, cake ring, "
        "pastry brush, flour sieve, baking stone, piping set, cooling rack",
        extra="Crème brûlée torch",
    ),
    Category(
        "Coffee", 3.5, 4.3, "Alder, Northquay, Pip",
        "hand grinder, gooseneck kettle, pour-over cone, paper filters, stovetop pot, milk jug, "
        "tamper, knock box, cold brew bottle, espresso cups, bean canister",
    ),
    Category(
        "Tea", 4.1, 4.0, "Larkrise, Tarn, Willowmere",
        "glass teapot, iron teapot, infuser, tea caddy, strainer, whistling kettle, cosy, "
        "matcha whisk, lidded mug, tasting cups, honey dipper",
    ),
    Category(
        "Knives", 4.5, 4.3, "Harrowgate Forge, Sable, Kestrel",
        "chef's knife, paring knife, bread knife, santoku, boning knife, carving set, "
        "steak knives, honing steel, whetstone, magnetic rack, kitchen shears",
    ),
    Category(
        "Cookware", 4.0, 3.8, "Ironbridge Row, Copperline, Hob & Hearth",
        "skillet, sauté pan, stock pot, saucepan, casserole, wok, griddle, steamer, roasting tin, "
        "milk pan, splatter guard",
    ),
    Category(
        "Glassware", 3.7, 3.7, "Clearwater, Lumen, Fenland",
        "tumblers, wine glasses, carafe, highballs, coupes, shot glasses, beer mugs, mixing bowl, "
        "decanter, dessert bowls, water bottle",
    ),
    Category(
        "Storage", 3.9, 4.1, "Tidewell, Larder, Nook",
        "clip jars, bread bin, stacking boxes, spice rack, cereal box, lunch box, beeswax wraps, "
        "freezer tubs, egg tray, onion crock, drawer divider",
    ),
    Category(
        "Small appliances", 4.1, 3.4, "Quillon, Wrenfield, Hummingbird",
        "toaster, stick blender, food processor, slow cooker, rice cooker, stand mixer, "
        "electric kettle, sandwich press, ice cream maker, kitchen scale, soup maker",
    ),
    Category(
        "Tableware", 4.2, 4.1, "Potter's Yard, Saltmarsh, Elmstead",
        "dinner plates, side plates, pasta bowls, cutlery set, serving platter, gravy boat, "
        "butter dish, egg cups, salad servers, ramekins, cake stand",
        extra="Salt & pepper pair",
    ),
    Category(
        "Textiles", 3.8, 4.2, "Loomfield, Hazel, Bramblecroft",
        "tea towels, apron, oven gloves, napkins, tablecloth, table runner, placemats, "
        "dish cloths, pot holders, bread bag, seat pads",
    ),
    Category(
        "Spices", 4.3, 4.5, "Caravel, Saffron Lane, Ember",
        "smoked paprika, cumin seed, black peppercorns, cardamom pods, turmeric, chilli flakes, "
        "cinnamon sticks, curry blend, sea salt, vanilla pods, star anise",
        extra="Jalapeño flakes",
    ),
    Category(
        "Outdoor", 3.4, 4.1, "Wildgarth, Campion, Driftway",
        "picnic basket, camp stove, grill tongs, vacuum flask, fire pit, pizza oven, cool bag, "
        "skewers, enamel mug, folding table, charcoal starter",
        extra="Piñata party grill",
    ),
)  # fmt: skip

# What a product's popularity is multiplied by from each week to the next.
RISING = {
    "Alder gooseneck kettle": 1.13,
    "Wildgarth pizza oven": 1.17,
    "Ember chilli flakes": 1.12,
}
FALLING = {"Lumen coupes": 0.90, "Larkrise cosy": 0.93}
COLLAPSED = {"Hummingbird soup maker": (7, 0.08)}  # (from which week, to what part)
LAUNCHED = {"Wrenfield rice cooker": 5}  # in which week
RING_PRODUCT = "Nook onion crock"


@dataclass(frozen=True)
class Catalogue:
    """Every product, the shelf it stands on, and how it does from week to week."""

    names: list[str]
    shelf: Ints
    popularity: Floats  # (week, product), each week adding up to 1
    quality: Floats


class Ratings(NamedTuple):
    """The ratings, column by column; ``product`` is a place in the catalogue."""

    customer: NDArray[Any]
    product: NDArray[Any]
    rating: NDArray[Any]
    time: NDArray[Any]


def make_catalogue(rng: np.random.Generator) -> Catalogue:
    names = [name for category in SHOP for name in category.products()]
    shelf = np.repeat(np.arange(len(SHOP)), [len(category.products()) for category in SHOP])
    # A broad head and a long tail: rank r sells as (r + 29)^-2.8.
    base = (rng.permutation(len(names)) + 30.0) ** -2.8
    for name in [*RISING, *FALLING, *COLLAPSED, *LAUNCHED]:
        base[names.index(name)] = np.quantile(base, 0.97)
    weight = np.tile(base, (WEEKS, 1))
    for name, factor in (RISING | FALLING).items():
        weight[:, names.index(name)] *= factor ** np.arange(WEEKS)
    for name, (week, factor) in COLLAPSED.items():
        weight[week:, names.index(name)] *= factor
    for name, week in LAUNCHED.items():
        weight[:week, names.index(name)] = 0.0
        weight[week:, names.index(name)] *= 2.5
    return Catalogue(
        names=names,
        shelf=shelf,
        popularity=weight / weight.sum(axis=1, keepdims=True),
        quality=rng.normal(0.0, 0.2, len(names)),
    )


def make_times(rng: np.random.Generator, week: int, size: int) -> NDArray[np.datetime64]:
    """Local times in one week: busier in the evening and at the weekend."""
    by_day = np.array([0.12, 0.12, 0.13, 0.13, 0.14, 0.18, 0.18])
    by_hour = 0.15 + np.exp(-(((np.arange(24) - 20.0) / 3.0) ** 2))
    by_hour[8:19] += 0.4
    day = rng.choice(7, size, p=by_day)
    hour = rng.choice(24, size, p=by_hour / by_hour.sum())
    seconds = ((week * 7 + day) * 24 + hour) * 3600 + rng.integers(0, 3600, size)
    times = START + seconds.astype("timedelta64[s]")
    # This hour does not exist in London; the shop's clock said an hour more.
    skipped = (times >= CLOCKS_GO_FORWARD) & (times < CLOCKS_GO_FORWARD + HOUR)
    return np.where(skipped, times + HOUR, times)


def make_ratings(rng: np.random.Generator, catalogue: Catalogue) -> Ratings:
    ids = np.sort(rng.choice(np.arange(100_000, 1_000_000), CUSTOMERS, replace=False))
    who = rng.permutation(CUSTOMERS)
    heavy, ring = who[:HEAVY], who[:RING]
    rate = rng.gamma(1.3, 0.38, CUSTOMERS)  # expected ratings a week
    rate[heavy] = rng.gamma(6.0, 5.5, HEAVY)
    temper = rng.normal(0.0, 0.25, CUSTOMERS)
    means = np.linspace(
        [category.mean_at_start for category in SHOP],
        [category.mean_at_end for category in SHOP],
        WEEKS,
    )
    weeks = []
    for week in range(WEEKS):
        away = rng.random(CUSTOMERS) < 0.08
        customer = np.repeat(np.arange(CUSTOMERS), rng.poisson(np.where(away, 0.0, rate)))
        product = rng.choice(len(catalogue.names), customer.size, p=catalogue.popularity[week])
        hammered = np.isin(customer, ring) & (rng.random(customer.size) < 0.8)
        product[hammered] = catalogue.names.index(RING_PRODUCT)
        mean = means[week, catalogue.shelf[product]]
        mean = mean + catalogue.quality[product] + temper[customer]
        rating = 1 + rng.binomial(4, np.clip((mean - 1) / 4, 0.02, 0.98))
        rating[hammered] = 5
        weeks.append(Ratings(ids[customer], product, rating, make_times(rng, week, rating.size)))
    ratings = Ratings(*(np.concatenate(column) for column in zip(*weeks, strict=True)))
    order = np.argsort(ratings.time, kind="stable")
    return Ratings(*(column[order] for column in ratings))


def make_table(rng: np.random.Generator, catalogue: Catalogue, ratings: Ratings) -> pa.Table:
    gone = {column: rng.random(ratings.time.size) < share for column, share in MISSING.items()}
    product = np.array(catalogue.names, dtype=object)[ratings.product]
    shelves = np.array([category.name for category in SHOP], dtype=object)
    category = shelves[catalogue.shelf[ratings.product]]
    return pa.table(
        {
            "customer_id": pa.array(ratings.customer, pa.int32(), mask=gone["customer_id"]),
            "product": pa.array(product, pa.string()),
            "category": pa.array(category, pa.string(), mask=gone["category"]),
            "rating": pa.array(ratings.rating, pa.int8(), mask=gone["rating"]),
            "rated_at": pa.array(ratings.time, pa.timestamp("us")),
        }
    )


def write(catalogue: Catalogue, ratings: pa.Table) -> None:
    pq.write_table(
        ratings,
        HERE / "ratings.parquet",
        compression="zstd",
        compression_level=15,
        use_dictionary=["customer_id", "product", "category", "rating"],
        column_encoding={"rated_at": "DELTA_BINARY_PACKED"},
        row_group_size=ratings.num_rows,
    )
    with (HERE / "products.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["product"])
        rows.writerows([name] for name in sorted(catalogue.names))


def summarise(ratings: pa.Table) -> None:
    frame = ratings.to_pandas()
    week = frame.rated_at.dt.to_period("W-SUN")
    active = frame.groupby(week).customer_id.nunique()
    reach = frame.groupby([week, "product"]).customer_id.nunique()
    twentieth = reach.groupby(level=0).nlargest(20).groupby(level=0).min()
    size = (HERE / "ratings.parquet").stat().st_size
    print(f"{len(frame):,} ratings, {size:,} bytes, {frame['product'].nunique()} products sold")
    print(
        f"{frame.customer_id.nunique():,} customers, {active.min():,} to {active.max():,} a week"
    )
    print(f"customers of a week's best product: {reach.groupby(level=0).max().min()} at least")
    print(f"customers of a week's twentieth product: {twentieth.min()} at least")
    print("missing:", ", ".join(f"{column} {frame[column].isna().sum():,}" for column in MISSING))


def main() -> None:
    rng = np.random.default_rng(SEED)
    catalogue = make_catalogue(rng)
    ratings = make_table(rng, catalogue, make_ratings(rng, catalogue))
    write(catalogue, ratings)
    summarise(ratings)


if __name__ == "__main__":
    main()
