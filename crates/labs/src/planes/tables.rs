// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was found as tables and plots.

use super::super::shared::Setting;
use super::super::study::{Axis, Cell, Origin, Plot, Scale, Section, Series, Table, digits};
use super::changes::{self, Changes};
use super::iperf::Tool;
use super::measure::{DELAY_PAYLOAD, Delays, Found, LOAD_PAYLOAD, Rate, Rates, payloads};
use super::partitions::Spread;
use super::subject::Device;
use super::{Asked, Cores, LEFT_OUT};
use report::measure::Measured;
use trials::inside::QUANTILES;

const LOADS: [(bool, &str, &str); 2] = [(false, "idle", "idle"), (true, "asked", "requests")];
/// In place of payloads that do not pass a guest.
const TOO_LONG: &str = "MTU 1500";
const SHARED: &str = "who ran on which cores";

/// Which throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThroughputKind {
    /// What arrives when more is sent than is forwarded.
    Forwarded,
    /// The greatest rate without loss.
    Lossless,
}

impl ThroughputKind {
    fn of(self, rates: &Rates) -> &Rate {
        match self {
            ThroughputKind::Forwarded => &rates.forwarded,
            ThroughputKind::Lossless => &rates.lossless,
        }
    }

    fn key(self) -> &'static str {
        match self {
            ThroughputKind::Forwarded => "forwarded_kpps",
            ThroughputKind::Lossless => "lossless_kpps",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            ThroughputKind::Forwarded => "that arrive when more are sent",
            ThroughputKind::Lossless => "without loss",
        }
    }
}

/// A value that a search found, with a remark on it.
fn rate(measured: Measured, testers_limit: bool) -> Cell {
    let mut cell = Cell::measured(&measured);
    if testers_limit {
        cell.spread = Some(cell.spread.map_or_else(String::new, |spread| spread + "; ") + "tester's limit");
    }
    cell
}

/// The row of a device in a placement that cannot be measured.
fn left_out(head: Vec<Cell>, why: &str, columns: usize) -> Vec<Cell> {
    let missing =
        (head.len()..columns).map(|column| Cell::missing(if column == head.len() { why } else { "-" }));
    head.iter().cloned().chain(missing).collect()
}

/// Throughput by payload.
pub(super) fn throughput(
    setting: &mut Setting<'_>,
    cores: &Cores,
    all: &[Found],
    kind: ThroughputKind,
) -> Section {
    let payloads = payloads(setting);
    let mut tables = Vec::new();
    for device in Device::ALL {
        let heads: Vec<String> = payloads.iter().map(|payload| format!("{payload} bytes")).collect();
        let mut columns =
            vec![("placement", Origin::Name), ("management", Origin::Name), (SHARED, Origin::Name)];
        columns.extend(heads.iter().map(|head| (head.as_str(), Origin::Measured)));
        let (device_words, words) = (device.in_words(), kind.in_words());
        let caption = format!("{device_words}: thousands of frames a second {words}, by payload");
        let mut table = Table::new(caption, &columns);
        for found in all.iter().filter(|found| found.subject.device == device) {
            for (asked, key, words) in LOADS {
                let head = head(found, words, cores);
                if let Some(why) = &found.why_not {
                    table.row(left_out(head, why, columns.len()));
                    continue;
                }
                let value = |payload: &usize| match found.rates(*payload, asked) {
                    Some(rates) => {
                        let Rate { kpps, testers_limit } = kind.of(rates);
                        let name = format!("planes.{}.{}.{key}.{payload}", kind.key(), found.subject.key());
                        rate(setting.note(name, "kpps", kpps.clone()), *testers_limit)
                    }
                    None if !device.takes(*payload) => Cell::missing(TOO_LONG),
                    None => Cell::missing(LEFT_OUT),
                };
                let values: Vec<Cell> = payloads.iter().map(value).collect();
                table.row(head.into_iter().chain(values).collect());
            }
        }
        tables.push(table);
    }
    let (title, text) = match kind {
        ThroughputKind::Forwarded => (
            "Throughput by payload",
            [
                "The tester sends more than the device forwards and counts what arrives, without and with management requests: the study's throughput. Both devices get the same payloads.",
                "Tester's limit: nothing was lost, so the device may be faster.",
            ],
        ),
        ThroughputKind::Lossless => (
            "Throughput without loss (RFC 2544)",
            [
                "The tester searches the greatest rate at which nothing is lost. Where a plane or the tester waits for a core longer than buffers last, such a rate tells of that wait.",
                "Tester's limit: a step above, the tester did not keep up, or what was lost had left it in lumps. The device may be faster.",
            ],
        ),
    };
    let plots = Device::ALL.map(|device| plot(device, all, kind));
    let text = text.map(str::to_owned).into();
    Section { title: title.into(), text, plots: plots.into(), tables, ..Section::default() }
}

fn head(found: &Found, load: &str, cores: &Cores) -> Vec<Cell> {
    let sharing = found.subject.sharing(cores);
    [found.subject.placement.in_words(), load, &sharing].map(Cell::new).into()
}

fn plot(device: Device, all: &[Found], kind: ThroughputKind) -> Plot {
    let mut series = Vec::new();
    for (place, found) in all.iter().filter(|found| found.subject.device == device).enumerate() {
        for (asked, _, words) in LOADS {
            let median = |rates: &Rates| Measured::new("", "", kind.of(rates).kpps.clone()).median();
            let point = |(payload, _): &(usize, _)| {
                // Megabits of payload: what a user of the device gets.
                let kpps = found.rates(*payload, asked).map(median)?;
                Some((*payload as f64, kpps * *payload as f64 * 8.0 / 1e3))
            };
            let points: Vec<(f64, f64)> = found.throughput.iter().filter_map(point).collect();
            let name = format!("{}, {words}", found.subject.placement.in_words());
            series.push(Series {
                name,
                origin: Origin::Measured,
                colour: 2 * place + usize::from(asked),
                points,
            });
        }
    }
    series.retain(|series| !series.points.is_empty());
    Plot::Lines {
        caption: format!(
            "{}: megabits of payload a second, of frames {}",
            device.in_words(),
            kind.in_words()
        ),
        x: Axis::new("payload, bytes", Scale::Log),
        y: Axis::new("Mbit/s", Scale::Linear),
        series,
    }
}

/// Throughput by iperf.
pub(super) fn iperf(setting: &mut Setting<'_>, cores: &Cores, all: &[Found]) -> Section {
    let mut tools: Vec<Tool> = Vec::new();
    for flow in all.iter().flat_map(|found| &found.iperf) {
        if !tools.contains(&flow.tool) {
            tools.push(flow.tool);
        }
    }
    let heads: Vec<String> = tools.iter().map(|tool| tool.in_words()).collect();
    let mut columns = vec![("device", Origin::Name), ("management", Origin::Name), (SHARED, Origin::Name)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Origin::Measured)));
    let mut table = Table::new("Megabits of payload a second at the sink", &columns);
    for found in all {
        for (asked, key, words) in LOADS {
            let words = [found.subject.short(), words.into(), found.subject.sharing(cores)];
            let head: Vec<Cell> = words.map(Cell::new).into();
            if let Some(why) = &found.why_not {
                table.row(left_out(head, why, columns.len()));
                continue;
            }
            let value = |tool: &Tool| {
                let mut flows = found.iperf.iter();
                match flows.find(|flow| flow.tool == *tool && flow.asked == asked).map(|flow| &flow.mbps) {
                    Some(Ok(mbps)) => {
                        let name = format!("planes.iperf_mbps.{}.{key}.{}", found.subject.key(), tool.key());
                        Cell::measured(&setting.note(name, "Mbit/s", vec![*mbps]))
                    }
                    Some(Err(why)) => Cell::missing(super::in_short(why)),
                    None if *tool == Tool::Stream && found.subject.device == Device::Passthrough => {
                        Cell::missing("no stream passes it")
                    }
                    None if matches!(tool, Tool::Datagrams(payload) if !found.subject.device.takes(*payload)) => {
                        Cell::missing(TOO_LONG)
                    }
                    None => Cell::missing(LEFT_OUT),
                }
            };
            let values: Vec<Cell> = tools.iter().map(value).collect();
            table.row(head.into_iter().chain(values).collect());
        }
    }
    let text = "The study's own way: iperf sends as fast as it can, and loss does not count. The lab reads the sink's counters from /proc. Sender and receiver run on the tester's core at raised priority (nice -19).";
    Section {
        title: "Throughput by iperf".into(),
        text: vec![text.into()],
        tables: vec![table],
        ..Section::default()
    }
}

/// Response times of management requests.
pub(super) fn response(setting: &mut Setting<'_>, cores: &Cores, all: &[Found], asked: &Asked) -> Section {
    let columns = [
        ("device", Origin::Name),
        (SHARED, Origin::Name),
        ("management is kept by", Origin::Name),
        ("ms without traffic", Origin::Measured),
        ("ms with traffic", Origin::Measured),
        ("times as long", Origin::Measured),
        ("traffic, kpps", Origin::Measured),
        ("answered", Origin::Measured),
        ("timed out", Origin::Measured),
        ("failed", Origin::Measured),
    ];
    let mut table = Table::new("Response of a request that computes", &columns);
    for found in all {
        let head: Vec<Cell> = [found.subject.short(), found.subject.sharing(cores), found.partition.clone()]
            .map(Cell::new)
            .into();
        if let Some(why) = &found.why_not {
            table.row(left_out(head, why, columns.len()));
            continue;
        }
        let (idle, loaded) = (&found.response.idle, &found.response.asked);
        let mut value = |key: &str, runs: &[f64]| match runs {
            [] => (Cell::missing("none answered"), None),
            runs => {
                let name = format!("planes.response_ms.{}.{key}", found.subject.key());
                let measured = setting.note(name, "ms", runs.to_vec());
                (Cell::measured(&measured), Some(measured.median()))
            }
        };
        let (without, one) = value("idle", &idle.took_ms);
        let (with, other) = value("loaded", &loaded.took_ms);
        let times =
            one.zip(other).map_or_else(|| Cell::missing("-"), |(one, other)| Cell::number(other / one));
        let count = |one: u64, other: u64| Cell::new((one + other).to_string());
        let load = Measured::new("", "", found.load.clone()).median() / 1e3;
        let mut row = head;
        row.extend([without, with, times, Cell::number(load)]);
        row.push(count(idle.took_ms.len() as u64, loaded.took_ms.len() as u64));
        row.extend([count(idle.timeouts, loaded.timeouts), count(idle.failed, loaded.failed)]);
        table.row(row);
    }
    let text = format!(
        "The operator asks for the same work again and again: without traffic, and while the generator sends payloads of {LOAD_PAYLOAD} bytes at eight tenths of the rate that arrives when more is sent. A request that takes longer than {} s counts as timed out.",
        asked.timeout.as_secs()
    );
    Section {
        title: "Response of the management plane".into(),
        text: vec![text],
        tables: vec![table],
        ..Section::default()
    }
}

/// Delays by quantile.
pub(super) fn delay(setting: &mut Setting<'_>, cores: &Cores, all: &[Found]) -> Section {
    let quantiles: Vec<_> =
        QUANTILES.into_iter().filter(|q| !matches!(q.name, "min" | "max" | "p99.9999")).collect();
    let mut columns = vec![("device", Origin::Name), ("management", Origin::Name), (SHARED, Origin::Name)];
    columns.push(("frames", Origin::Measured));
    columns.extend(quantiles.iter().map(|quantile| (quantile.name, Origin::Measured)));
    columns.extend([("p99.9 less least", Origin::Measured), ("lost", Origin::Measured)]);
    let mut table = Table::new("Microseconds from the generator to the sink", &columns);
    for found in all {
        for (asked, key, words) in LOADS {
            let words = [found.subject.short(), words.into(), found.subject.sharing(cores)];
            let mut row: Vec<Cell> = words.map(Cell::new).into();
            if let Some(why) = &found.why_not {
                table.row(left_out(row, why, columns.len()));
                continue;
            }
            let Delays { latency, lost, .. } = found.delay.of(asked);
            row.push(Cell::new(latency.len().to_string()));
            for quantile in &quantiles {
                row.push(match quantile.us(latency) {
                    Some(us) => {
                        let name = format!("planes.delay_us.{}.{key}.{}", found.subject.key(), quantile.name);
                        Cell::measured(&setting.note(name, "us", vec![us]))
                    }
                    None => Cell::missing(format!("takes {} frames", quantile.frames_min)),
                });
            }
            row.push(match quantiles.iter().find(|q| q.name == "p99.9").and_then(|q| q.us(latency)) {
                Some(us) => {
                    let variation = us - latency.min() as f64 / 1e3;
                    let name = format!("planes.pdv_us.{}.{key}", found.subject.key());
                    Cell::measured(&setting.note(name, "us", vec![variation]))
                }
                None => Cell::missing("too few frames"),
            });
            row.push(Cell::new(lost.to_string()));
            table.row(row);
        }
    }
    let text = vec![
        format!("The authors could not measure delays. Here each frame carries when it left. Payloads of {DELAY_PAYLOAD} bytes are sent at the same rate in all placements of a device: three tenths of what it forwards in the first one, 500 to 100,000 frames a second."),
        "Jitter is the packet delay variation of RFC 8219, section 7.3.1: p99.9 less the least delay. A quantile stands here only if so many frames arrived that one lies beyond it. All rounds count together.".into(),
    ];
    Section { title: "Delay and jitter".into(), text, tables: vec![table], ..Section::default() }
}

/// The user plane over several partitions.
pub(super) fn partitions(setting: &mut Setting<'_>, all: &[Spread]) -> Section {
    let payloads: Vec<usize> = all.iter().flat_map(|s| &s.rates).map(|(payload, _)| *payload).collect();
    let mut payloads: Vec<usize> = payloads;
    payloads.sort_unstable();
    payloads.dedup();
    let heads: Vec<String> = payloads.iter().map(|payload| format!("{payload} bytes")).collect();
    let mut columns = vec![("user planes", Origin::Name), (SHARED, Origin::Name)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Origin::Measured)));
    let mut table = Table::new(
        "User passthrough: thousands of frames a second that arrive when more are sent, all together",
        &columns,
    );
    for spread in all {
        let mut row = vec![Cell::new(spread.partitions.to_string()), Cell::new(&spread.note)];
        for payload in &payloads {
            row.push(match spread.rates.iter().find(|(size, _)| size == payload) {
                Some((_, rates)) => {
                    let name = format!("planes.partitions_kpps.{}.{payload}", spread.partitions);
                    let Rate { kpps, testers_limit } = &rates.forwarded;
                    rate(setting.note(name, "kpps", kpps.clone()), *testers_limit)
                }
                None => Cell::missing(&spread.note),
            });
        }
        table.row(row);
    }
    let at = |partitions: usize| {
        let spread = all.iter().find(|spread| spread.partitions == partitions)?;
        let (payload, rates) = spread.rates.first()?;
        Some((*payload, Measured::new("", "", rates.forwarded.kpps.clone()).median()))
    };
    if let (Some((payload, one)), Some((_, two))) = (at(1), at(2))
        && one > 0.0
    {
        let shared = all.iter().any(|s| s.partitions == 2 && s.note.contains(", tester"));
        let beside = if shared { " The second shares its core with the tester." } else { "" };
        setting.find(format!(
            "Two user planes forward {} times what one does, with payloads of {payload} bytes.{beside}",
            digits(two / one)
        ));
    }
    let text = "The authors left open whether a user plane can be divided over partitions. Here each user plane is a process with a core and a UDP port of its own, and the generator sends its flows to them in turn.";
    Section {
        title: "A user plane over several partitions".into(),
        text: vec![text.into()],
        tables: vec![table],
        ..Section::default()
    }
}

/// Changes under load.
pub(super) fn changes(setting: &mut Setting<'_>, cores: &Cores, all: &[Changes]) -> Section {
    let columns = [
        ("placement", Origin::Name),
        ("what was changed", Origin::Name),
        (SHARED, Origin::Name),
        ("changes", Origin::Measured),
        ("seen", Origin::Measured),
        ("p50, us", Origin::Measured),
        ("p90, us", Origin::Measured),
        ("longest, us", Origin::Measured),
        ("frames sent", Origin::Measured),
        ("frames lost", Origin::Measured),
    ];
    let mut table = Table::new("Changes of a user plane that forwards", &columns);
    for changes in all {
        let Changes { placement, kind, took_us, seen, sent, lost, .. } = changes;
        let sharing = cores.sharing("user", *placement == super::subject::Placement::Smp);
        let head: Vec<Cell> = [placement.in_words(), kind.in_words(), &sharing].map(Cell::new).into();
        if let Some(why) = &changes.why_not {
            table.row(left_out(head, why, columns.len()));
            continue;
        }
        let name = format!("planes.change_{{}}.{}.{}", placement.key(), kind.key());
        let mut row = head;
        row.extend([Cell::new(took_us.len().to_string()), Cell::new(seen.to_string())]);
        let mut sorted = took_us.clone();
        sorted.sort_by(f64::total_cmp);
        for (key, share) in [("p50", 0.5), ("p90", 0.9), ("max", 1.0)] {
            let last = sorted.len().saturating_sub(1) as f64;
            row.push(match sorted.get((share * last).round() as usize) {
                Some(us) => {
                    let name = name.replace("{}", &format!("us_{key}"));
                    Cell::measured(&setting.note(name, "us", vec![*us]))
                }
                None => Cell::new("-"),
            });
        }
        let lost = setting.note(name.replace("{}", "lost"), "frames", vec![*lost as f64]);
        row.extend([Cell::new(sent.to_string()), Cell::new(format!("{:.0}", lost.median()))]);
        table.row(row);
    }
    found_of_changes(setting, all);
    let text = vec![
        "The authors asked for a way by which a control plane configures the user plane. Here it calls the user plane's handlers by a channel in shared memory (`kind = \"calls\"`). A control plane in a guest reaches the control socket through memory that both systems share.".into(),
        "Traffic of 2,000 frames a second passes the user plane meanwhile, whose route is changed. A change takes from the request to the answer. Each is looked up afterwards: seen.".into(),
    ];
    Section { title: "Changes under load".into(), text, tables: vec![table], ..Section::default() }
}

fn found_of_changes(setting: &mut Setting<'_>, all: &[Changes]) {
    let changed: Vec<&Changes> =
        all.iter().filter(|c| c.kind != changes::ChangeKind::Nothing && c.why_not.is_none()).collect();
    if changed.is_empty() {
        return;
    }
    let made: usize = changed.iter().map(|c| c.took_us.len()).sum();
    let (sent, lost) = changed.iter().fold((0, 0), |(sent, lost), c| (sent + c.sent, lost + c.lost));
    setting.find(format!("{made} changes of the user plane under load lost {lost} of {sent} frames."));
}
