// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where moving packets to other cores begins to pay: one receive queue, and more and more to compute on each packet.

use super::super::study::{Axis, Cell, Origin, Plot, Scale, Section, Series, Table};
use super::workers::{AES_GCM, TRIPLE_DES};
use super::{Setting, graph};
use crate::Error;
use harness::{Prepared, Run, Subject};
use report::measure::Measured;

/// Steps of Work on each packet.
const STEPS: [usize; 8] = [0, 12, 25, 50, 100, 200, 400, 1600];
/// Numbers of cores.
const CORES: [usize; 4] = [2, 4, 8, 16];
/// Bytes of short and of long frames, without their checksum.
const SHORT: usize = 60;
const LONG: usize = 1436;
/// Steps that take about as long as AES-GCM does for a long frame.
const LONG_STEPS: usize = 200;
/// Part of the speed-up that there could be from which cores are worth their while.
const HALF: f64 = 0.5;

/// What is computed on each packet.
struct Computation {
    key: String,
    name: String,
    /// Bytes of a frame without its checksum.
    length: usize,
    /// The element.
    element: String,
    /// What else the configuration has.
    declared: String,
}

/// Who computes.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// The core that receives takes its share of the flows, too.
    Shared,
    /// It only receives and hands over.
    Apart,
}

/// What some cores make of a computation.
struct Speedup {
    cores: usize,
    layout: Layout,
    times: Measured,
}

/// What was found about a computation.
struct Found {
    computation: Computation,
    /// Processor time for a packet on one core that moves none.
    alone: Measured,
    /// The better layout for each number of cores.
    speedups: Vec<Speedup>,
}

/// Steps of computing that read nothing of the packet but its first bytes.
fn work(steps: usize, length: usize) -> Computation {
    let (short, element) = (length == SHORT, format!("Work({steps})"));
    Computation {
        key: if short { format!("work_{steps}") } else { format!("work_{steps}_{length}") },
        name: if short { element.clone() } else { format!("{element}, {length} B") },
        length,
        element,
        declared: String::new(),
    }
}

/// ESP in tunnel mode, all by one association.
fn esp(key: &str, name: &str, algorithm: &str, length: usize) -> Computation {
    let ends = "src 10.9.0.1 dst 10.9.0.2";
    Computation {
        key: format!("{key}_{length}"),
        name: format!("ESP, {name}, {length} B"),
        length,
        element: "IPsecEncrypt(ipsec, DEFAULT discard)".into(),
        declared: format!(
            "ipsec :: IPsecDatabase(SA {ends} spi 256 reqid 1 {algorithm}, POLICY dir out tmpl {ends} reqid 1 mode tunnel);\n"
        ),
    }
}

fn computations() -> Vec<Computation> {
    let others = [
        work(LONG_STEPS, LONG),
        esp("gcm", "AES-128-GCM", AES_GCM, SHORT),
        esp("gcm", "AES-128-GCM", AES_GCM, LONG),
        esp("3des", "3DES", TRIPLE_DES, SHORT),
    ];
    STEPS.into_iter().map(|steps| work(steps, SHORT)).chain(others).collect()
}

impl Computation {
    /// Whether it is one of those that draw the line: Work on short frames.
    fn is_stand_in(&self) -> bool {
        self.declared.is_empty() && self.length == SHORT
    }

    /// All on one core, or with streams on several, each of which sends by a device of its own.
    fn text(&self, spread: Option<(usize, Layout)>) -> String {
        let mut text = format!("// bench: in length={} flows=1024 share=1\n{}", self.length, self.declared);
        let streams = match spread {
            None => 1,
            Some((cores, Layout::Shared)) => cores,
            Some((cores, Layout::Apart)) => cores - 1,
        };
        text += "from :: FromDevice(in) -> Strip(14) -> CheckIPHeader -> streams :: ";
        text += &match spread {
            None => "Null;\n".to_owned(),
            Some((_, layout)) => {
                format!(
                    "Spread(WORKERS {streams}, FIRST {});\nStaticThreadSched(from 0);\n",
                    usize::from(layout == Layout::Apart)
                )
            }
        };
        for i in 0..streams {
            text += &format!(
                "streams[{i}] -> {} -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> ToDevice(out{i});\n",
                self.element
            );
        }
        text
    }
}

/// The numbers of cores that this machine can show.
fn tried(setting: &Setting<'_>) -> Vec<usize> {
    CORES.into_iter().filter(|cores| *cores <= setting.cores).collect()
}

fn prepare(setting: &Setting<'_>, text: &str, workers: usize) -> Result<Prepared, Error> {
    let graph = graph(text)?;
    let subject = Subject::new(&graph, text)?.with_queues(1).with_run_ms(setting.run_ms());
    Ok(subject.prepare(workers)?)
}

/// Measures it all.
pub(super) fn run(setting: &mut Setting<'_>) -> Result<Section, Error> {
    let computations = computations();
    setting.progress.expect(computations.len() * setting.common.rounds());
    let mut found = Vec::new();
    for computation in computations {
        setting.progress.part(format!("where moving pays: {}", computation.name));
        found.push(measure(setting, computation)?);
    }
    Ok(section(setting, &found))
}

/// One core alone, and all numbers of cores in both layouts, in turn.
fn measure(setting: &mut Setting<'_>, computation: Computation) -> Result<Found, Error> {
    let mut alone = prepare(setting, &computation.text(None), 1)?;
    let mut moving = Vec::new();
    for cores in tried(setting) {
        for layout in [Layout::Shared, Layout::Apart] {
            let router = prepare(setting, &computation.text(Some((cores, layout))), cores)?;
            moving.push((cores, layout, router, Vec::new()));
        }
    }
    let mut runs = Vec::new();
    for _ in 0..setting.common.rounds() {
        let one = alone.run_surely()?;
        for (_, _, router, times) in &mut moving {
            times.push(router.run_surely()?.mpps() / one.mpps());
        }
        runs.push(one);
        setting.progress.step();
    }
    let key = &computation.key;
    let alone = setting.note(
        format!("parallelism.paying.{key}.alone_ns"),
        "ns",
        runs.iter().map(Run::ns_per_packet).collect(),
    );
    let mut speedups: Vec<Speedup> = Vec::new();
    for (cores, layout, _, times) in moving {
        let how = if layout == Layout::Shared { "shared" } else { "apart" };
        let times = setting.note(format!("parallelism.paying.{key}.{how}_{cores}"), "times", times);
        match speedups.last_mut().filter(|best| best.cores == cores) {
            Some(best) if best.times.median() >= times.median() => {}
            Some(best) => *best = Speedup { cores, layout, times },
            None => speedups.push(Speedup { cores, layout, times }),
        }
    }
    Ok(Found { computation, alone, speedups })
}

/// The time for a packet at which a line through points passes a height for good, between two points by their logarithms; `None` if
/// it never does, and the first point's if it always was there.
fn crossing(points: &[(f64, f64)], height: f64) -> Option<f64> {
    let below = points.iter().rposition(|(_, times)| *times < height);
    let Some(below) = below else { return points.first().map(|(ns, _)| *ns) };
    let ((x0, y0), (x1, y1)) = (points[below], *points.get(below + 1)?);
    let part = (height - y0) / (y1 - y0);
    Some((x0.ln() + part * (x1.ln() - x0.ln())).exp())
}

/// Times for a packet and speed-ups with so many cores, of what is computed by Work alone.
fn line(found: &[Found], cores: usize) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = found
        .iter()
        .filter(|f| f.computation.is_stand_in())
        .filter_map(|f| {
            let speedup = f.speedups.iter().find(|s| s.cores == cores)?;
            Some((f.alone.median(), speedup.times.median()))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn section(setting: &mut Setting<'_>, found: &[Found]) -> Section {
    let mut section = Section {
        title: "Where moving begins to pay".into(),
        text: vec![
            "One receive queue, as the study's cards had. All flows are received by one core, and a hash hands each of them to one of several cores, which compute and send. Either the core that receives computes on its share of the flows, too, or it only receives; for each number of cores the better of both is shown.".into(),
            "The speed-up is the rate over that of one core which does everything itself and moves nothing. Moving pays where it is above 1. With a receive queue for each core no packet has to move, and the speed-ups are those of the first section.".into(),
            format!("What moves are cache lines: of a short packet its header and descriptor, of a long one {} more. One core alone fills the same few buffers again and again, which stay in its cache; where packets move, each buffer comes back from another core. Work({LONG_STEPS}) with frames of {LONG} bytes shows what that costs although nothing reads the bytes; a cipher reads and writes them all.", LONG.div_ceil(64)),
        ],
        ..Section::default()
    };
    section.tables.push(table(setting, found));
    if setting.cores < 2 {
        return section;
    }
    section.plots.push(plot(setting, found));
    for cores in tried(setting) {
        find(setting, found, cores);
    }
    section
}

/// Says from where on so many cores pay.
fn find(setting: &mut Setting<'_>, found: &[Found], cores: usize) {
    let points = line(found, cores);
    let (Some(least), Some(most)) = (points.first(), points.last()) else { return };
    let mut at = |what: &str, height: f64| {
        let ns = crossing(&points, height);
        if let Some(ns) = ns {
            setting.note(format!("parallelism.paying.{what}_ns_{cores}"), "ns", vec![ns]);
        }
        match ns {
            None => format!("not up to {:.0} ns", most.0),
            Some(ns) if ns <= least.0 => format!("at {:.0} ns already, the least that was tried", least.0),
            Some(ns) => format!("from {ns:.0} ns on"),
        }
    };
    let pays = at("pays", 1.0);
    let half = 1.0 + HALF * (cores as f64 - 1.0);
    let halfway = at("half", half);
    let ciphers: Vec<String> = found
        .iter()
        .filter(|f| !f.computation.declared.is_empty())
        .filter_map(|f| {
            let speedup = f.speedups.iter().find(|s| s.cores == cores)?;
            Some(format!(
                "{} takes {:.0} ns and gains {:.2} times",
                f.computation.name,
                f.alone.median(),
                speedup.times.median()
            ))
        })
        .collect();
    setting.find(format!(
        "From one receive queue to {cores} cores: moving pays {pays} (time for a packet on one core), and half of what {} more could give is there {halfway}. {}.",
        if cores == 2 { "one".to_owned() } else { (cores - 1).to_string() },
        ciphers.join("; ")
    ));
}

fn plot(setting: &Setting<'_>, found: &[Found]) -> Plot {
    let mut series = Vec::new();
    for (colour, cores) in tried(setting).into_iter().enumerate() {
        series.push(Series {
            name: format!("{cores} cores"),
            origin: Origin::Measured,
            colour,
            points: line(found, cores),
        });
    }
    let ends = series.first().and_then(|s| Some((s.points.first()?.0, s.points.last()?.0)));
    if let Some((first, last)) = ends {
        let points = vec![(first, 1.0), (last, 1.0)];
        series.push(Series { name: "one core".into(), origin: Origin::Name, colour: CORES.len(), points });
    }
    Plot::Lines {
        caption: "Speed-up by moving, against the processor time for a packet on one core".into(),
        x: Axis::new("ns for a packet on one core", Scale::Log),
        y: Axis::new("times one core", Scale::Linear),
        series,
    }
}

fn table(setting: &Setting<'_>, found: &[Found]) -> Table {
    let names: Vec<String> = CORES.iter().map(|cores| format!("{cores} cores")).collect();
    let mut columns = vec![("computation", Origin::Name), ("one core, ns for a packet", Origin::Measured)];
    columns.extend(names.iter().map(|name| (name.as_str(), Origin::Measured)));
    let mut table =
        Table::new("Times the rate of one core; (r): the core that receives only receives", &columns);
    for f in found {
        let mut row = vec![Cell::new(f.computation.name.clone()), Cell::measured(&f.alone)];
        for cores in CORES {
            row.push(match f.speedups.iter().find(|s| s.cores == cores) {
                None => Cell::missing(setting.too_few()),
                Some(speedup) => {
                    let mut cell = Cell::measured(&speedup.times);
                    if speedup.layout == Layout::Apart {
                        cell.text += " (r)";
                    }
                    cell
                }
            });
        }
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_sound() {
        for computation in computations() {
            let spreads =
                [None, Some((2, Layout::Shared)), Some((2, Layout::Apart)), Some((4, Layout::Apart))];
            for text in spreads.map(|spread| computation.text(spread)) {
                assert!(graph(&text).is_ok(), "{text}");
            }
        }
    }

    #[test]
    fn a_line_crosses_for_good() {
        let points = [(10.0, 0.5), (20.0, 1.2), (40.0, 0.8), (160.0, 1.2), (1000.0, 1.9)];
        let at = crossing(&points, 1.0).expect("a crossing");
        assert!((at - 80.0).abs() < 1e-6, "{at}");
        assert_eq!(crossing(&points, 2.0), None);
        assert_eq!(crossing(&points[3..], 1.0), Some(160.0));
        assert_eq!(crossing(&[], 1.0), None);
    }
}
