"""Money, by hand sums: 36 dollars an hour are a cent a second, so a dollar buys 100 seconds."""

import json
import math

import pytest
from invoking import invoke

from mlbench import IncomparableRunsError, UsageError
from mlbench.comparison.cost import Prices, read_prices, yields_of

PRICES = Prices(currency="USD", per_hour={"small": 36.0, "large": 360.0})
PRICE_FILE = 'currency = "USD"\nsource = "list, 2026"\n[per_hour]\nsmall = 36\n"large.8" = 360.0\n'


@pytest.fixture
def runs(a_run):
    """Make a run per throughput."""

    def runs(values, unit="samples/s", **changes):
        return [
            a_run(
                run_id=f"run-{number}",
                result=a_run().result.model_dump() | {"value": value, "unit": unit},
                **changes,
            )
            for number, value in enumerate(values)
        ]

    return runs


def test_a_dollar_buys_what_a_hundred_seconds_give(runs):
    (row,) = yields_of({"small": runs([50.0])}, PRICES).rows
    assert (row.bought, row.unit, row.low, row.high) == (pytest.approx(5000), "samples", None, None)


def test_ten_times_the_price_for_ten_times_the_tokens_is_the_same(runs):
    small, large = yields_of(
        {"small": runs([50.0], unit="tokens/s"), "large": runs([500.0], unit="tokens/s")}, PRICES
    ).rows
    assert [small.bought, large.bought] == pytest.approx([5000, 5000])
    assert small.unit == "tokens"


def test_the_interval_is_that_of_the_throughput(runs):
    """Two logarithms 0.02 apart: standard error 0.01, and Student's t at one degree of freedom is 12.706."""
    (row,) = yields_of({"small": runs([50 * math.exp(-0.01), 50 * math.exp(0.01)])}, PRICES).rows
    assert row.bought == pytest.approx(5000)
    assert row.low == pytest.approx(5000 * math.exp(-0.12706), rel=1e-4)
    assert row.high == pytest.approx(5000 * math.exp(0.12706), rel=1e-4)


def test_repeats_are_one_row_and_other_workloads_another(runs):
    rows = yields_of({"small": [*runs([50.0, 50.0]), *runs([10.0], workload="bert")]}, PRICES).rows
    assert [(row.name, row.runs) for row in rows] == [
        ("resnet50 pytorch Offline fp32", 2),
        ("bert pytorch Offline fp32", 1),
    ]


def test_what_has_no_throughput_is_left_out_with_its_reason(runs, a_run, a_failure):
    stream = a_run().result.model_dump() | {"value": 1e6, "unit": "ns", "higher_is_better": False}
    found = yields_of({"small": [a_run(scenario="SingleStream", result=stream), a_failure, *runs([50.0])]}, PRICES)
    assert len(found.rows) == 1
    assert "SingleStream measures a latency, not a throughput" in found.left_out[0]
    assert "failed (crash during warm-up)" in found.left_out[1]


def test_repeats_of_two_machines_are_not_one_instance(runs, environment):
    elsewhere = runs([50.0], environment=environment.model_copy(update={"machine": "another"}))
    with pytest.raises(IncomparableRunsError, match="small mixes runs of different hardware"):
        yields_of({"small": [*runs([50.0]), *elsewhere]}, PRICES)


def test_an_instance_without_a_price_names_those_that_have_one(runs):
    with pytest.raises(UsageError, match=r"no price for instance 'huge'\. There are: small, large\."):
        yields_of({"huge": runs([50.0])}, PRICES)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("currency = ", "is not a TOML file"),
        ("[per_hour]\nsmall = 1\n", "currency: Field required"),
        ('currency = "USD"\n', "per_hour: Field required"),
        ('currency = "USD"\n[per_hour]\n', "per_hour: Dictionary should have at least 1 item"),
        ('currency = "USD"\n[per_hour]\nsmall = 0\n', "per_hour.small: Input should be greater than 0"),
        ('currency = "USD"\n[per_hour]\nsmall = "cheap"\n', "per_hour.small: Input should be a valid number"),
        ('currency = "USD"\n[per_hour]\nsmall = nan\n', "per_hour.small: Input should be"),
        (PRICE_FILE + "[prices]\nsmall = 1\n", "prices: Extra inputs are not permitted"),
    ],
)
def test_a_broken_price_file_is_recognised_by_the_place(tmp_path, text, told):
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_prices(tmp_path / "prices.toml")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


# the command


@pytest.fixture
def cost(runs, tmp_path, monkeypatch):
    """Run the command over two runs of a tag."""
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    for run in runs([50.0, 50.0], tag="nightly"):
        (tmp_path / "results" / run.run_id).mkdir(parents=True)
        (tmp_path / "results" / run.run_id / "record.json").write_text(run.text())
    (tmp_path / "prices.toml").write_text(PRICE_FILE)

    def cost(*arguments, price="prices.toml"):
        options = ["--price", str(tmp_path / price), "--results", str(tmp_path / "results")]
        return invoke("cost", *arguments, *options)

    return cost


def test_the_table_has_money_both_ways(cost):
    done = cost("small=nightly")
    assert done.exit_code == 0, done.output
    (row,) = (line for line in done.stdout.splitlines() if "resnet50" in line)
    cells = [cell.strip() for cell in row.strip("│┃ ").split("│")]
    assert cells == [
        "resnet50 pytorch Offline fp32 (2)",
        "small",
        "36",
        "50.0 samples/s",
        "5,000 samples",
        "5,000 to 5,000",
        "200",
    ]
    assert "Prices: list, 2026." in " ".join(done.stdout.split())


def test_json_has_the_same_numbers_and_one_instance_may_be_named_twice(cost):
    done = cost("small=run-0", "small=run-1", "--json")
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["bought"], row["runs"], row["currency"]) == (pytest.approx(5000), 2, "USD")


@pytest.mark.parametrize(
    ("arguments", "price", "told"),
    [
        (["huge=nightly"], "prices.toml", "no price for instance 'huge'"),
        (["small=nightly"], "none.toml", "price file cannot be read"),
        (["nightly"], "prices.toml", "'nightly' is not INSTANCE=RUNS"),
        (["small=daily"], "prices.toml", "no run 'daily'"),
        ([], "prices.toml", "Missing argument"),
    ],
)
def test_what_cannot_be_priced_is_refused_in_one_line(cost, arguments, price, told):
    done = cost(*arguments, price=price)
    assert (done.exit_code, len(done.stderr.strip().splitlines())) == (2, 1), done.output
    assert told in done.stderr
