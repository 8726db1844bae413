"""Every mechanism a panel may have: its reports there and back, its tiers' laws, its estimates, what it refuses."""

import math
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import msgspec
import numpy as np
import pytest

from app.errors import InvalidRequestError
from app.log.panel_leaves import RoundRecord, TierRecord
from app.panels.device import encode, label_of
from app.panels.mechanism import BY_STEPS, MECHANISMS, choose, plan_of, read_plan
from app.panels.plans.base import Plan, half_width_of
from app.panels.plans.lists import Lists
from app.panels.plans.mixture import MixedTier, MixturePlan
from app.panels.plans.sets import SetsPlan, set_span, set_variance
from app.panels.replay import plan_of_record, replay_round
from app.settings import Settings
from tests.app.panelling import body, buy, close, deliver, disclosure, lines, opened, reading, reports, rows, stream
from tests.conftest import Fair, open_fair, tiers
from tiers.budget import Ladder
from tiers.canonical import canonical_bytes
from tiers.errors import InvalidParameterError, TierError
from tiers.local.columns.chain import SAMPLER
from tiers.local.local_hash import LocalHash
from tiers.local.randomized_response import RandomizedResponse
from tiers.local.subset import Subset

MENU = [f"{tenths / 10:g}" for tenths in range(40, 2, -4)]
KINDS = [*MECHANISMS, "singletons"]
RARE = Fraction(1, 10**12)
"""The miss of a bar that is held against a market's own noise, whatever it is."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from open_fair(Settings.at(tmp_path_factory.mktemp("mechanisms") / "market"))


def made(plan: Plan, values: list[int], seed: int = 1) -> tuple[Lists, np.ndarray]:
    """Everybody's report, and their labels."""
    law, read = plan.parameters(0), stream(seed)
    labels = np.array([label_of("p", str(place)) for place in range(len(values))])
    sent = [
        encode(law, plan.domain_size, value, read, label=int(label))
        for value, label in zip(values, labels, strict=True)
    ]
    return Lists.of(sent), labels


def stored(plan: Plan, values: list[int], seed: int = 1) -> bytes:
    packed, faults = plan.pack(*made(plan, values, seed))
    assert not any(broken.any() for broken, _ in faults)
    return b"".join(sorted(row.tobytes() for row in packed))


# --- there and back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 9, 16, 17, 70])
@pytest.mark.parametrize("mechanism", KINDS)
def test_reports_are_stored_and_sent_in_one_form_and_laws_are_read_back(mechanism: Any, size: int) -> None:
    plan = plan_of(mechanism, size, Ladder.parse(["3", "1.5", "0.5"]))
    sent, labels = made(plan, [place % size for place in range(40)])
    packed, faults = plan.pack(sent, labels)
    assert not any(broken.any() for broken, _ in faults)
    assert packed.shape == (40, plan.width)
    assert plan.unpack(packed.tobytes()).rows() == sent.rows()
    if mechanism != "singletons":
        again = read_plan(mechanism, size, plan.ladder, [plan.parameters(rank) for rank in range(3)])
        assert list(again.laws) == list(plan.laws)
        assert again.ratios == pytest.approx(plan.ratios, rel=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "size", "bad"),
    [
        ("subset", 40, [[0], [0, 40], [1, 0], [0, 0], [-1, 2], []]),
        ("randomized-response", 40, [[40], [-1], [0, 1], []]),
        ("local-hash", 40, [[0, 0, 0, 0, 99], [2**32, 0, 0, 0, 0], [0, -1, 0, 0, 0], [0, 0, 0, 0], [], [0] * 6]),
        ("mixed", 10, [[], [255, 1], [-1, 1]]),
        ("flips", 40, [[39], [2, 1], [1, 1], [-1]]),
        ("points", 40, [[39], [2, 1], [1, 1], [-1]]),
    ],
)
def test_a_report_that_the_mechanism_cannot_have_given_is_named_by_its_rule(
    mechanism: Any, size: int, bad: list[list[int]]
) -> None:
    plan = plan_of(mechanism, size, Ladder.parse(MENU if mechanism == "mixed" else ["1.2", "0.5"]))
    good, labels = made(plan, [3])
    packed, faults = plan.pack(Lists.of([*good.rows(), *bad]), np.concatenate([labels, np.zeros(len(bad), np.int64)]))
    assert len(packed) == len(bad) + 1
    broken = np.any([rows_broken for rows_broken, _ in faults], axis=0)
    assert broken.tolist() == [False] + [True] * len(bad)


def test_a_device_must_follow_the_path_of_its_public_label() -> None:
    plan = plan_of("mixed", 10, Ladder.parse(MENU))
    assert isinstance(plan, MixturePlan)
    assert len(plan.mixed.shares) > 1
    sent, labels = made(plan, [0] * 200)
    heads = sent.heads(-1)
    assert {int(head) for head in heads} == set(range(len(plan.mixed.shares)))
    _, faults = plan.pack(sent, np.roll(labels, 1))
    assert np.any(faults[0][0])
    assert "label" in faults[0][1]
    assert (faults[0][0] == (heads != np.roll(heads, 1))).all()


def test_paths_of_a_mixture_share_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word has another use on another path: kernels of other sizes lay their words out otherwise."""
    plan, used, honest = MixturePlan.of(40, Ladder.parse(MENU)), list[bytes](), SetsPlan.derive

    def derive(own: SetsPlan, keys: Any, first: int, top: bytes, *, start: int = 0) -> list[bytes]:
        used.extend(keys)
        return honest(own, keys, first, top, start=start)

    monkeypatch.setattr(SetsPlan, "derive", derive)
    paths = [[path, *range(chain.laws[0].subset_size)] for path, chain in enumerate(plan.chains)]
    packed, _ = plan.pack(Lists.of(paths))
    plan.derive(plan.keys(bytes(32), "panel"), 0, packed.tobytes())
    assert len(used) == len(set(used)) == len(paths) * (len(MENU) - 1)


# --- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("laws", [[{}], [{"family": "subset"}], [{"family": "mixed", "paths": "[", "shares": "1"}]])
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "singletons", "hearsay"])
def test_laws_that_are_none_are_refused(mechanism: str, laws: list[dict[str, str]]) -> None:
    with pytest.raises((TierError, ValueError)):
        read_plan(mechanism, 9, Ladder.parse(["1"]), laws)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_laws_above_their_epsilon_or_out_of_order_are_refused(mechanism: Any) -> None:
    plan = plan_of(mechanism, 9, Ladder.parse(["2", "1"]))
    laws = [plan.parameters(rank) for rank in range(2)]
    assert list(read_plan(mechanism, 9, plan.ladder, laws).laws) == list(plan.laws)
    for spoilt in (laws[::-1], laws[:1], [*laws, laws[1]], [laws[0], laws[0]]):
        with pytest.raises((TierError, ValueError)):
            read_plan(mechanism, 9, plan.ladder, spoilt)
    with pytest.raises((TierError, ValueError)):
        read_plan(mechanism, 9, Ladder.parse(["1.9", "0.9"]), laws)


SPOILT = [{"epsilon": text} for text in ("2e0", "2.0", " 2", "+2", "02", "٢", "4/2", "1e9999999999", "9" * 500, "1/0")]


@pytest.mark.parametrize("spoilt", [*SPOILT, {"hidden": "1"}, {"offset": "0.0"}, {"offset": "1e9999999999"}], ids=str)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "singletons"])
def test_a_law_has_one_text_and_one_that_would_take_forever_is_refused_unread(
    mechanism: Any, spoilt: dict[str, str]
) -> None:
    plan = plan_of(mechanism, 9, Ladder.parse(["2"]))
    with pytest.raises(TierError):
        read_plan(mechanism, 9, plan.ladder, [spoilt_law(plan, spoilt)])


@pytest.mark.parametrize("spoilt", [{"epsilon": text} for text in ("2e0", " 2", "1e9999999999", "9" * 500, "")])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_device_reads_no_number_that_would_take_forever(mechanism: Any, spoilt: dict[str, str]) -> None:
    plan = plan_of(mechanism, 9, Ladder.parse(["2"]))
    with pytest.raises(TierError):
        encode(spoilt_law(plan, spoilt), 9, 1)


def spoilt_law(plan: Plan, spoilt: dict[str, str]) -> dict[str, str]:
    law = plan.parameters(0)
    if "paths" not in law:
        return law | spoilt
    first, *others = msgspec.json.decode(law["paths"])
    return law | {"paths": canonical_bytes([first | spoilt, *others]).decode()}


@pytest.mark.parametrize("name", ["subset_size", "domain_size", "buckets"])
def test_a_size_of_a_law_has_one_text(name: str) -> None:
    plan = plan_of("local-hash" if name == "buckets" else "subset", 9, Ladder.parse(["2"]))
    law = plan.parameters(0)
    with pytest.raises((TierError, ValueError)):
        read_plan(plan.mechanism, 9, plan.ladder, [law | {name: "0" + law[name]}])


@pytest.mark.parametrize("epsilon", ["2e0", "1e9999999999"])
def test_an_epsilon_of_a_record_is_read_as_the_market_writes_it(epsilon: str) -> None:
    law = plan_of("subset", 9, Ladder.parse(["2"])).parameters(0)
    sealed: dict[str, Any] = {"commitment": "0" * 64, "counts": "0" * 64, "key_hash": None}
    tier = TierRecord(epsilon=epsilon, law=law, **sealed)
    said: dict[str, Any] = {"panel": "p", "round": 1, "mechanism": "subset", "domain_size": 9, "reports": 1}
    record = RoundRecord(**said, sampler=SAMPLER, epoch=1, at="now", tiers=(tier,))
    with pytest.raises(InvalidParameterError, match="at most 400 digits"):
        plan_of_record(record)


def test_a_mechanism_that_does_not_keep_the_promise_is_refused_by_name() -> None:
    for asked, ordered in (
        ("flips", False),
        ("local-hash", True),
        ("mixed", True),
        ("points", True),
        ("hearsay", False),
    ):
        with pytest.raises(InvalidRequestError, match="mechanism"):
            choose(asked, 9, Ladder.parse(["1"]), ordered=ordered)


def test_auto_takes_a_mixture_only_where_it_helps() -> None:
    dense = Ladder.parse(MENU)
    chosen = choose("auto", 10, dense, ordered=False)
    assert chosen.mechanism == "mixed"
    assert max(chosen.ratios) < max(plan_of("subset", 10, dense).ratios)
    assert choose("auto", 10, Ladder.parse(["2", "1"]), ordered=False).mechanism == "subset"


# --- estimates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", KINDS)
@pytest.mark.parametrize("rank", [0, 1])
def test_estimates_of_every_tier_are_unbiased_and_within_their_bars(mechanism: Any, rank: int) -> None:
    """The mean over 40 panels lies within four standard errors, all bars of 95 % hold on nine panels in ten."""
    size, people, panels = 6, 90, 40
    plan = plan_of(mechanism, size, Ladder.parse(["3", "1.5"]))
    values = [place % 3 for place in range(people)]
    keys, weights = plan.keys(bytes(32), "p"), [1.0, 0.0, -2.0, 0.5, 0.0, 0.0]
    expected = sum(weights[value] for value in values)
    found, held = [], 0
    for seed in range(panels):
        top = stored(plan, values, seed + 2)
        lower = plan.derive(keys, seed * people, top)[rank]
        estimate, bar = plan.linear(rank, plan.count(rank, lower), people, weights)
        found.append(estimate)
        held += abs(estimate - expected) <= bar
    error = np.std(found) / np.sqrt(panels)
    assert error > 0
    assert abs(np.mean(found) - expected) < 4 * error
    assert held >= 0.9 * panels


def every_report(plan: Plan, rank: int) -> dict[int, list[list[int]]]:
    """All reports of a tier over 4 values, by path; of a local hash enough seeds to cover every set of values."""
    law = plan.laws[rank]
    match law:
        case MixedTier():
            sizes = [path.subset_size for path in law.laws]
            return {path: [[path, *held] for held in combinations(range(4), k)] for path, k in enumerate(sizes)}
        case Subset():
            return {0: [list(held) for held in combinations(range(4), law.subset_size)]}
        case RandomizedResponse():
            return {0: [[value] for value in range(4)]}
        case LocalHash():
            seeds = np.random.default_rng(5).integers(0, 2**32, (3000, 4)).tolist()
            return {0: [[*seed, 0] for seed in seeds]}
    return {0: [list(held) for size in range(4) for held in combinations(range(3), size)]}


@pytest.mark.parametrize("weights", [[0, 1, 0, 0], [3, -1, 10, 2.5], [1, 1, 1, 1], [-4, -3, -2, -1]], ids=str)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("mechanism", KINDS)
def test_a_bar_is_that_of_the_most_that_one_report_can_move_its_reading(
    mechanism: Any, rank: int, weights: list[float]
) -> None:
    plan = plan_of(mechanism, 4, Ladder.parse(["1.1", "0.3"]))
    for reports_of_path in every_report(plan, rank).values():
        packed, faults = plan.pack(Lists.of(reports_of_path), None, rank)
        assert not any(broken.any() for broken, _ in faults)
        read = [plan.linear(rank, plan.count(rank, report.tobytes()), 1, weights) for report in packed]
        values, bars = np.array(read).T
        widest = math.sqrt(math.log(40) / 2) * np.ptp(values)
        if mechanism in BY_STEPS:  # whose bars use the noise's variance as well (tests/metric/test_products.py)
            assert 0 < max(bars) <= widest * (1 + 1e-12) if widest else not bars.any()
        else:
            assert bars == pytest.approx(widest, abs=1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_counts_of_runs_add_up_and_everybody_is_counted_once(mechanism: Any) -> None:
    plan = plan_of(mechanism, 12, Ladder.parse(MENU[:4]))
    raw = stored(plan, [place % 12 for place in range(90)])
    whole = plan.count(0, raw)
    parts = sum(plan.count(0, raw[at : at + 7 * plan.width]) for at in range(0, len(raw), 7 * plan.width))
    assert (whole == parts).all()
    total, bar = plan.linear(0, whole, 90, [1.0] * 12)
    assert (total, bar) == (pytest.approx(90, abs=1e-6), pytest.approx(0, abs=1e-6))
    _, width = plan.linear(0, whole, 90, [0.0, 1.0, *[0.0] * 10])
    if mechanism in BY_STEPS:  # the least of three bars, of which the listing tells the one that grows with the root
        assert width <= plan.count_bar(0) * np.sqrt(90)
        assert 1.9 * np.sqrt(90 * plan.grid(0).excess) < width  # type: ignore[attr-defined]
    elif mechanism in ("subset", "randomized-response"):  # the lesser of two; the latter's are sets of one value
        law: Any = plan.laws[0]
        law, one = law if mechanism == "subset" else Subset(12, 1, law.signal), np.eye(1, 12, 1)[0]
        assert width == pytest.approx(half_width_of([(set_span(law, one), 90)], [set_variance(law, one)]))
        assert width < plan.count_bar(0) * np.sqrt(90)
    elif mechanism != "mixed":  # whose bar is that of the planned shares
        assert width == pytest.approx(plan.count_bar(0) * np.sqrt(90))
    people = int(whole.reshape(-1, 13)[:, 0].max()) if mechanism == "mixed" else 90  # a path has as many as it has
    if mechanism != "mixed":
        assert plan.count_width(0, people) == pytest.approx(width), "a listing tells the bar that a reading has"
    else:
        assert 0 < plan.count_width(0, people) <= plan.count_bar(0) * np.sqrt(people + len(whole) // 13)


@pytest.mark.parametrize("epsilon", ["0.5", "2", "5"])
def test_randomised_response_has_the_bars_of_sets_of_one_value(epsilon: str) -> None:
    """They are the same law, report by report; so are their estimates, and what they may miss by."""
    answers = plan_of("randomized-response", 10, Ladder.parse([epsilon]))
    law = answers.laws[0]
    sets = Subset(10, 1, law.signal)  # type: ignore[attr-defined]
    for weights in (np.eye(1, 10)[0], np.arange(10.0)):
        width = answers.linear(0, np.zeros(10, np.int64), 3000, weights)[1]
        due = half_width_of([(set_span(sets, weights), 3000)], [set_variance(sets, weights)])
        assert width == pytest.approx(due)


# --- on the market ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "promise"), [(name, "steps" if name in BY_STEPS else "values") for name in MECHANISMS]
)
def test_a_panel_of_every_mechanism_is_reported_to_closed_sold_read_and_replayed(
    shop: Fair, mechanism: str, promise: str
) -> None:
    menu = tiers(*((epsilon, 1000 - 10 * place) for place, epsilon in enumerate(MENU)))
    domain = [str(n) for n in range(10)]
    of_axes = {"axes": [{"name": "n", "unit": "one", "values": domain}]}
    asked: dict[str, Any] = body(mechanism=mechanism, promise=promise, domain=domain, tiers=menu)
    if mechanism == "points":
        asked = {name: value for name, value in asked.items() if name != "domain"} | of_axes
    response = shop.client.post("/v1/panels", json=asked, headers=shop.owner().headers)
    panel, buyer = response.json(), shop.person()
    assert panel["mechanism"] == mechanism
    people = 6400
    done = deliver(shop, panel, reports=rows(panel, [place % 4 for place in range(people)])).json()
    assert (done["accepted"], done["refusals"]) == (people, [])
    assert close(shop, panel).status_code == 201
    assert buy(shop, buyer, panel, "2.4").status_code == 201
    rank = MENU.index("2.4")
    wanted = {"type": "histogram"} | ({"axis": "n"} if mechanism == "points" else {})
    histogram = reading(shop, buyer, panel, "2.4", wanted).json()["values"]
    plan = plan_of(mechanism, 10, Ladder.parse(MENU))  # type: ignore[arg-type]
    sent = lines(reports(shop, buyer, panel, rank))
    packed, faults = plan.pack(Lists.of(sent), None, rank)
    assert not any(broken.any() for broken, _ in faults)
    counts = plan.count(rank, packed.tobytes())
    for place, row in enumerate(histogram):
        one, truth = np.eye(1, 10, place)[0].tolist(), people / 4 if place < 4 else 0
        estimate, bar = plan.linear(rank, counts, people, one, Fraction(1, 20))
        assert float(row["value"]) == pytest.approx(estimate, abs=1e-5)
        assert float(row["half_width"]) == pytest.approx(bar, abs=1e-5)
        _, sure = plan.linear(rank, counts, people, one, RARE)
        assert abs(estimate - truth) <= sure < abs(estimate - (people / 4 - truth)), "there, and not where others are"
    shown, public = disclosure(shop, panel)
    found = replay_round(shown, [public])
    assert (found.findings, found.rank, found.tiers, found.reports) == ((), rank, len(MENU) - rank, people)


def test_the_owner_may_weigh_the_mean_of_a_mixed_plan(shop: Fair) -> None:
    menu = tiers(*((epsilon, 5) for epsilon in MENU))
    worst, mean = (
        opened(shop, mechanism="mixed", domain=[str(n) for n in range(10)], tiers=menu, mean_weight=weight)
        for weight in ("0", "1")
    )
    assert worst["device_law"] != mean["device_law"]
    for bad in ("1.5", "-1", "x"):
        sent = body(mechanism="mixed", mean_weight=bad)
        assert shop.client.post("/v1/panels", json=sent, headers=shop.owner().headers).status_code == 400


# --- devices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_device_refuses_a_value_outside_before_it_reads_a_word(mechanism: Any) -> None:
    law = plan_of(mechanism, 9, Ladder.parse(["1"])).parameters(0)

    def read(count: int) -> bytes:
        raise AssertionError("nothing is read")

    for value in (-1, 9, True, 1.0, "1", None):
        with pytest.raises(InvalidParameterError, match="value"):
            encode(law, 9, value, read)  # type: ignore[arg-type]


def test_a_device_refuses_a_law_that_is_none_and_a_label_that_is_none() -> None:
    law = plan_of("mixed", 9, Ladder.parse(MENU)).parameters(0)
    for label in (-1, 2**32, True, 1.0):
        with pytest.raises(InvalidParameterError, match="label"):
            encode(law, 9, 1, label=label)  # type: ignore[arg-type]
    for bad in ({}, {"family": "hearsay"}, {"family": "subset", "domain_size": "8"}):
        with pytest.raises(InvalidRequestError):
            encode(bad, 9, 1)


@pytest.mark.parametrize("epsilon", ["0.4", "0.9"])
@pytest.mark.parametrize("mechanism", ["subset", "randomized-response", "mixed"])
def test_a_report_carries_membership_and_no_order(mechanism: Any, epsilon: str) -> None:
    """Case 39, with a panel below ε = 1: whatever was kept, the form is that of the set alone."""
    plan = plan_of(mechanism, 9, Ladder.parse([epsilon]))
    law = plan.parameters(0)
    for value, seed in product(range(9), range(20)):
        report = encode(law, 9, value, stream(seed))
        places = report[1:] if mechanism == "mixed" else report
        assert places == sorted(set(places))
        assert all(0 <= place < 9 for place in places)
    signal = plan.laws[0].laws[0].signal if isinstance(plan, MixturePlan) else plan.laws[0].signal  # type: ignore[attr-defined]
    assert Fraction(epsilon) == signal.epsilon
