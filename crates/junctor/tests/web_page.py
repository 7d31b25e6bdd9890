#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens the web page of the management API in headless Chromium and uses it as a person would.

web_page.py URL TOKEN: a router of the configuration in manage/web.rs runs there. Exits with 77 where there is no Chromium."""

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

    def press(self, label):
        script = f"(() => {{ const b = [...document.querySelectorAll('#view button')].find((b) => b.textContent === {json.dumps(label)}); b?.click(); return !!b; }})()"
        assert self.ask(script), label

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
    page.fill("packet", "ip 10.0.0.9 to 10.0.1.9 / udp 1 to 2")
    page.press("Try it")
    story = page.until("its way", "document.querySelector('.job details')?.textContent")
    assert "check" in story, story
    page.screenshot("web-trace")


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
    assert page.ask("[...document.querySelectorAll('#view button')].find((b) => b.textContent === 'Apply').disabled")
    page.ask("document.querySelector('#marks button').click()")
    assert page.ask("(() => { const a = document.querySelector('textarea'); return a.value.slice(a.selectionStart).startsWith('Discrad'); })()"), page.ask("document.querySelector('textarea').selectionStart")
    page.press("Compare")
    assert page.ask("[...document.querySelectorAll('#view pre .added')].map((s) => s.textContent.trim()).join()") == "+ Idle -> Discrad;"
    page.screenshot("web-configuration")
    page.ask(write % json.dumps(before))
    page.until("it is sound again", "document.querySelector('#marks li.good') !== null")


def use_tables(page):
    page.show("overview")
    page.until("elements", "document.querySelectorAll('#view table').length === 2 && document.querySelectorAll('#view table')[1].querySelectorAll('tbody tr').length > 3")
    sort = "(() => { const t = document.querySelectorAll('#view table')[1]; t.querySelectorAll('th button')[0].click(); return [...t.querySelectorAll('tbody tr')].map((r) => r.cells[0].textContent); })()"
    names = page.ask(sort)
    assert names == sorted(names, key=str.casefold), names


def main():
    url, token = sys.argv[1], sys.argv[2]
    with tempfile.TemporaryDirectory() as home:
        page = Page(home, url)
        try:
            page.screen(1280, 800, "light")
            page.begin(token)
            look_everywhere(page)
            for use in [use_tables, use_graph, use_drops, use_trace, use_capture, use_configuration]:
                use(page)
            assert page.said() == "", page.said()
            assert page.faults == [], page.faults
            print(json.dumps({"first_ms": page.ask("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")}))
        finally:
            page.child.kill()
            page.child.wait()


main()
