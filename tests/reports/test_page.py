"""The page of a report: read as text, and opened in a browser."""

import re
from html.parser import HTMLParser

import pytest

from mlbench.comparison.compare import compare
from mlbench.reports.html.page import html_page
from mlbench.reports.summary import Content, summarise

pytest.importorskip("altair", reason="the extra [report] is not installed")

HOSTILE = '<script>document.title="broken"</script><img src="http://example.org/x" onerror="alert(1)">'


@pytest.fixture(scope="module")
def drawn():
    """Pages by name: drawing one takes a second."""
    return {}


@pytest.fixture
def page(drawn, a_server_run, a_late_run, a_failure, a_token_run):
    """A page with one of everything."""
    if "page" in drawn:
        return drawn["page"]
    runs = [
        *(a_server_run(number, 400.0 + 10 * number) for number in range(4)),
        a_server_run(5, 900.0, scenario="Offline"),
        a_server_run(6, 800.0, backend="onnxruntime"),
        a_late_run(number=7, workload="bert"),
        a_failure.model_copy(update={"precision": "bf16"}),
        a_token_run,
    ]
    drawn["page"] = html_page(Content(title="nightly", summary=summarise({"": runs})))
    return drawn["page"]


@pytest.fixture
def hostile_page(drawn, a_server_run):
    """A page about runs whose every free text is an attack."""
    if "hostile" in drawn:
        return drawn["hostile"]
    text = {"tag": HOSTILE, "backend": HOSTILE, "workload": HOSTILE, "run_id": HOSTILE.replace("/", " ")}
    runs = [a_server_run(number, **text) for number in range(3)]
    failure = {"kind": "crash", "message": HOSTILE, "stage": HOSTILE, "log_tail": HOSTILE}
    failed = a_server_run(3, **{**text, "run_id": "x"}, status="failed", failure=failure, result=None, verdict=None)
    runs.append(failed)
    drawn["hostile"] = html_page(Content(title=HOSTILE, summary=summarise({"": runs})))
    return drawn["hostile"]


class Reader(HTMLParser):
    """Collects the elements of a page with their attributes; complains about what is not closed."""

    VOID = ("meta", "link", "br", "img", "input")

    def __init__(self, text):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def all(self, tag):
        return [attributes for each, attributes in self.elements if each == tag]


def test_every_link_leads_to_a_place_on_the_page_and_places_are_unique(page):
    elements = Reader(page).elements
    places = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(places) == len(set(places))
    links = [attributes["href"] for tag, attributes in elements if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= set(places)


def test_tables_have_captions_and_their_headings_say_of_what(page):
    reader = Reader(page)
    assert len(reader.all("caption")) == len(reader.all("table")) > 10
    assert {heading.get("scope") for heading in reader.all("th")} == {"col", "row"}


def test_each_chart_has_a_text_in_its_place_and_a_table(page):
    charts = [attributes for attributes in Reader(page).all("div") if attributes.get("class") == "chart"]
    assert len(charts) >= 8
    assert all(chart["role"] == "img" and len(chart["aria-label"]) > 40 for chart in charts)
    assert page.count("<figure>") == page.count("</figure>") == sum("hidden" not in chart for chart in charts)
    assert all("<table" in figure for figure in page.split("<figure>")[1:])


def test_the_page_names_nothing_outside_itself(page):
    reader = Reader(page)
    for _, attributes in reader.elements:
        for name in ("src", "href", "xlink:href", "action", "data", "poster"):
            assert not re.match(r"(\w+:)?//", attributes.get(name) or ""), attributes
    assert not re.search(r"@import|url\(", page)


def test_the_verdict_comes_first_and_the_fix_stands_beside_what_failed(page):
    assert "2 of 9 runs do not count: 1 failed, 1 INVALID." in page
    assert page.index("do not count") < page.index("<h2")
    assert "latency_limit: 3.42 s, limit 100 ms." in page
    assert "Lower load.target_qps below 400, or answer within 100 ms." in page


def test_the_page_is_never_called_an_mlperf_result(page):
    assert page.count("Unverified results, not reviewed by MLCommons. MLPerf is a trademark of MLCommons") == 2


def test_a_run_without_any_number_has_a_page(a_failure):
    page = html_page(Content(title="x", summary=summarise({"": [a_failure]})))
    assert "The run does not count: failed." in page
    assert "crash during warm-up" in page
    assert "<figure>" not in page


def test_an_imported_run_is_marked_wherever_it_stands(a_run, imported):
    sides = {"": [a_run(), a_run(run_id="theirs", backend="Acme/anvil_8", imported=imported)]}
    page = html_page(Content(title="x", summary=summarise(sides)))
    assert "1 of the runs was imported: mlbench read the logs, and saw neither run nor machine." in page
    assert "<small>imported</small>" in page
    assert f"<small>imported from {imported['path']}</small>" in page


def test_without_an_imported_run_none_is_spoken_of(page):
    assert "imported" not in page


def test_a_regression_is_said_before_all_else(a_server_run):
    sides = {
        side: [a_server_run(number + start, value + number, scenario="Offline") for number in range(5)]
        for side, start, value in (("base", 0, 100.0), ("new", 10, 80.0))
    }
    page = html_page(Content(title="x", summary=summarise(sides), comparison=compare(sides["base"], sides["new"])))
    assert page.index("Worse than the base: resnet50 pytorch Offline fp32.") < page.index("All 10 runs are valid")
    assert "Speed against the base" in page


def test_hostile_names_are_text(hostile_page):
    assert HOSTILE not in hostile_page
    reader = Reader(hostile_page)
    assert len(reader.all("script")) == 1
    assert reader.all("img") == []
    assert not any(name.startswith("on") for _, attributes in reader.elements for name in attributes)


@pytest.mark.thorough("command line")
def test_a_suite_of_nine_workloads_on_four_backends_would_stay_below_three_megabytes(a_server_run):
    runs = [
        a_server_run(repeat, 100.0 + repeat, workload=f"workload-{w}", backend=f"backend-{b}", scenario=scenario)
        for w in range(2)
        for b in range(4)
        for scenario in ("SingleStream", "MultiStream", "Server", "Offline")
        for repeat in range(5)
    ]
    runs = [run.model_copy(update={"run_id": f"run-{number}"}) for number, run in enumerate(runs)]
    page = html_page(Content(title="suite", summary=summarise({"": runs})))
    assert "All 160 runs are valid and accurate." in page
    assert len(page.encode()) / 2 * 9 < 3_000_000


# in a browser


@pytest.fixture
def opened(browser, tmp_path):
    """Open a page, and collect what it says and what it asks for."""
    contexts = []

    def opened(text, *, width=1200, at="", **options):
        file = tmp_path / "report.html"
        file.write_text(text, encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, **options))
        tab = contexts[-1].new_page()
        tab.said, tab.asked = [], []
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.on("dialog", lambda dialog: tab.said.append(dialog.message))
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.goto(file.as_uri() + at)
        return tab

    yield opened
    for context in contexts:
        context.close()


COLOUR = "element => getComputedStyle(element).fill"
SIZES = "charts => charts.map(chart => chart.getBoundingClientRect()).map(box => [box.width, box.height])"


@pytest.mark.thorough("command line", but=["360"])
@pytest.mark.parametrize("width", [1200, 360])
def test_the_page_opens_without_an_error_or_a_request_and_fits_its_window(opened, page, width):
    tab = opened(page, width=width)
    assert tab.said == []
    assert [url for url in tab.asked if not url.startswith("data:")] == [tab.url]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    sizes = tab.locator(".chart:visible svg").evaluate_all(SIZES)
    assert len(sizes) >= 8
    assert all(200 < wide <= width and tall > 80 for wide, tall in sizes)


@pytest.mark.slow
def test_another_percentile_and_a_linear_axis_are_chosen_in_the_chart(opened, page):
    figure = opened(page).locator("figure", has_text="latency against throughput").first
    assert figure.locator("select option").all_text_contents() == ["p99", "p99, linear", "p50", "p95"]
    assert "p99 latency, logarithmic" in figure.locator(".chart:visible").inner_text()
    figure.locator("select").select_option("p95")
    shown = figure.locator(".chart:visible")
    assert shown.count() == 1 and "p95 latency, logarithmic" in shown.inner_text()


@pytest.mark.slow
def test_a_click_on_a_mark_tells_its_numbers_and_leads_to_its_run(opened, page):
    tab = opened(page)
    figure = tab.locator("figure", has_text="latency against throughput").first
    mark = figure.locator("[role=graphics-symbol][aria-roledescription=point]").first
    told = mark.get_attribute("aria-label")
    place = figure.locator(".chart a").first.get_attribute("href")
    mark.click()
    assert figure.locator(".named").inner_text() == told
    assert tab.evaluate("location.hash") == place
    assert tab.locator(f"details{place}[open]").count() == 1


@pytest.mark.slow
def test_a_phone_shows_every_result_without_scrolling_sideways(opened, page):
    tab = opened(page, width=360)
    regions = tab.locator("#results .scroll")
    assert regions.evaluate_all("all => all.map(each => each.scrollWidth <= each.clientWidth)") == [True, True]
    for heading in ("Server", "Offline"):
        cell = tab.locator(f"#results td[data-heading={heading}]:visible").first
        assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == f'"{heading}"'
        box = cell.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360


@pytest.mark.slow
def test_a_phone_breaks_a_setting_that_is_longer_than_its_line(opened, a_server_run):
    urls = [{"backend.url": {"value": letter * 80, "layer": "command line"}} for letter in "vw"]
    runs = [a_server_run(number, 400.0, settings=url) for number, url in enumerate(urls)]
    tab = opened(html_page(Content(title="long", summary=summarise({"": runs}))), width=360)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.slow
def test_charts_change_colour_in_the_dark_and_on_paper_are_light(opened, page):
    colours = {}
    for scheme in ("light", "dark"):
        tab = opened(page, color_scheme=scheme)
        colours[scheme] = tab.locator(".chart text").first.evaluate(COLOUR)
    tab.emulate_media(media="print", color_scheme="dark")
    colours["paper"] = tab.locator(".chart text").first.evaluate(COLOUR)
    assert colours["light"] != colours["dark"]
    assert colours["light"] == colours["paper"]


@pytest.mark.slow
def test_the_keyboard_reaches_the_results_and_sorts_them(opened, page):
    tab = opened(page)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the results"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    results = tab.locator("#results table").first
    results.locator("button", has_text="Server").press("Enter")
    assert results.locator("th", has_text="Server").get_attribute("aria-sort") == "ascending"
    shown = [text.split()[0] for text in results.locator("tbody tr td:nth-child(4)").all_inner_texts()]
    assert shown == ["415", "800", "4,620", "INVALID", "\N{EN DASH}"]


@pytest.mark.slow
def test_a_link_to_a_run_opens_its_details(opened, page):
    tab = opened(page)
    assert not tab.locator("#runs-2 .facts").is_visible()
    tab.goto(f"{tab.url}#runs-2")
    tab.wait_for_selector("#runs-2 .facts", state="visible")
    opened(page, at="#runs-2").wait_for_selector("#runs-2 .facts", state="visible")


@pytest.mark.slow
def test_hostile_names_do_nothing_in_a_browser(opened, hostile_page):
    tab = opened(hostile_page)
    assert tab.said == []
    assert tab.title().startswith("<script>")
    assert [url for url in tab.asked if not url.startswith("data:")] == [tab.url]


@pytest.mark.thorough("command line", but=["360"])
@pytest.mark.parametrize("width", [1200, 360])
def test_a_long_table_shows_only_the_rows_with_all_words_that_are_typed(opened, a_server_run, width):
    runs = [a_server_run(n, 400.0, workload=f"w{n}", backend="acme" if n % 2 else "pytorch") for n in range(10)]
    tab = opened(html_page(Content(title="long", summary=summarise({"": runs}))), width=width)
    rows = tab.locator("#results table.sortable").first.locator("tbody tr:visible")
    assert rows.count() == 10
    tab.locator("#results input[type=search]").first.fill("ACME fp32")
    assert rows.count() == 5
    assert tab.said == []
