#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens the page of a recording in headless Chromium, by the DevTools protocol over a pipe, and uses it as a person would.

profile_viewer.py PAGE CSV EXPECTED: what the page shows is compared with the recording's event log (CSV), and with EXPECTED, a JSON object with `title`,
`lanes`, `lacks` (parts of what it says is missing) and, where there is such a thing, `wait` (of a lock: `name`, `owner`, the lane of the one who held it).
Exits with 77 where there is no Chromium."""

import collections
import csv
import json
import os
import re
import sys
import tempfile

from browser import Browser


class Viewer(Browser):
    """The page of a recording."""

    def open(self, path, fragment=""):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"file://{path}{fragment}")
        while (state := self.ask("document.body ? document.body.dataset.state : ''")) != "ready":
            assert state != "failed", self.text("facts")

    def search(self, query):
        self.ask("document.getElementById('query').select(); document.getElementById('query').focus()")
        self.call("Input.insertText", text=query)
        self.key("Enter", windowsVirtualKeyCode=13)
        return self.text("matches")

    def view(self):
        return self.ask("[viewer.view.from, viewer.view.span]")


def expected_counts(path):
    """How many spans each name has, by the event log."""
    counts, last = collections.Counter(), {}
    names = {
        "batch": "{}", "task": "task {}", "timer": "timer {}", "enqueue": "into {}", "dequeue": "out of {}", "empty": "{} is empty", "full": "{} is full",
        "sleep": "sleep", "wake": "wake {}",
    }
    kernel = []
    for row in csv.DictReader(open(path, newline="")):
        kind, subject = row["kind"], row["subject"]
        if row["source"] == "kernel":
            kernel.append(row)
        elif row["source"] == "counter":
            pass  # check_counters
        elif kind == "held-back":
            pass  # A sum of many, and no span.
        elif kind == "lock":
            counts[f"wait for lock of {subject}"] += int(row["took_ns"]) > 0
            counts[f"lock of {subject}"] += int(row["second"]) > 0
        elif kind in names:
            counts[names[kind].format(subject)] += 1
        elif kind == "call":
            how, name = row["detail"].split(" ", 1)
            counts[f"{how} {subject}.{name}"] += 1
        elif kind == "grace":
            waited = row["detail"] == "waited for"
            counts["wait for a grace period" if waited else "grace period over, " + row["detail"]] += 1
        elif kind == "swap":
            counts[f"swap to another configuration; it {row['detail']}"] += 1
        elif kind == "move":
            counts[f"{subject} moves {row['detail']}"] += 1
        else:
            assert kind == "drop", kind
            counts["drops of " + subject] += 1
    for row in sorted(kernel, key=lambda row: int(row["at_ns"])):
        if row["kind"] == "softirq_end":
            counts["softirq"] += 1
        if row["kind"] == "sched_switch":
            # A stay ends here if its beginning was seen; idleness has none.
            counts["stays"] += last.get(row["where"], "0") != "0"
            last[row["where"]] = row["second"]
    return +counts


def number_of(matches):
    found = re.search(r"([\d,]+) match", matches)
    return int(found[1].replace(",", "")) if found else 0


def check_counts(browser, counts):
    for name, count in counts.items():
        if name == "stays":
            got = sum(number_of(browser.search(f"kind:{who} thread")) for who in ["router's", "other"])
        elif name.startswith("drops of "):
            got = number_of(browser.search(name.removeprefix("drops of ") + " drops: "))
        else:
            got = number_of(browser.search("kind:softirq" if name == "softirq" else f'"{name}"'))
        assert got == count, f"{name}: {got} spans on the page, {count} in the log"


def check_moving(browser):
    browser.ask("viewer.select(-1); viewer.find(''); viewer.showAll(); document.getElementById('scroller').focus()")
    browser.settle()
    x, y = browser.ask("[scroller.getBoundingClientRect().left + 700, scroller.getBoundingClientRect().top + 40]")
    under = f"viewer.view.time({x} - document.getElementById('scroller').getBoundingClientRect().left)"
    time, (_, span) = browser.ask(under), browser.view()
    for _ in range(3):
        browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    browser.settle()
    assert browser.view()[1] < span / 2, "the wheel zooms in"
    pixel = browser.ask("viewer.view.pixel")
    assert abs(browser.ask(under) - time) < 2 * pixel, "what is under the pointer stays there"
    before, _ = browser.view()
    browser.mouse("mousePressed", x, y, clickCount=1, buttons=1)
    browser.mouse("mouseMoved", x - 50, y, buttons=1)
    browser.mouse("mouseReleased", x - 50, y, clickCount=1)
    browser.settle()
    assert abs(browser.view()[0] - before - 50 * pixel) < 2 * pixel, "the timeline is dragged"
    for keys, grows, moves in [("w", -1, 0), ("s", 1, 0), ("d", 0, 1), ("a", 0, -1)]:
        (start, span) = browser.view()
        browser.key(keys)
        (now, wide) = browser.view()
        assert (wide > span) - (wide < span) == grows, keys
        assert not moves or (now > start) - (now < start) == moves, keys
    browser.key("0")
    assert browser.view()[1] >= browser.ask("viewer.trace.length")


def pixels(colour):
    """How many dots of the timeline have a colour of the painter's, for the browser."""
    return """(() => {
      const canvas = document.getElementById("canvas"), hex = viewer.painter.colours.COLOUR.slice(1);
      const want = [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let count = 0;
      for (let i = 0; i < data.length; i += 4) count += want.every((c, k) => Math.abs(c - data[i + k]) < 4);
      return count;
    })()""".replace("COLOUR", colour)


def check_wait(browser, wait):
    """A wait for a lock: found, highlighted also where it is narrower than a pixel, and said whose the lock was."""
    warm = pixels("warn")
    browser.key("0")
    assert browser.ask(warm) > 10, "waits are seen in the whole recording"
    found = browser.search("kind:lock wait")
    assert found.startswith("1 of "), found
    place = browser.ask("""(() => {
      const id = viewer.view.selected, at = viewer.view.placeOfRow.get(viewer.trace.rowOf(id)), box = scroller.getBoundingClientRect();
      return [box.left + viewer.view.x(viewer.trace.from[id] + viewer.trace.took(id) / 2), box.top + at.y + at.height / 2 - scroller.scrollTop];
    })()""")
    browser.ask("document.activeElement.blur()")
    browser.key("Escape")
    assert "Click a span" in browser.text("details")
    browser.click(*place)
    details = browser.text("details")
    assert f"wait for lock of {wait['name']}" in details and f"Held by{wait['owner']}" in details, details
    assert browser.ask(warm) > 10
    browser.ask("byId('only').click()")
    browser.settle()
    listed = browser.ask("Array.from(document.querySelectorAll('.event'), (e) => e.textContent)")
    assert listed and all("lock wait" in line for line in listed), listed
    browser.ask("byId('only').click()")


def expected_rates(path):
    """What each counter counted of each thread between readings, a second, by the event log."""
    rates, last = {}, {}
    for row in csv.DictReader(open(path, newline="")):
        if row["source"] != "counter":
            continue
        key, now = (row["kind"], int(row["thread"])), (int(row["at_ns"]), int(row["first"]))
        if key in last and last[key][0] < now[0]:
            (then, before), (at, value) = last[key], now
            rates.setdefault(key, []).append(max(0, value - before) * 1e9 / (at - then))
        last[key] = now
    return rates


def check_counters(browser, rates):
    """The rates of the threads that have a lane, and their graphs."""
    graph = pixels("graph")
    shown = browser.ask("""viewer.trace.counters.map((c) => [c.name, Array.from(c.lanes.values(), (l) => [viewer.trace.lanes[l.lane].note, l.rates])])""")
    assert browser.ask("byId('counted').hidden") == (not shown)
    if not shown:
        return
    lanes = browser.ask("viewer.trace.lanes.map((lane) => lane.note)")
    wanted = {key: of for key, of in rates.items() if f"thread {key[1]}" in lanes}
    got = {(name, int(note.removeprefix("thread ") or 0)): of for name, of_lanes in shown for note, of in of_lanes}
    ratio = {key: of for key, of in got.items() if key[0] == "instructions per cycle"}
    got = {key: of for key, of in got.items() if key not in ratio}
    assert wanted.keys() == got.keys(), (wanted.keys(), got.keys())
    for key, of in wanted.items():
        assert len(of) == len(got[key]) and all(abs(a - b) <= 0.006 * a for a, b in zip(of, got[key])), (key, of, got[key])
    for (_, thread), of in ratio.items():
        both = zip(wanted["instructions", thread], wanted["cycles", thread])
        assert all(abs((i / c if c else 0) - r) <= 0.02 * r for (i, c), r in zip(both, of)), (thread, of)
    browser.ask("viewer.showAll(); byId('scroller').scrollTop = 0")
    for number in [-1, *range(len(shown))]:
        browser.ask(f"byId('counter').value = {number}; byId('counter').dispatchEvent(new Event('change'))")
        browser.settle()
        any_rate = number >= 0 and any(rate for _, of in shown[number][1] for rate in of)
        assert (browser.ask(graph) > 10) == any_rate, (number, shown[max(number, 0)])
    x, y = browser.ask("""(() => {
      const place = viewer.view.places.find((p) => p.graph), box = scroller.getBoundingClientRect();
      return [box.left + viewer.view.x(place.graph.times[1] - 1), box.top + place.graph.y + place.graph.height / 2 - scroller.scrollTop];
    })()""")
    browser.mouse("mouseMoved", x, y, button="none")
    tip = browser.text("tip")
    assert all(f"{name}: " in tip for name, _ in shown), tip
    browser.ask("viewer.step(1); viewer.select(viewer.trace.rows.find((r) => viewer.trace.counters[0].lanes.has(r.lane)).base)")
    assert f"Counted then{shown[0][0]}: " in browser.text("details"), browser.text("details")


def check_work_of_a_frame(browser):
    """What is drawn is bounded by pixels, however many spans there are."""
    strokes = browser.ask("""(() => {
      const real = CanvasRenderingContext2D.prototype.fillRect;
      let count = 0;
      CanvasRenderingContext2D.prototype.fillRect = function (...a) { count++; return real.apply(this, a); };
      viewer.view.all();
      viewer.painter.draw();
      CanvasRenderingContext2D.prototype.fillRect = real;
      return [count, viewer.trace.rows.length * viewer.view.plot];
    })()""")
    assert strokes[0] <= 3 * strokes[1], strokes


def main():
    page, log, expected = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3]))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        browser = Viewer(home)
        try:
            use(browser, os.path.abspath(page), (expected_counts(log), expected_rates(log)), expected)
        finally:
            browser.child.kill()
            browser.child.wait()


def use(browser, page, log, expected):
    counts, rates = log
    browser.screen(1280, 800, "light")
    browser.open(page)
    browser.settle()
    browser.screenshot("light")
    assert expected["title"] in browser.text("title"), browser.text("title")
    lanes = browser.ask("Array.from(document.querySelectorAll('.lane-label > span'), (e) => e.textContent)")
    assert sorted(lanes) == sorted(expected["lanes"]), lanes
    for lack in expected["lacks"]:
        assert lack in browser.text("summary-body"), (lack, browser.text("summary-body"))
    assert browser.ask("document.querySelectorAll('img, iframe, b, svg').length") == 0, "a name became markup"
    shown = browser.text("count")
    assert shown.startswith(f"{browser.ask('viewer.trace.count'):,} event"), shown
    check_counts(browser, counts)
    check_moving(browser)
    if "wait" in expected:
        check_wait(browser, expected["wait"])
        browser.screenshot("wait")
    check_counters(browser, rates)
    browser.screenshot("counters")
    check_work_of_a_frame(browser)
    # The address holds what is seen.
    name = next(iter(counts))
    browser.open(page, f"#t=100&d=5000&q={name}")
    assert browser.view() == [100, 5000] and browser.ask("byId('query').value") == name
    browser.screen(800, 600, "dark")
    browser.ask("viewer.showAll(); viewer.step(1)")
    browser.settle()
    browser.screenshot("small-dark")
    room = browser.ask("[document.documentElement.scrollWidth, document.documentElement.scrollHeight, scroller.clientHeight]")
    assert room[0] <= 800 and room[1] <= 600 and room[2] >= 120, room
    unnamed = browser.ask("""Array.from(document.querySelectorAll("button, input, [tabindex]"))
      .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || (e.labels && e.labels.length))).map((e) => e.outerHTML)""")
    assert not unnamed, unnamed
    assert not browser.faults, browser.faults
    print(sum(counts.values()), len(lanes))


main()
