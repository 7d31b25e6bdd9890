// SPDX-License-Identifier: MIT OR Apache-2.0
//! The picture of a configuration: boxes in layers, coloured by the workers that reach them; a border says where packets change
//! cores or meet a lock.

use std::fmt::Write as _;

use engine::{ElementId, Processing};

use crate::explained::{Cost, Explained, lock_text, ranges};
use crate::layout::{Drawing, layout};

/// Fills for workers, light enough for black text; further ones go round the wheel of hues.
const FILLS: [&str; 8] =
    ["#9ecae9", "#ffcf7d", "#a8d99c", "#d3b8e0", "#f5a9a0", "#bfe3de", "#e6df8f", "#c9c2b8"];
const BOX: f64 = 40.0;
pub(crate) const STEP: f64 = 78.0;
const MARGIN: f64 = 24.0;
/// A character of the names, about.
const CHARACTER: f64 = 7.2;

fn fill(worker: usize) -> String {
    match FILLS.get(worker) {
        Some(fill) => (*fill).to_owned(),
        // The golden angle keeps neighbours apart.
        None => format!("hsl({:.0} 60% 78%)", (worker as f64 * 137.5) % 360.0),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The border of a box by its cost.
fn border(cost: Cost) -> &'static str {
    match cost {
        Cost::Alone | Cost::Copies => "stroke=\"#555\"",
        Cost::Common => "stroke=\"#2a6f4e\" stroke-width=\"2\"",
        Cost::HandOff => "stroke=\"#b35900\" stroke-width=\"3\" stroke-dasharray=\"6 4\"",
        Cost::Lock => "stroke=\"#c00000\" stroke-width=\"3.5\"",
    }
}

/// The width of an element's box.
pub(crate) fn width(name: &str, class: &str) -> f64 {
    (name.chars().count().max(class.chars().count()) as f64 * CHARACTER + 16.0).max(60.0)
}

/// Draws it.
pub fn draw(explained: &Explained<'_>) -> String {
    let shown: Vec<ElementId> = explained.elements.ids().filter(|e| !explained.is_information(*e)).collect();
    let index = |e: ElementId| shown.iter().position(|s| *s == e);
    let mut edges = Vec::new();
    let mut labels = Vec::new();
    for (i, e) in shown.iter().enumerate() {
        for (port, (processing, peers)) in explained.elements[*e].outputs.iter().enumerate() {
            for peer in peers {
                if let Some(to) = index(peer.element) {
                    edges.push((i, to));
                    labels.push((port, peer.port, *processing));
                }
            }
        }
    }
    let width = |e: ElementId| width(explained.name(e), explained.elements[e].class.name);
    let drawing = Drawing { widths: shown.iter().map(|e| width(*e)).collect(), edges };
    let layout = layout(&drawing);
    let (key, key_height) = legend(explained);
    let top = MARGIN + key_height;
    let y = |layer: usize| top + layer as f64 * STEP;
    let full = (layout.width + 2.0 * MARGIN).max(620.0);
    let height = top + layout.layers.max(1) as f64 * STEP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{full:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {full:.0} {height:.0}\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n\
         <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#444\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{key}"
    );
    for (route, (port, input, processing)) in layout.routes.iter().zip(&labels) {
        let points: Vec<(f64, f64)> = route.iter().map(|(x, layer)| (x + MARGIN, y(*layer))).collect();
        let dashed = if *processing == Processing::Pull { " stroke-dasharray=\"2 3\"" } else { "" };
        let _ = writeln!(
            svg,
            "<path d=\"{}\" fill=\"none\" stroke=\"#444\" stroke-width=\"1.2\"{dashed} marker-end=\"url(#end)\">\
             <title>[{port}] to [{input}], {processing}</title></path>",
            curve(&points)
        );
    }
    for (i, e) in shown.iter().enumerate() {
        let (x, layer) = layout.boxes[i];
        svg += &boxed(explained, *e, x + MARGIN, y(layer), drawing.widths[i]);
    }
    svg + "</svg>\n"
}

/// A curve through the points, from the lower side of the first box to the upper side of the last, or the other way for an edge
/// that leads upwards.
fn curve(points: &[(f64, f64)]) -> String {
    let [first, .., last] = points else { return String::new() };
    let down = last.1 >= first.1;
    if first == last {
        // A loop, next to its box.
        let (x, y) = *first;
        return format!("M{x:.1} {:.1} c60 30 60 -70 0 {:.1}", y + BOX / 2.0, -BOX);
    }
    let half = if down { BOX / 2.0 } else { -BOX / 2.0 };
    let mut ends = points.to_vec();
    if let Some(end) = ends.first_mut() {
        end.1 += half;
    }
    if let Some(end) = ends.last_mut() {
        end.1 -= half;
    }
    let mut path = format!("M{:.1} {:.1}", ends[0].0, ends[0].1);
    for pair in ends.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let middle = (y0 + y1) / 2.0;
        let _ = write!(path, " C{x0:.1} {middle:.1} {x1:.1} {middle:.1} {x1:.1} {y1:.1}");
    }
    path
}

/// An element's box: a stripe for each worker, its name and its class, and a mark if it has tasks.
fn boxed(explained: &Explained<'_>, e: ElementId, x: f64, y: f64, width: f64) -> String {
    let planned = &explained.elements[e];
    let cost = Cost::of(planned);
    let (left, top) = (x - width / 2.0, y - BOX / 2.0);
    let workers = &planned.place.workers;
    let mut about = format!(
        "{} :: {}, workers {}: {}",
        explained.name(e),
        planned.class.name,
        ranges(workers),
        cost.text()
    );
    for lock in &planned.locks {
        let _ = write!(about, "\n{}: {}", lock.name, lock_text(lock));
    }
    let mut text = format!("<g><title>{}</title>\n", escaped(&about));
    let stripe = width / workers.len().max(1) as f64;
    for (i, worker) in workers.iter().enumerate() {
        let _ = writeln!(
            text,
            "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{stripe:.1}\" height=\"{BOX}\" fill=\"{}\"/>",
            left + i as f64 * stripe,
            fill(*worker)
        );
    }
    let _ = writeln!(
        text,
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BOX}\" fill=\"none\" {}/>",
        border(cost)
    );
    if !planned.place.tasks.is_empty() {
        let _ =
            writeln!(text, "<path d=\"M{:.1} {:.1} l10 6 l-10 6 z\" fill=\"#222\"/>", left - 5.0, top - 6.0);
    }
    let names = [(explained.name(e), y - 4.0, "12", "bold"), (planned.class.name, y + 12.0, "11", "normal")];
    for (line, y, size, weight) in names {
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" text-anchor=\"middle\">{}</text>",
            escaped(line)
        );
    }
    text + "</g>\n"
}

/// What the colours and borders mean, and how high that is.
fn legend(explained: &Explained<'_>) -> (String, f64) {
    let mut text = String::new();
    let label = |text: &mut String, x: f64, y: f64, what: &str| {
        let _ = writeln!(text, "<text x=\"{x:.0}\" y=\"{y:.0}\" font-size=\"12\">{}</text>", escaped(what));
    };
    for worker in 0..explained.workers {
        let (column, row) = (worker % 4, worker / 4);
        let (x, y) = (MARGIN + 150.0 * column as f64, MARGIN + 22.0 * row as f64);
        let _ = writeln!(
            text,
            "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"16\" height=\"14\" fill=\"{}\" stroke=\"#555\"/>",
            fill(worker)
        );
        let core = explained.core(worker).map_or(String::new(), |c| format!(", core {c}"));
        label(&mut text, x + 22.0, y + 12.0, &format!("worker {worker}{core}"));
    }
    let y = MARGIN + 22.0 * explained.workers.div_ceil(4) as f64;
    let kinds =
        [(Cost::Common, "common state"), (Cost::HandOff, "packets change cores"), (Cost::Lock, "lock")];
    for (i, (cost, what)) in kinds.into_iter().enumerate() {
        let x = MARGIN + 150.0 * i as f64 + if i == 2 { 40.0 } else { 0.0 };
        let border = border(cost);
        let _ = writeln!(
            text,
            "<rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"16\" height=\"14\" fill=\"none\" {border}/>"
        );
        label(&mut text, x + 22.0, y + 12.0, what);
    }
    let x = MARGIN + 420.0;
    let _ = writeln!(text, "<path d=\"M{x:.0} {:.0} l10 6 l-10 6 z\" fill=\"#222\"/>", y + 1.0);
    label(&mut text, x + 16.0, y + 12.0, "has a task; dotted: pull");
    (text, y + 22.0 + BOX / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explained::tests::with;

    #[test]
    fn the_picture_holds_every_element() {
        let text = "AddressInfo(a 1.2.3.4); s :: FromDevice(mq2) -> r :: RoundRobinSwitch -> q :: Queue -> u :: Unqueue -> d :: Discard; \
                    r[1] -> Paint(1) -> r;";
        with(text, 2, |explained| {
            let svg = draw(explained);
            for name in ["s", "r", "q", "u", "d", "Paint@7"] {
                assert!(svg.contains(&format!(">{name}</text>")), "{name} in {svg}");
            }
            assert!(!svg.contains(">AddressInfo</text>"));
            // A lock's border, and both workers' colours in it.
            let of = |what: &str| svg.matches(what).count();
            assert!(of("#c00000") == 2 && of(FILLS[1]) >= 2, "{svg}");
            assert_eq!(of("<g>"), of("</g>"));
        });
        with("Idle -> Discard", 9, |explained| assert!(draw(explained).contains("hsl(")));
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a<b & \"c\">"), "a&lt;b &amp; &quot;c&quot;&gt;");
    }
}
