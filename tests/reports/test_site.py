"""The pages of the site: the newest results, histories with their changes of level, and backends compared."""

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from mlbench.records.store.stored_runs import open_stored_runs
from mlbench.reports.site.content import run_page, workload_page
from mlbench.reports.site.pages import site_pages

pytest.importorskip("altair", reason="the extra [report] is not installed")

FIRST = datetime(2026, 10, 1, 2, tzinfo=UTC)


@pytest.fixture
def store(a_run, tmp_path):
    """Store a run of a night, with a throughput."""

    def store(night, samples_per_s, backend="pytorch", repeat=1, **changes):
        result = a_run().result.model_dump() | {"value": samples_per_s}
        when = FIRST + timedelta(days=night, minutes=repeat, hours=backend != "pytorch")
        fields = {"run_id": f"{backend}-{night}-{repeat}", "created": when, "backend": backend, "repeat": repeat}
        run = a_run(**{**fields, "result": result, **changes})
        folder = tmp_path / "results" / f"{night}-{repeat}-{backend}"
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(run.text())
        return run

    return store


@pytest.fixture
def site(tmp_path):
    """Return a function that makes the pages of what was stored, by path."""

    def site(title="Results"):
        with open_stored_runs(tmp_path / "results") as stored:
            return dict(site_pages(stored, title, 0.05))

    return site


class Texts(HTMLParser):
    """What a reader sees of a page, and where its links lead to."""

    def __init__(self, page):
        super().__init__()
        self.text, self.links, self.ids, self._hidden = "", [], set(), False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self._hidden = tag in ("style", "script")
        self.ids.add(given.get("id"))
        if tag == "a":
            self.links.append(given["href"])
        self.text += " "

    def handle_data(self, data):
        self.text += "" if self._hidden else data

    def has(self, text):
        return text in " ".join(self.text.split())


def test_the_newest_session_is_shown_and_not_those_before(store, site):
    for repeat, value in ((1, 90.0), (2, 94.0), (3, 92.0)):
        store(5, value, repeat=repeat)
    store(4, 500.0)
    pages = {path: Texts(page) for path, page in site().items()}
    assert pages["index.html"].has("92.0 samples/s valid, 3 runs")
    assert pages["index.html"].has("4 stored runs of 1 workload on 1 backend")
    assert pages["workloads/resnet50.html"].has("92.0 samples/s 90.0 to 94.0 samples/s, 3 runs valid acc 98.99")
    assert not pages["index.html"].has("500")
    assert sorted(pages) == ["index.html", "runs/pytorch-5-3.html", "workloads/resnet50.html"]


@pytest.mark.thorough("command line")
def test_the_newest_commit_of_an_afternoon_is_shown_and_not_its_mean_with_others(store, site):
    for commit, value in enumerate((100.0, 101.0, 66.0)):
        for repeat in (1, 2):
            store(5, value + repeat, repeat=10 * commit + repeat, tag=f"commit-{commit}")
    pages = {path: Texts(page) for path, page in site().items()}
    assert pages["index.html"].has("67.5 samples/s valid, 2 runs")
    assert pages["workloads/resnet50.html"].has("67.5 samples/s 67.0 to 68.0 samples/s, 2 runs")
    assert pages["workloads/resnet50.html"].has("Steps were not searched: 1 session; a step needs 3 on each side.")
    assert site()["workloads/resnet50.html"].count("samples/s, commit-") == 3  # a dot each


def test_only_scenarios_that_ran_are_explained(store, site):
    store(0, 100.0)
    text = Texts(site()["index.html"]).text
    assert "Offline: throughput." in text
    for other in ("SingleStream:", "MultiStream:", "Server:"):
        assert other not in text


def test_a_change_of_level_is_found_as_the_history_finds_it(store, site):
    for night in range(20):
        store(night, (100 if night < 12 else 80) + 0.1 * (night % 3))
    pages = {path: Texts(page) for path, page in site().items()}
    for path in ("index.html", "workloads/resnet50.html"):
        assert pages[path].has("2026-10-13 02:01"), path  # the thirteenth night
        assert pages[path].has("x 0.800 0.799 to 0.801 slower"), path
    chart = site()["workloads/resnet50.html"]
    assert 'aria-label="level 100 samples/s"' in chart and 'aria-label="level 80.1 samples/s"' in chart
    assert 'aria-label="2026-10-13 02:01: x 0.800, slower; nothing else is known to have changed"' in chart
    assert chart.count('aria-roledescription="point"') == 20


@pytest.mark.thorough("command line")
def test_many_sessions_are_drawn_as_means_of_neighbours(store, site):
    for night in range(130):
        store(night, 100 + 0.1 * (night % 3))
    chart = site()["workloads/resnet50.html"]
    assert chart.count('aria-roledescription="point"') == 44  # 130 in threes
    assert "mean of 3 points" in chart
    assert Texts(chart).has("130 sessions.")


def test_each_backend_is_compared_with_the_one_that_ran_first(store, site):
    for night in range(12):
        store(night, 100 + 0.1 * (night % 3))
        store(night, 50 + 0.1 * (night % 3), backend="onnxruntime")
    page = Texts(site()["workloads/resnet50.html"])
    assert page.has(
        "onnxruntime Offline fp32 against pytorch Offline fp32 throughput 100 samples/s 1 run 50.2 samples/s"
    )
    assert re.search(r"x 0\.50\d \d\.\d+ to \d\.\d+ slower as accurate", " ".join(page.text.split()))


def test_a_run_that_does_not_count_is_named_with_its_rule_and_the_fix(store, site, a_late_run):
    store(1, 100.0, verdict=a_late_run().verdict.model_dump())
    pages = {path: Texts(page) for path, page in site().items()}
    for path in ("index.html", "workloads/resnet50.html"):
        assert pages[path].has("The run does not count: INVALID.")
        assert pages[path].has("latency_limit:")
    assert pages["runs/pytorch-1-1.html"].has("but the run is INVALID")


def test_a_newest_run_that_crashed_is_shown_as_such_beside_the_history_before_it(store, site):
    for night in range(4):
        store(night, 100.0)
    failure = {"kind": "crash", "message": "ended by SIGSEGV", "stage": "warm-up", "log_tail": "core dumped"}
    changes = {"status": "failed", "failure": failure, "result": None, "accuracy": None, "verdict": None}
    store(6, 1.0, **changes)
    pages = {path: Texts(page) for path, page in site().items()}
    assert pages["index.html"].has("crash during warm-up")
    assert pages["workloads/resnet50.html"].has("4 sessions.")
    assert pages["runs/pytorch-6-1.html"].has("core dumped")


def test_every_link_leads_to_a_page_and_a_place_that_is_there(store, site, a_late_run):
    for night in range(20):
        store(night, 100 if night < 12 else 80)
    store(21, 50.0, backend="onnxruntime", verdict=a_late_run().verdict.model_dump())
    pages = {path: Texts(page) for path, page in site().items()}
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            up = "" if path == "index.html" else f"{path.partition('/')[0]}/"
            where = re.sub(r"[^/]+/\.\./", "", f"{up}{target}") if target else path
            assert where in pages, (path, link)
            assert not anchor or anchor in pages[where].ids, (path, link)
    assert len(pages["index.html"].links) >= 5


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}"


def test_what_records_hold_is_text_and_never_a_part_of_the_page(store, site):
    failure = {"kind": "crash", "message": HOSTILE, "stage": HOSTILE, "log_tail": HOSTILE}
    changes = {"status": "failed", "failure": failure, "result": None, "accuracy": None, "verdict": None}
    names = {"workload": HOSTILE, "precision": HOSTILE, "tag": HOSTILE, "scenario": HOSTILE}
    for night in range(3):
        store(night, 100.0, backend="evil", **names)
    store(4, 1.0, backend="evil", run_id=HOSTILE.replace("/", " "), **names, **changes)
    store(5, 100.0, run_id="..\\..\\etc\\passwd", workload="../up")
    pages = site(title=HOSTILE)
    for path, page in pages.items():
        assert re.fullmatch(r"(index|workloads/[\w-]+|runs/[\w-]+)\.html", path, re.ASCII), path
        assert "<script>alert" not in page and "<img" not in page, path
        assert page.count("<script>") == 1
        assert ">49<" not in page
    assert Texts(pages["index.html"]).has(HOSTILE)


def test_names_of_pages_are_the_names_themselves_where_these_are_plain():
    assert workload_page("3d-unet") == "workloads/3d-unet.html"
    assert run_page("20261121T004501Z-resnet50-x-3f2a") == "runs/20261121T004501Z-resnet50-x-3f2a.html"


def test_different_names_never_share_a_page():
    names = ["a/b", "a b", "a.b", "", ".", "..", "ä", "a-b", "x" * 300, "x" * 301]
    assert len({run_page(name) for name in names}) == len(names)


# in a browser


@pytest.fixture
def written(store, site, tmp_path):
    """Return the first page of a site in files."""
    for night in range(12):
        store(night, 100 if night < 7 else 70, tag="a" * 150)
        store(night, 50.0, backend="onnxruntime")
    for path, page in site().items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(page)
    return tmp_path / "index.html"


@pytest.mark.thorough("command line", but=["phone-light", "desktop-dark"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (1440, 900)], ids=["phone", "desktop"])
def test_pages_open_from_a_disk_and_fit_their_window(browser, written, size, scheme):
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, java_script_enabled=False
    )
    tab = context.new_page()
    said, asked = [], []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(written.as_uri())
    paper = tab.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) > 384) is (scheme == "light")
    for name in ("resnet50", "pytorch fp32"):
        assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
        tab.locator(f"main a:text-is('{name}')").first.click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert tab.locator("h1").inner_text() == "pytorch fp32, Offline"
    assert said == []
    assert all(url.startswith(("file:", "data:")) for url in asked)
    context.close()


def test_the_first_page_begins_with_a_picture_and_has_the_machines_on_the_first_day(store, site):
    run = store(0, 100.0)
    first = site()["index.html"]
    assert first.index("<svg") < first.index("Newest results") < first.index('id="machines"')
    assert run.environment.processor in Texts(first).text


def test_the_page_of_a_run_has_the_percentiles_of_its_latencies(store, site, a_server_run):
    late = a_server_run(1, 400.0)
    run = store(0, 400.0, scenario="Server", scenario_facts=late.scenario_facts, result=late.result)
    page = Texts(site()[run_page(run.run_id)])
    assert "Server: latency" in page.text and "p99" in page.text
