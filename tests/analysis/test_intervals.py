"""Intervals: against a plain bootstrap, what must not move them, and where there are none."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import iscope
from iscope.analysis import intervals as figures
from iscope.analysis.intervals import LISTED, Clusters, Weighed, closed
from iscope.analysis.intervals.bootstrap import REPLICATES, Columns, draws, interval, intervals, resampled, student
from iscope.analysis.intervals.clusters import MOST_BLOCKS, cluster_codes
from iscope.analysis.intervals.statistics import Statistic
from iscope.analysis.numbers import Scaled, first_places
from iscope.analysis.parts import MOST_BOUNDED, Parts
from iscope.model import Figure
from tests.reference import bootstrap as reference

RANDOM = np.random.default_rng(5)
STATISTICS = {
    Statistic.QUOTIENT: lambda a, b: a / b,
    Statistic.QUOTIENTS: lambda a, b, c, d: a / b * c / d,
    Statistic.DIFFERENCE: lambda a, b, c, d: a / b - c / d,
    Statistic.SIZE: lambda a, b: a**2 / b,
    Statistic.SIZE_SHARE: lambda a, b, c: a**2 / b / c,
}
SUMS = {statistic: plain.__code__.co_argcount for statistic, plain in STATISTICS.items()}


def skewed(blocks, columns=2):
    return np.random.default_rng(blocks).lognormal(0.0, 0.3, (blocks, columns))


def ratio(*arguments):
    """One figure, its interval found with no others."""
    return closed(figures.ratio(*arguments))


def fraction(*arguments):
    return closed(figures.fraction(*arguments))


def log_ratio(clusters, part, whole, why):
    return closed(figures.weight_ratio(*(Weighed.over(clusters, one)[0][0] for one in (part, whole)), why))


def log_size(clusters, weights):
    (weighed,), squares = Weighed.over(clusters, weights)
    return closed(figures.log_size(weighed, squares))


def together(sums, statistic):
    """Intervals of figures from sums [k, F, B], None where there is none."""
    of = np.arange(sums.shape[0] * sums.shape[1]).reshape(sums.shape[:2]).T
    found = intervals(Columns.of(sums.reshape(-1, sums.shape[2])), of, statistic)
    return [None if math.isnan(low) else (low, high) for low, high in found.tolist()]


def each(count):
    return Clusters.of(np.arange(count))


@pytest.mark.parametrize("blocks", [10, 12, 40])
@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_against_a_plain_bootstrap(blocks, statistic):
    table = skewed(blocks, SUMS[statistic])
    if statistic is Statistic.SIZE:
        table[:, 1] = table[:, 0] ** 2
    expected = reference.interval(table.tolist(), STATISTICS[statistic], draws(blocks).astype(int).tolist())
    low, high = interval(table, statistic)
    assert [low, high] == pytest.approx(expected, abs=2e-3 * (high - low))


def mixed(count, blocks, columns):
    """Sums [k, F, B] of ordinary figures, of one without an interval, and of one that never moves."""
    sums = np.random.default_rng(count).lognormal(0.0, 0.5, (columns, count, blocks))
    sums[0, 1, 3] = 1e9  # one block decides it
    sums[:, 2] = 1.5
    sums[0, 3, 0] = np.nan
    sums[-1, 4, 1:] = 0.0
    return sums


@pytest.mark.parametrize("count", [5, 40, 300])
@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_figures_together_have_the_intervals_that_each_has_alone(count, statistic):
    sums = mixed(count, 20, SUMS[statistic])
    found = together(sums, statistic)
    assert found == [interval(sums[:, place].T, statistic) for place in range(count)]
    assert found[1] is None
    assert found[3] is None
    assert found[2][0] == found[2][1]


def test_figures_together_against_a_plain_bootstrap():
    sums = np.random.default_rng(3).lognormal(0.0, 0.3, (2, 6, 14))
    times = draws(14).astype(int).tolist()
    for place, (low, high) in enumerate(together(sums, Statistic.QUOTIENT)):
        expected = reference.interval(sums[:, place].T.tolist(), lambda part, whole: part / whole, times)
        assert [low, high] == pytest.approx(expected, abs=2e-3 * (high - low))


def test_fewer_than_ten_blocks_have_no_interval():
    assert interval(np.ones((9, 2)), Statistic.QUOTIENT) is None
    assert ratio(each(9), RANDOM.random(9), np.ones(9)).low is None


@pytest.mark.parametrize("columns", [3, 40])
def test_many_columns_are_summed_as_each_is(columns):
    table = np.random.default_rng(columns).lognormal(0.0, 2.0, (columns, 50))
    table[-1] = table[0]
    each_alone = np.concatenate([resampled(column[None]) for column in table])
    assert (resampled(table) == each_alone).all()


@pytest.mark.parametrize("freedom", [9, 11, 30, 2047])
def test_student(freedom):
    assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=3e-4)


def test_every_draw_takes_as_many_blocks_as_there_are():
    assert draws(37).shape == (REPLICATES, 37)
    assert (draws(37).sum(axis=1) == 37).all()
    assert draws(37).mean() == 1
    assert draws(37).var() == pytest.approx(36 / 37, rel=0.05)  # of a multinomial count


def test_replicates_are_exact_sums_whatever_their_order():
    table = skewed(200, 3) * [1e-300, 1.0, 1e300]
    order = RANDOM.permutation(200)
    shifts = 44 - np.frexp(table.max(axis=0))[1]
    rounded = np.rint(np.ldexp(table, shifts))
    whole = np.array([[int(x) for x in row] for row in rounded], dtype=object)
    exact = draws(200)[:5].astype(int).astype(object) @ whole
    found = resampled(np.ascontiguousarray(table.T)).T
    assert (found[:5] == np.ldexp(exact.astype(float), -shifts)).all()
    assert (np.ldexp(draws(200)[:, order] @ rounded[order], -shifts) == found).all()
    assert found == pytest.approx(draws(200) @ table, rel=1e-11)


def test_rows_of_one_group_are_resampled_together():
    values = np.repeat(RANDOM.lognormal(0, 1, 30), 50)
    alone, grouped = (
        ratio(clusters, values, np.ones(1500)) for clusters in (each(1500), Clusters.of(np.arange(1500) // 50))
    )
    assert grouped.high - grouped.low > 5 * (alone.high - alone.low)  # about the square root of 50 times as wide


def test_rows_without_a_group_are_on_their_own():
    frame = pl.DataFrame({"group_id": ["b", None, "a", "b", None, "a"]})
    assert cluster_codes(frame).tolist() == [0, 1, 2, 0, 4, 2]
    assert cluster_codes(pl.DataFrame({"n": [1, 2, 3]})).tolist() == [0, 1, 2]


def test_blocks_are_numbered_as_clusters_appear_and_unions_are_even():
    assert Clusters.of(np.array([7, 3, 7, 9])).block.tolist() == [0, 1, 0, 2]
    many = Clusters.of(np.arange(10 * MOST_BLOCKS + 5))
    sizes = np.bincount(many.block)
    assert (many.count, many.each) == (MOST_BLOCKS, 10 * MOST_BLOCKS + 5)
    assert set(sizes.tolist()) == {10, 11}


def test_unions_give_the_same_spread():
    values = RANDOM.lognormal(0, 1, 40 * MOST_BLOCKS)
    found = ratio(each(values.size), values, np.ones_like(values))
    expected = 2 * 1.96 * values.std() / math.sqrt(values.size)
    assert found.high - found.low == pytest.approx(expected, rel=0.12)


def test_fewer_than_ten_clusters_have_none():
    for count, there in ((1, False), (9, False), (10, True)):
        found = ratio(each(count), RANDOM.random(count), np.ones(count))
        assert found.value is not None
        assert (found.low is not None) is there


def test_equal_clusters_have_an_interval_of_one_point():
    found = ratio(each(25), np.full(25, 0.3), np.full(25, 7))
    assert (found.low, found.high) == (found.value, found.value)
    assert log_size(each(25), Scaled(np.zeros(25))) == Figure(25.0, 25.0, 25.0)


def test_a_share_of_none_or_all_has_none():
    ones = np.ones(50)
    assert fraction(each(50), 0 * ones, ones) == Figure(0.0)
    assert fraction(each(50), ones, ones) == Figure(1.0)
    half = fraction(each(50), np.arange(50) < 25, ones)
    assert half.low < 0.5 < half.high


def test_one_cluster_that_decides_has_none():
    weights = np.ones(60)
    weights[7] = 1e6
    assert ratio(each(60), weights, np.ones(60)) == Figure(weights.mean())
    assert log_size(each(60), Scaled(np.log(weights))).low is None


def test_replicates_without_a_whole():
    whole = np.zeros(40)
    whole[:2] = 1  # every seventh draw takes neither
    assert ratio(each(40), whole * RANDOM.random(40), whole).low is None
    assert ratio(each(40), whole, 0 * whole, "empty") == Figure.absent("empty")


def test_logs_that_leave_float64():
    logs = RANDOM.normal(0, 0.3, 50)
    plain, far = (log_ratio(each(50), Scaled(logs + by), Scaled(np.zeros(50) + by), "") for by in (0.0, 800.0))
    assert (far.value, far.low, far.high) == pytest.approx((plain.value, plain.low, plain.high), rel=1e-9)
    gone = log_ratio(each(50), Scaled(logs + 800), Scaled(np.zeros(50)), "")
    assert (gone.value, gone.low, gone.log10) == (None, None, pytest.approx(800 / math.log(10), rel=0.01))
    assert log_size(each(50), Scaled(logs + 800)).low == pytest.approx(log_size(each(50), Scaled(logs)).low)
    assert log_size(each(50), Scaled(np.full(50, -np.inf))) == Figure(0.0)


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.integers(0, 5)), min_size=1, max_size=40))
def test_an_interval_holds_its_value_or_is_absent(rows):
    values, counts = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    with np.errstate(over="ignore"):
        found = ratio(each(len(rows)), values, counts)
    if found.low is not None:
        assert found.low <= found.value <= found.high


def ratios_of_parts(parts, part, whole):
    return closed(parts.ratios(*parts.sums_of([part, whole])))


def test_parts_have_their_own_intervals():
    key = pl.Series(["a"] * 30 + ["b"] * 5 + ["c"] * 40)
    values, ones = np.random.default_rng(1).lognormal(0, 0.4, 75), np.ones(75)
    first, few, last = ratios_of_parts(Parts.of(key, np.arange(75)), values, ones)
    for found, rows in ((first, slice(30)), (last, slice(35, 75))):
        alone = ratio(each(values[rows].size), values[rows], ones[rows])
        assert (found.value, found.low, found.high) == pytest.approx((alone.value, alone.low, alone.high), rel=1e-12)
    assert few.low is None
    many = np.arange(20 * (MOST_BOUNDED + 1))
    parts = Parts.of(pl.Series(many // 20), many)
    assert all(found.low is None for found in ratios_of_parts(parts, many, np.ones_like(many)))


def test_parts_bound_figures_of_several_kinds_together():
    random = np.random.default_rng(2)
    key = pl.Series(np.repeat(["few", "many", "more"], [5, 300, 40]))
    group = np.repeat(np.arange(115), 3)
    logs, others = random.normal(0, 0.5, 345), random.normal(-0.2, 0.5, 345)
    parts = Parts.of(key, group)
    (weights,), squares = parts.weighed(Scaled(logs))
    (whole,), of_others = parts.weighed(Scaled(others))
    sizes, left, base = closed(
        [
            parts.effective_sizes(weights, squares),
            parts.weight_ratios(weights, whole, ""),
            parts.effective_sizes(whole, of_others),
        ]
    )
    for place, rows in enumerate((slice(5), slice(5, 305), slice(305, 345))):
        clusters = Clusters.of(group[rows] - group[rows][0])
        alone = [
            log_size(clusters, Scaled(logs[rows])),
            log_ratio(clusters, Scaled(logs[rows]), Scaled(others[rows]), ""),
        ]
        alone.append(log_size(clusters, Scaled(others[rows])))
        for found, expected in zip((sizes[place], left[place], base[place]), alone, strict=True):
            assert found.value == pytest.approx(expected.value, rel=1e-12)
            assert (found.low is None) is (expected.low is None) is (place == 0)
            if expected.low is not None:
                assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_parts_whose_weights_are_far_below_the_largest():
    logs = np.concatenate([np.linspace(-1, 0, 30), np.linspace(-901, -900, 30), np.full(30, -np.inf)])
    parts = Parts.of(pl.Series(np.repeat([0, 1, 2], 30)), np.arange(90))
    (same,), squares = parts.weighed(Scaled(logs))
    near, far, none = closed(parts.effective_sizes(same, squares))
    assert far.value == pytest.approx(near.value, rel=1e-9)
    assert near.low is not None
    assert none == Figure(0.0)
    shares = closed(parts.weight_ratios(same, same, "nothing"))
    assert [one.value for one in shares[:2]] == pytest.approx([1.0, 1.0])
    assert shares[2] == Figure.absent("nothing")


def test_sums_of_a_column_that_is_asked_for_again():
    clusters = Clusters.of(np.arange(60) // 4)
    columns = [RANDOM.random(60) for _ in range(7)]
    for place in (0, 1, 0, 2, 3, 4, 5, 6, 0, 6):
        expected = [math.fsum(columns[place][row : row + 4]) for row in range(0, 60, 4)]
        assert clusters.sums(columns[place]).tolist() == pytest.approx(expected, rel=1e-14)


@given(st.lists(st.integers(0, 30), max_size=40))
def test_places_of_first_rows(codes):
    assert first_places(np.array(codes, dtype=np.int64)).tolist() == [codes.index(code) for code in codes]


def bounded(node, name=""):
    """Names of the figures below a node of the JSON report that have an interval."""
    if isinstance(node, list):
        return {found for child in node for found in bounded(child, name)}
    if not isinstance(node, dict):
        return set()
    own = {name} if "low" in node and "value" in node and isinstance(node["low"], float) else set()
    if own and "tokens" in node:  # a bucket of q: low and high are its ends
        own = set()
    return own | {found for key, child in node.items() for found in bounded(child, f"{name}.{key}")}


def names_of(report):
    data = report.to_dict()
    rows = [row for rows in data["breakdowns"].values() for row in rows]
    return {
        name
        for top, node in (("mismatch", data["mismatch"]), ("recipes", data["recipes"]), ("breakdowns", rows))
        for name in bounded(node, top)
    }


def analyzed(folder, trainer="trainer_fp32"):
    return iscope.analyze(trainer=folder / f"{trainer}.parquet", vllm=folder / "vllm.parquet")


@pytest.fixture(scope="module")
def report(sample):
    return analyzed(sample / "train_async")


def test_the_list_is_what_reports_have(report, sample):
    found = names_of(report) | names_of(analyzed(sample / "lagged", "trainer_fp32_lag8"))
    assert found <= LISTED
    assert {name for name in LISTED - found if not name.startswith("mismatch.lag.parts")} == set()


def test_real_intervals_are_as_wide_as_an_independent_script_found(report):
    """Ends that a percentile bootstrap of another implementation gave, to within a fifth of their width."""
    by_name = {recipe.name: recipe.figures["effective_batch_size"] for recipe in report.recipes}
    expected = {"none": (115, 190), "prime-rl/seq_tis": (53, 98), "prime-rl/mis_po": (13, 31), "icepop": (123, 195)}
    for name, (low, high) in expected.items():
        found = by_name[name]
        assert (found["low"], found["high"]) == pytest.approx((low, high), abs=0.2 * (high - low)), name
    lags = {row["value"]: row["k3"] for row in report.breakdowns["lag"]}
    for lag, (low, high) in {0: (0.0032, 0.0066), 1: (0.0095, 0.0166), 3: (0.0273, 0.0559)}.items():
        assert (lags[lag].low, lags[lag].high) == pytest.approx((low, high), abs=0.4 * (high - low)), lag


def dump(rollouts, group=2, scale=0.05, seed=0):
    """A table of rollouts in groups, with log-ratios of a given scale."""
    random = np.random.default_rng(seed)
    inference = [-random.exponential(1.0, random.integers(3, 20)) - 0.3 for _ in range(rollouts)]
    trainer = [np.minimum(v + random.normal(0, scale, v.size), 0.0) for v in inference]
    floats = pl.List(pl.Float32)
    return pl.DataFrame(
        {
            "rollout_id": [f"r{i}" for i in range(rollouts)],
            "group_id": [f"g{i // group}" for i in range(rollouts)],
            "advantage": random.normal(0, 1, rollouts),
            "trainer_logprobs": [t.tolist() for t in trainer],
            "inference_logprobs": [v.tolist() for v in inference],
            "loss_mask": [[True] * v.size for v in inference],
        },
        schema_overrides={"trainer_logprobs": floats, "inference_logprobs": floats},
    )


def test_order_and_ids_do_not_move_a_bit():
    table = dump(60)
    renamed = table[RANDOM.permutation(60)].with_columns(
        pl.col("group_id").str.replace("g", "other "), pl.col("rollout_id").str.reverse()
    )
    plain, other = (iscope.analyze(t).to_dict() for t in (table, renamed))
    for name in ("mismatch", "recipes"):
        assert plain[name] == other[name]
    assert plain["mismatch"]["k3"]["low"] < plain["mismatch"]["k3"]["high"]


def test_ratios_that_overflow():
    table = dump(60)
    lists = table["inference_logprobs"].to_list()
    lists[4] = [-800.0] * len(lists[4])
    lists[9] = [v - 90.0 for v in lists[9]]
    series = pl.Series("inference_logprobs", lists, dtype=pl.List(pl.Float32))
    report = iscope.analyze(table.with_columns(series))
    json.dumps(report.to_dict(), allow_nan=False)
    assert report.mismatch["k3"].low is None  # one rollout decides it
    assert report.mismatch["k1"].value is not None


@pytest.mark.parametrize("rollouts", [1, 8])
def test_one_group(rollouts):
    report = iscope.analyze(dump(rollouts, group=8))
    assert names_of(report) == set()
    assert report.mismatch["k3"].value is not None


def test_no_scored_token():
    report = iscope.analyze(dump(20).with_columns(pl.col("loss_mask").list.eval(pl.element() & False)))
    assert names_of(report) == set()
    assert report.mismatch["variance_ratio"].why == report.mismatch["sampler_check"]["why"] == "no scored tokens"


def test_a_dump_of_equal_rollouts():
    table = pl.concat([dump(1).with_columns(rollout_id=pl.lit(f"r{i}"), group_id=pl.lit(f"g{i}")) for i in range(20)])
    report = iscope.analyze(table, recipes=["none", "trl/token_mask:0.99,1.01"])
    k3 = report.mismatch["k3"]
    assert (k3.low, k3.high) == pytest.approx((k3.value, k3.value), rel=1e-12)
    json.dumps(report.to_dict(), allow_nan=False)


def test_a_million_rollouts():
    values = RANDOM.lognormal(0, 0.5, 10**6)
    clusters = Clusters.of(cluster_codes(pl.DataFrame({"group_id": np.arange(10**6) // 8})))
    found = ratio(clusters, values, np.ones_like(values))
    expected = 2 * 1.96 * values.std() / 1000
    assert found.high - found.low == pytest.approx(expected, rel=0.12)


def test_a_tree_of_figures_gets_the_intervals_that_each_has_alone():
    def waiting():
        part, whole = (np.random.default_rng(seed).lognormal(0, 0.4, 60) for seed in (1, 2))
        weights = [Weighed.over(each(60), Scaled(log))[0][0] for log in (np.log(part), np.log(whole) + 3.0)]
        return {
            "ratio": figures.ratio(each(60), part, whole),
            "few": figures.ratio(each(12), part[:12], whole[:12]),
            "none": figures.ratio(each(60), part, 0 * whole, "empty"),
            "logs": figures.weight_ratio(*weights, ""),
            "sizes": [*figures.size_of(part, part**2, np.ones(60)), 7, "word", None],
        }

    tree = closed(waiting())
    alone = {name: closed(node) for name, node in waiting().items()}
    assert tree == alone
    for found in (tree["ratio"], tree["few"], tree["logs"], *tree["sizes"][:2]):
        assert type(found) is Figure
        assert found.low < found.value < found.high
    assert tree["none"] == Figure.absent("empty")
    assert tree["sizes"][2:] == [7, "word", None]
    named = closed({"size": {"value": waiting()["ratio"], "basis": "gradient"}, "row": {"value": 3}})
    assert named["size"] == {**tree["ratio"].to_dict(), "basis": "gradient"}
    assert named["row"] == {"value": 3}


def test_a_figure_that_stands_in_a_tree_twice():
    one = figures.ratio(each(60), RANDOM.lognormal(0, 0.4, 60), np.ones(60))
    first, second = closed([one, {"again": one}])
    assert first == second["again"] == closed(one)


def test_many_figures_are_found_in_turns():
    columns = RANDOM.lognormal(0, 0.4, (1100, 20))
    found = closed([figures.ratio(each(20), column, np.ones(20)) for column in columns])
    for place in (0, 1023, 1024, 1099):
        assert found[place] == ratio(each(20), columns[place], np.ones(20))
