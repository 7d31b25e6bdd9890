#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens the web page of the management API in headless Chromium and uses it as a person would.

web_page.py URL TOKEN: the routers 'edge' and 'large' of manage/web.rs run there. Exits with 77 where there is no Chromium."""

import json
import re
import sys
import tempfile
import time

from browser import Browser

PAGES = ["overview", "graph", "drops", "ports", "routes", "sessions", "firewall", "trace", "capture", "profile", "tests", "configuration"]
SCREENS = [(360, 740, "light"), (360, 740, "dark"), (1280, 800, "light"), (1280, 800, "dark"), (3840, 2160, "light")]
# Seconds for what a page fetches. It has failed if it takes longer.
PATIENCE = 30

# What the keyboard must reach: what can be used and is seen. Of radio buttons and the like there are none.
REACHABLE = """[...document.querySelectorAll('a[href], button, input, select, textarea, [tabindex="0"]')]
  .filter((e) => !e.disabled && e.checkVisibility() && e.getBoundingClientRect().width)"""

# Texts whose contrast is too low: WCAG 2.1, 1.4.3. What is disabled is exempt.
CONTRAST = """(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255, c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor); if (c[3] === undefined || c[3] > 0) return c; } return [255, 255, 255]; };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const box = e.getBoundingClientRect();
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !box.width || e.closest(":disabled, .skip, option, noscript, datalist")) continue;
    const style = getComputedStyle(e);
    if (numbers(style.color)[3] === 0) continue;
    const [a, b] = [light(numbers(style.color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5)) found.push([e.textContent.slice(0, 40), ratio.toFixed(2), style.color, ground(e).join()]);
  }
  return found;
})()"""


class Page(Browser):
    """The web page."""

    def __init__(self, home, url):
        super().__init__(home, f"{re.escape(url)}|about:|blob:")
        self.url = url

    def until(self, what, script):
        """Waits until a script says something that is not false; returns that."""
        end = time.monotonic() + PATIENCE
        while not (got := self.ask(script)):
            assert time.monotonic() < end, (what, self.ask("document.body.innerText")[:2000])
            time.sleep(0.02)
        return got

    def begin(self, token):
        self.call("Page.navigate", url=self.url + "/")
        self.until("it asks for a token", "!!document.querySelector('dialog[open] input')")
        self.ask("document.querySelector('dialog[open] input').focus()")
        self.call("Input.insertText", text=token)
        self.key("Enter", windowsVirtualKeyCode=13)
        self.until("live values come", "document.querySelector('#state.good') !== null")

    def show(self, name):
        self.ask(f"location.hash = '#/{name}'")
        title = name.split("/")[0][:4].lower()
        self.until(name, f"document.querySelector('#view h1')?.textContent.toLowerCase().startsWith({json.dumps(title)})")
        self.settle()

    def fill(self, field, text):
        self.ask(f"(() => {{ const f = document.querySelector('#view [name={field}]'); f.value = ''; f.focus(); }})()")
        self.call("Input.insertText", text=text)

    def press(self, label, where="#view"):
        script = f"(() => {{ const b = [...document.querySelectorAll('{where} button')].find((b) => b.textContent === {json.dumps(label)}); b?.click(); return !!b; }})()"
        assert self.ask(script), label

    def tab(self):
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

    def choose(self, router):
        self.ask(f"(() => {{ const s = document.getElementById('router'); s.value = {json.dumps(router)}; s.dispatchEvent(new Event('change')); }})()")

    def said(self):
        """Messages of errors."""
        return self.ask("document.getElementById('words').textContent")


def look_everywhere(page):
    """All pages on all screens: nothing is wider than the screen, and texts can be read."""
    for width, height, scheme in SCREENS:
        page.screen(width, height, scheme)
        for name in PAGES:
            page.show(name)
            if name in ("overview", "drops", "ports"):
                page.until(f"{name} has rows", "document.querySelectorAll('#view td').length > 0")
            assert page.ask("document.documentElement.scrollWidth <= innerWidth"), (name, width, page.ask("document.documentElement.scrollWidth"))
            assert (poor := page.ask(CONTRAST)) == [], (name, scheme, poor)
            unnamed = page.ask("[...document.querySelectorAll('button, input, select, textarea, a, canvas')].filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).map((e) => e.outerHTML)")
            assert unnamed == [], (name, unnamed)
            page.screenshot(f"web-{name}-{width}-{scheme}")
    page.screen(1280, 800, "light")


def use_graph(page):
    page.show("graph")
    page.ask("(() => { const f = document.querySelector('#view input[type=search]'); f.value = 'check'; f.dispatchEvent(new Event('input')); })()")
    about = page.until("an element is described", "document.querySelector('aside h2')?.textContent === 'check' && document.querySelector('aside').textContent")
    assert "CheckIPHeader" in about, about
    page.ask("document.querySelector('#view canvas').focus()")
    page.key("ArrowDown")
    assert page.until("the next element", "(() => { const t = document.querySelector('aside h2').textContent; return t !== 'check' && t; })()")
    drawn = page.ask("(() => { const c = document.querySelector('#view canvas'); return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v); })()")
    assert drawn, "the canvas is empty"
    page.screenshot("web-graph-chosen")
    page.ask("(() => { const s = document.querySelector('#view select'); s.value = 'core'; s.dispatchEvent(new Event('change')); })()")
    page.settle()
    page.screenshot("web-graph-cores")


def use_drops(page):
    page.show("drops")
    text = page.until("drops are listed", "(() => { const t = document.querySelector('#view table').textContent; return t.includes('check') && t; })()")
    assert "bad-checksum" in text and "A checksum is wrong." in text, text


def use_trace(page):
    page.show("trace/check")
    page.fill("from", "10.0.0.9")
    page.fill("to", "10.0.1.9")
    page.fill("dport", "80")
    made = page.ask("document.querySelector('#view [name=packet]').value")
    assert made == "ip 10.0.0.9 to 10.0.1.9 / tcp 4000 to 80 flags S", made
    page.fill("packet", "ip 10.0.0.9 to 10.0.1.9 / udp 1 to 2")
    page.press("Try it")
    story = page.until("its way", "document.querySelector('.job details')?.textContent")
    assert "check" in story, story
    page.screenshot("web-trace")


def use_profile(page):
    page.show("profile")
    page.fill("time_s", "1")
    page.press("Record")
    page.until("it is recorded", "[...document.querySelectorAll('.job button')].some((b) => b.textContent === 'Report')")
    page.press("Report")
    found = page.until("the report", "(() => { const t = document.querySelector('.job table'); return t && t.closest('.job').textContent; })()")
    assert "Findings" in found and "CheckIPHeader" in found and "worker-1" in found, found
    page.screenshot("web-profile")
    page.ask("document.querySelector('.job a.button').click()")
    page.until("the timeline", "document.body?.dataset.state === 'ready'")
    lanes = page.ask("document.getElementById('labels').textContent")
    assert "worker-0" in lanes and "worker-1" in lanes, lanes
    page.screenshot("web-timeline")
    page.ask("document.querySelector('header a').click()")
    page.until("the page again", "document.querySelector('.job a.button') !== null")


def use_tests(page):
    """Trials on a cable in memory: squares while a search runs, and a table of results."""
    page.show("tests")
    page.fill("device", "cable")
    page.fill("options", "--size=64 --trial=0.05")
    page.ask("document.querySelector('#view [name=procedure]').selectedIndex = 1")
    page.press("Start")
    page.until("trials are drawn", "[...document.querySelectorAll('.job .legend span')].some((s) => s.textContent === '64 bytes')")
    page.screenshot("web-tests")
    page.press("Stop")
    page.until("it has stopped", "[...document.querySelectorAll('.job button')].some((b) => b.textContent === 'Remove')")
    page.fill("options", "--rate=1k --time=0.1")
    page.ask("document.querySelector('#view [name=procedure]').selectedIndex = 6")
    page.press("Start")
    page.until("it has a result", "document.querySelector('.job table tbody tr')?.cells.length > 1")


def use_capture(page):
    page.show("capture/check")
    page.fill("count", "5")
    page.press("Capture")
    page.until("it is captured", "[...document.querySelectorAll('.job button')].some((b) => b.textContent === 'Download' && !b.hidden)")


def use_configuration(page):
    page.show("configuration")
    page.until("it is checked", "document.querySelector('#marks li.good') !== null")
    write = "(() => { const a = document.querySelector('textarea'); a.value = %s; a.dispatchEvent(new Event('input')); })()"
    before = page.ask("document.querySelector('textarea').value")
    page.ask(write % json.dumps(before + "\nIdle -> Discrad;"))
    mark = page.until("the mistake is marked", "document.querySelector('#marks .bad')?.parentElement.textContent")
    line = before.count("\n") + 2
    assert f"line {line}" in mark and "Discrad" in mark, mark
    inline = page.ask("(() => { const m = document.querySelector('.marked'); return [m.querySelector('u').textContent, m.querySelector('em').textContent]; })()")
    assert inline[0] == "Discrad" and "Discrad" in inline[1], inline
    assert page.ask("[...document.querySelectorAll('#view button')].find((b) => b.textContent === 'Compare and apply').disabled")
    page.ask("document.querySelector('#marks button').click()")
    assert page.ask("(() => { const a = document.querySelector('textarea'); return a.value.slice(a.selectionStart).startsWith('Discrad'); })()"), page.ask("document.querySelector('textarea').selectionStart")
    page.screenshot("web-configuration")
    # Completion and explanation by keyboard, as editors have them.
    page.ask(write % json.dumps(before + "\nIdle -> added :: Disca"))
    page.ask("(() => { const a = document.querySelector('textarea'); a.focus(); a.setSelectionRange(a.value.length, a.value.length); })()")
    page.key(" ", code="Space", windowsVirtualKeyCode=32, modifiers=2)
    offers = page.until("offers", "[...document.querySelectorAll('.offers li b')].map((b) => b.textContent).join(' ')")
    assert offers == "Discard", offers
    page.screenshot("web-completion")
    page.key("Enter", windowsVirtualKeyCode=13)
    page.ask("document.execCommand('insertText', false, ';')")
    assert page.ask("document.querySelector('textarea').value") == before + "\nIdle -> added :: Discard;"
    page.ask("(() => { const a = document.querySelector('textarea'); a.setSelectionRange(a.value.length - 2, a.value.length - 2); })()")
    page.key("F1", windowsVirtualKeyCode=112)
    page.until("an explanation", "document.querySelector('.told').textContent.includes('# Discard')")
    page.until("it is sound", "document.querySelector('#marks li.good') !== null")
    page.press("Compare and apply")
    added = page.until("what would change", "[...document.querySelectorAll('dialog pre .added')].map((s) => s.textContent.trim()).join()")
    assert added == "+ Idle -> added :: Discard;", added
    page.screenshot("web-compare")
    page.press("Apply", "dialog")
    page.until("it is applied", "document.querySelector('.job')?.textContent.includes('done')")
    page.press("Confirm")
    page.show("graph/added")
    page.until("it runs", "document.querySelector('aside h2')?.textContent === 'added'")


def use_tables(page):
    page.show("overview")
    page.until("elements", "document.querySelectorAll('#view table').length === 2 && document.querySelectorAll('#view table')[1].querySelectorAll('tbody tr').length > 3")
    sort = "(() => { const t = document.querySelectorAll('#view table')[1]; t.querySelectorAll('th button')[0].click(); return [...t.querySelectorAll('tbody tr')].map((r) => r.cells[0].textContent); })()"
    names = page.ask(sort)
    assert names == sorted(names, key=str.casefold), names


def walk(page):
    """By Tab alone: everything that can be used is reached, and shows that it is."""
    for name in PAGES:
        page.show(name)
        page.until("it stands still", "document.querySelector('#view > div')?.ariaBusy !== 'true'")
        page.ask("document.activeElement.blur(); getSelection().collapse(document.body, 0); window.reached = new Set()")
        # Parts that scroll are stops, too.
        for _ in range(2 * page.ask(f"{REACHABLE}.length") + 10):
            page.tab()
            found = page.ask("""(() => {
              const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
              if (e === document.body) return null;
              if (window.reached.has(e)) return window.reached.size;
              window.reached.add(e);
              const around = e.closest('.editor:focus-within');
              const is_shown = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 || around && parseFloat(getComputedStyle(around).outlineWidth) >= 2;
              return [e.outerHTML.slice(0, 100), is_shown, box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight];
            })()""")
            assert not isinstance(found, list) or (found[1] and found[2]), (name, found)
            if isinstance(found, int) and page.ask(f"{REACHABLE}.every((e) => window.reached.has(e))"):
                break
        left = page.ask(f"{REACHABLE}.filter((e) => !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 120))")
        assert left == [], (name, left)


def use_keys(page):
    """Focus stays while values come; the link at the beginning leads over the list of pages; on a small screen that is a menu."""
    page.show("overview")
    page.until("elements", "!!document.querySelectorAll('#view table')[1]?.querySelectorAll('tbody a')[1]")
    page.ask("document.querySelectorAll('#view table')[1].querySelectorAll('tbody a')[1].focus()")
    focused = page.ask("document.activeElement.textContent")
    looks(page, 3)
    assert page.ask("document.activeElement.textContent") == focused
    page.ask("document.activeElement.blur()")
    page.ask("document.querySelector('a.skip').focus()")
    page.key("Enter", windowsVirtualKeyCode=13)
    assert page.ask("[document.activeElement.id, document.querySelector('#view h1').textContent]") == ["view", "Overview"]
    page.screen(360, 740, "light")
    assert not page.ask("document.querySelector('#pages a').checkVisibility()")
    page.ask("document.getElementById('menu').focus()")
    page.key("Enter", windowsVirtualKeyCode=13)
    assert page.ask("document.querySelector('#pages a').checkVisibility() && document.getElementById('menu').ariaExpanded === 'true'")
    page.screenshot("web-menu-360")
    page.ask("document.querySelector('#pages a[data-page=ports]').click()")
    page.until("the page", "document.querySelector('#view h1').textContent === 'Ports'")
    assert not page.ask("document.querySelector('#pages a').checkVisibility()")
    page.screen(1280, 800, "light")


# Counts what a page does: changes of its elements, and drawings of canvases.
COUNTERS = """(() => {
  window.done = { changes: 0, drawings: 0, texts: 0 };
  new MutationObserver((all) => { window.done.changes += all.length; }).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  const pen = CanvasRenderingContext2D.prototype;
  for (const [name, counter] of [["clearRect", "drawings"], ["fillText", "texts"]]) {
    const own = pen[name];
    pen[name] = function (...all) { window.done[counter] += 1; return own.apply(this, all); };
  }
})()"""


def looks(page, count):
    """Waits for so many looks, by what the stream has brought."""
    page.until("the stream", "document.querySelector('#state.good') !== null")
    page.ask(f"new Promise((done) => {{ let left = {count}; addEventListener('look', function seen() {{ left -= 1; if (!left) {{ removeEventListener('look', seen); requestAnimationFrame(() => requestAnimationFrame(done)); }} }}); }})")


def work(page, count):
    """What the page does for one look, on average of some."""
    layouts = lambda: next(m["value"] for m in page.call("Performance.getMetrics")["metrics"] if m["name"] == "LayoutCount")
    looks(page, 2)
    page.ask("for (const name in window.done) window.done[name] = 0")
    before = layouts()
    looks(page, count)
    done = page.ask("window.done")
    return {**{name: value / count for name, value in done.items()}, "layouts": (layouts() - before) / count}


def watch_a_thousand(page):
    """A look at a thousand elements costs the page a bounded number of changes, layouts and drawings."""
    page.call("Performance.enable")
    page.choose("large")
    page.ask(COUNTERS)
    for name, most in [
        ("overview", {"changes": 110, "layouts": 6, "drawings": 1.4}),
        ("graph", {"changes": 25, "layouts": 6, "drawings": 2.4, "texts": 0}),
        ("drops", {"changes": 10, "layouts": 6, "drawings": 1.4}),
    ]:
        page.show(name)
        page.until(f"{name} has come", "document.querySelector('#view td, #view aside p') !== null")
        page.settle()
        found = work(page, 4)
        print(name, found, file=sys.stderr)
        assert all(found[counter] <= limit for counter, limit in most.items()), (name, found)
    page.show("graph")
    page.until("it is drawn", "document.querySelector('#view aside p') !== null")
    page.settle()
    page.screenshot("web-large")
    # However many moves there are before a frame, it is drawn once.
    page.ask("window.done.drawings = 0")
    page.ask("new Promise((done) => requestAnimationFrame(() => { const c = document.querySelector('canvas'); for (let i = 0; i < 50; i += 1) c.dispatchEvent(new WheelEvent('wheel', { deltaY: -20, clientX: 600, clientY: 400 })); requestAnimationFrame(() => requestAnimationFrame(done)); }))")
    assert page.ask("window.done.drawings") <= 2, page.ask("window.done.drawings")
    page.screenshot("web-large-near")
    page.choose("edge")


def main():
    url, token = sys.argv[1], sys.argv[2]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        page = Page(home, url)
        try:
            page.screen(1280, 800, "light")
            page.begin(token)
            look_everywhere(page)
            for use in [use_tables, use_graph, use_drops, use_trace, use_capture, use_profile, use_tests, use_keys, walk, watch_a_thousand, use_configuration]:
                use(page)
            assert page.said() == "", page.said()
            assert page.faults == [], page.faults
            print(json.dumps({"first_ms": page.ask("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")}))
        finally:
            page.child.kill()
            page.child.wait()


main()
