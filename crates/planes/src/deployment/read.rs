// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a deployment from its file. All errors are reported at once, each with its line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lang::{Diagnostic, SourceMap, Span};
use toml::de::DeTable;

use super::fields::{Fields, Findings, Placed};
use super::{Deployment, Partition, Placement, Plane, PlaneKind, Program, Ready, Restart};
use crate::Cpus;
use sync::priority::Scheduling;

/// Planes that a deployment may have: each costs a process and a few descriptors.
const MOST_PLANES: usize = 64;
const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const BACKOFF: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Routers send a heartbeat that often at least.
const ROUTER_HEARTBEAT: Duration = Duration::from_secs(10);
const AMOUNT: &str = "an amount of at least 1M, such as \"512M\" or \"2G\"";
/// The shortest heartbeat: a machine with much to do lets a process wait for longer than a few milliseconds.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(100);
/// The shortest wait between two starts: without one, a plane that fails at once would keep a core busy.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(1);
const SHORTEST_START: Duration = Duration::from_millis(100);

/// What reading a file gave.
#[derive(Debug)]
pub struct Read {
    /// The deployment, if nothing is wrong with it.
    pub deployment: Option<Deployment>,
    /// Where each plane stands in the file, and its settings that [`super::check`] speaks of.
    pub places: Vec<Places>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// The text, for printing diagnostics.
    pub sources: SourceMap,
}

/// Where the settings of a plane stand.
#[derive(Clone, Debug)]
pub struct Places {
    /// Its name.
    pub name: Span,
    instances: Option<Span>,
    /// Its cores.
    pub cores: Option<Span>,
    /// What it runs.
    pub program: Span,
    /// Its partition.
    pub partition: Option<Span>,
    /// Its scheduling class.
    pub class: Option<Span>,
    /// Its network namespace.
    pub netns: Option<Span>,
    /// Its memory limit.
    pub memory: Option<Span>,
    /// Its interfaces.
    pub interfaces: Vec<Span>,
    /// Its writable directories.
    pub writable: Vec<Span>,
    after: Vec<Placed<String>>,
    bound_to: Vec<Placed<String>>,
    pub(super) reaches: Vec<Placed<String>>,
    pub(super) statistics: Vec<Placed<String>>,
}

/// Reads a deployment. `path` names it in messages, and its directory is where relative paths begin.
#[must_use]
pub fn read(path: &Path, text: &str) -> Read {
    let mut sources = SourceMap::new();
    let file = sources.add(&path.display().to_string(), text);
    let mut found = Findings { file, list: Vec::new() };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map(|range| found.range(range));
        found.list.push(Diagnostic::error("E0701", error.message()).at(at));
    }
    // A damaged file gives follow-up errors that say nothing.
    if !found.list.is_empty() {
        return Read { deployment: None, places: Vec::new(), diagnostics: found.list, sources };
    }
    let start = found.range(0..0);
    let mut fields = Fields::new("a deployment".into(), document.get_ref(), start);
    let name = fields.text(&mut found, "name");
    let placement = fields.word(&mut found, "placement", Placement::ALL).map(|(p, _)| p);
    let cores = cores(&mut fields, &mut found);
    let channels = super::channels::channels(&mut found, &mut fields);
    let mut planes = Vec::new();
    let mut places = Vec::new();
    let tables = fields.tables(&mut found, "planes");
    let is_wrong =
        document.get_ref().get("planes").is_some_and(|planes| planes.get_ref().as_table().is_none());
    if tables.is_empty() && !is_wrong {
        fields.missing(&mut found, "planes", "add a table such as [planes.user]");
    } else if tables.len() > MOST_PLANES {
        let at = tables[MOST_PLANES].0.1;
        found.wrong_value(at, format!("a deployment has at most {MOST_PLANES} planes"));
    }
    fields.end(&mut found);
    for (name, table) in tables.into_iter().take(MOST_PLANES) {
        let (plane, place, count) = plane(&mut found, name, table);
        let instances = plane.map(|plane| instances(&mut found, plane, &place, count)).unwrap_or_default();
        places.extend(std::iter::repeat_n(place, instances.len().max(1)));
        planes.extend(instances);
    }
    if planes.len() > MOST_PLANES {
        found.wrong_value(
            start,
            format!("with all instances there are {} planes, at most {MOST_PLANES}", planes.len()),
        );
    }
    alike(&mut found, &places, &planes);
    let placement = placement.unwrap_or(Placement::Smp);
    let mut deployment = Deployment {
        name: name.map_or_else(|| stem(path), |(name, _)| name.to_owned()),
        placement,
        cores: cores.map(|(cores, _)| cores),
        planes,
        channels: channels.endpoints,
        calls: channels.calls,
        statistics: channels.statistics,
        directory: directory(path),
    };
    for path in
        deployment.planes.iter_mut().flat_map(|plane| plane.writable.iter_mut().chain(&mut plane.kernel))
    {
        *path = deployment.directory.join(&path);
    }
    if !is_name(&deployment.name) {
        let at = name.map_or(start, |(_, at)| at);
        found.list.push(bad_name(&deployment.name, "deployment").at(at));
    }
    // Planes that could not be read are missing from the list, so what follows would speak of others.
    if deployment.planes.len() == places.len() {
        dependencies(&mut found, &mut deployment.planes, &places);
        owned(&mut found, &deployment);
        super::guests::memory(&mut found, &mut deployment, &places);
        placed(&mut found, &deployment, &places);
    }
    let sound = found.list.iter().all(|d| d.severity != lang::Severity::Error);
    Read { deployment: sound.then_some(deployment), places, diagnostics: found.list, sources }
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "deployment".into(), |stem| stem.to_string_lossy().into_owned())
}

fn directory(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    std::path::absolute(parent).unwrap_or_else(|_| parent.to_owned())
}

/// Names become parts of file names and of a socket's path, which may have 107 bytes.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= 32 && name.chars().all(plain) && !name.starts_with('-')
}

/// Finds channels of planes that are no routers: none answers calls, or publishes statistics.
fn owned(found: &mut Findings, deployment: &Deployment) {
    let calls = deployment.calls.iter().map(|channel| (channel, "handlers to call"));
    let statistics = deployment.statistics.iter().map(|channel| (channel, "statistics"));
    for (channel, what) in calls.chain(statistics) {
        let name = &channel.plane;
        let mut planes = deployment.planes.iter();
        let wrong = match planes.clone().find(|plane| plane.name == *name) {
            None if planes.any(|plane| plane.of.as_ref() == Some(name)) => {
                let wrong = format!("plane `{name}` has several instances, and a channel has one plane");
                Diagnostic::error("E0706", wrong).help(format!("name one of them, such as `{name}.0`"))
            }
            None => {
                let wrong = format!("there is no plane `{name}`");
                let names = deployment.planes.iter().map(|plane| plane.name.as_str());
                Diagnostic::error("E0706", wrong).did_you_mean(lang::suggest(name, names))
            }
            Some(plane) if matches!(plane.program, Program::Command(_)) => {
                let wrong = format!("plane `{name}` is no router, so it has no {what}");
                Diagnostic::error("E0706", wrong).help("name a plane with a `config`")
            }
            Some(_) => continue,
        };
        found.list.push(wrong.at(channel.at));
    }
}

/// Finds planes whose names become one in the names of variables.
fn alike(found: &mut Findings, places: &[Places], planes: &[Plane]) {
    // Planes that could not be read are missing from the list.
    if planes.len() != places.len() {
        return;
    }
    let folded = |plane: &Plane| plane.name.to_uppercase().replace('-', "_");
    for (i, (plane, place)) in planes.iter().zip(places).enumerate() {
        let same = planes.iter().zip(places).take(i).find(|(other, _)| folded(other) == folded(plane));
        if let Some((other, theirs)) = same {
            let wrong =
                format!("the names of planes `{}` and `{}` are too much alike", other.name, plane.name);
            let help = "names must differ in more than `-` and `_` and in capitals: $JUNCTOR_SHARED_NAME has neither";
            let wrong = Diagnostic::error("E0705", wrong).at(place.name).help(help);
            found.list.push(wrong.note(theirs.name, "the other one"));
        }
    }
}

pub(super) fn bad_name(name: &str, what: &str) -> Diagnostic {
    let wrong = format!("\"{}\" is no name for a {what}", name.escape_debug());
    Diagnostic::error("E0705", wrong).help("use at most 32 letters, digits, `-` and `_`")
}

fn cores(fields: &mut Fields<'_, '_>, found: &mut Findings) -> Option<Placed<Cpus>> {
    let list = |text: &str| Cpus::parse_list(text).filter(|cores| !cores.is_empty());
    fields.parsed(found, "cores", "a list of cores such as \"0,2-3\"", list)
}

/// Bytes: a number with `K`, `M` or `G`.
fn bytes(text: &str) -> Option<u64> {
    amount(text).filter(|bytes| *bytes >= 1 << 20)
}

/// Bytes, such as `64K`.
pub(super) fn amount(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text) {
        t if t.ends_with(['K', 'k']) => (&t[..t.len() - 1], 10),
        t if t.ends_with('M') => (&t[..t.len() - 1], 20),
        t if t.ends_with('G') => (&t[..t.len() - 1], 30),
        t => (t, 0),
    };
    let number: u64 = digits.trim().parse().ok()?;
    number.checked_shl(shift).filter(|bytes| bytes >> shift == number)
}

/// The instances of a plane, each with its share of the cores; the plane itself if it has none.
fn instances(found: &mut Findings, plane: Plane, place: &Places, count: Option<usize>) -> Vec<Plane> {
    let Some(count) = count else { return vec![plane] };
    let at = place.instances.unwrap_or(place.name);
    if !matches!(plane.program, Program::Router { .. }) {
        found.wrong_value(
            at,
            format!("plane `{}` runs no router (`config`), whose flows instances could share", plane.name),
        );
        return vec![plane];
    }
    let cores: Vec<usize> = plane.cores.iter().flat_map(Cpus::iter).collect();
    if !cores.len().is_multiple_of(count) {
        let wrong = format!(
            "{} cores of plane `{}` cannot be shared evenly by {count} instances",
            cores.len(),
            plane.name
        );
        let wrong = Diagnostic::error("E0707", wrong).at(place.cores.unwrap_or(at));
        found.list.push(wrong.help("give each instance as many cores as the others"));
        return vec![plane];
    }
    let share = cores.len() / count;
    let instance = |number: usize| Plane {
        name: format!("{}.{number}", plane.name),
        of: Some(plane.name.clone()),
        cores: plane.cores.as_ref().map(|_| cores[number * share..][..share].iter().copied().collect()),
        ..plane.clone()
    };
    (0..count).map(instance).collect()
}

/// Reads one plane, and how many instances it has; nothing if what it runs is not clear.
fn plane(
    found: &mut Findings,
    (name, at): Placed<String>,
    table: &DeTable<'_>,
) -> (Option<Plane>, Places, Option<usize>) {
    if !is_name(&name) {
        found.list.push(bad_name(&name, "plane").at(at));
    }
    let mut fields = Fields::new(format!("plane `{name}`"), table, at);
    let kind = fields.word(found, "kind", PlaneKind::ALL).map(|(kind, _)| kind);
    if kind.is_none() && !table.contains_key("kind") {
        fields.missing(found, "kind", "add kind = \"user\", \"control\" or \"management\"");
    }
    let program = program(&mut fields, found);
    let is_router = matches!(program, Some((Program::Router { .. }, _)));
    let cores = cores(&mut fields, found);
    let partition = fields.word(found, "partition", Partition::ALL);
    let expected = "normal, batch, idle, fifo:PRIORITY or rr:PRIORITY (1 to 99)";
    let class = fields.parsed(found, "scheduler", expected, Scheduling::parse);
    let memory = fields.parsed(found, "memory", AMOUNT, bytes);
    let (shared, writable) = (fields.parsed(found, "shared", AMOUNT, bytes), fields.texts(found, "writable"));
    let (reaches, statistics) = (fields.texts(found, "reaches"), fields.texts(found, "statistics"));
    let (kernel, emulated) = (fields.text(found, "kernel"), fields.flag(found, "emulated"));
    let is_kvm = partition.is_some_and(|(partition, _)| partition == Partition::Kvm);
    for (key, at) in [("kernel", kernel.map(|(_, at)| at)), ("emulated", emulated.map(|_| at))] {
        if let (Some(at), false) = (at, is_kvm) {
            found.wrong_value(at, format!("`{key}` is for planes with partition = \"kvm\""));
        }
    }
    if partition.is_none_or(|(partition, _)| partition == Partition::Process) {
        let first = |list: &[Placed<String>]| list.first().map(|(_, at)| *at);
        let wrong = shared.map(|(_, at)| ("shared", at)).or(first(&writable).map(|at| ("writable", at)));
        let wrong = wrong.or(first(&reaches).map(|at| ("reaches", at)));
        let wrong = wrong.or(first(&statistics).map(|at| ("statistics", at)));
        if let Some((key, at)) = wrong {
            found.wrong_value(at, format!("`{key}` is for planes with partition = \"uml\" or \"kvm\""));
        }
    }
    super::guests::either(found, shared, [("reaches", &reaches), ("statistics", &statistics)]);
    // A resource of a device is as large as a power of two.
    let shared = shared.map(|(bytes, _)| if is_kvm { bytes.next_power_of_two() } else { bytes });
    let instances = fields.number(found, "instances", 1..=MOST_PLANES as i32).map(|count| count as usize);
    let netns = fields.text(found, "netns");
    if let Some((name, at)) = netns.filter(|(name, _)| !is_name(name)) {
        found.list.push(bad_name(name, "network namespace").at(at));
    }
    let interfaces = fields.texts(found, "interfaces");
    for (name, at) in interfaces.iter().filter(|(name, _)| !crate::namespace::is_interface_name(name)) {
        let wrong = format!("\"{}\" is no name for an interface", name.escape_debug());
        let help = "names have 1 to 15 bytes, no blank and none of `/:,%`, and do not begin with `-`";
        found.list.push(Diagnostic::error("E0705", wrong).at(*at).help(help));
    }
    let after = fields.texts(found, "after");
    let bound_to = fields.texts(found, "bound_to");
    let heartbeat = fields.time(found, "heartbeat");
    if let Some((time, at)) = heartbeat.filter(|(time, _)| !time.is_zero() && *time < SHORTEST_HEARTBEAT) {
        found.wrong_value(at, format!("`heartbeat` expects 100ms or more, or 0s for none, not {time:?}"));
    }
    let heartbeat =
        heartbeat.map_or(is_router.then_some(ROUTER_HEARTBEAT), |(t, _)| (!t.is_zero()).then_some(t));
    let by_default = if is_router { Ready::Notified } else { Ready::Started };
    let ready = ready(&mut fields, found, partition.map_or(Partition::Process, |(partition, _)| partition));
    let mut time = |key, default, least| {
        let Some((time, at)) = fields.time(found, key) else { return default };
        if time < least {
            found.wrong_value(at, format!("`{key}` expects {least:?} or more, not {time:?}"));
        }
        time
    };
    let start_timeout = time("start_timeout", START_TIMEOUT, SHORTEST_START);
    // 0: it is killed at once.
    let stop_timeout = time("stop_timeout", STOP_TIMEOUT, Duration::ZERO);
    let backoff = time("backoff", BACKOFF, SHORTEST_BACKOFF);
    let backoff_max = time("backoff_max", BACKOFF_MAX, SHORTEST_BACKOFF);
    let places = Places {
        name: at,
        instances: table.get("instances").map(|value| found.span(value)),
        cores: cores.as_ref().map(|(_, at)| *at),
        program: program.as_ref().map_or(at, |(_, at)| *at),
        partition: partition.map(|(_, at)| at),
        class: class.map(|(_, at)| at),
        netns: netns.map(|(_, at)| at),
        memory: memory.map(|(_, at)| at),
        interfaces: interfaces.iter().map(|(_, at)| *at).collect(),
        writable: writable.iter().map(|(_, at)| *at).collect(),
        after,
        bound_to,
        reaches,
        statistics,
    };
    let plane = Plane {
        of: None,
        kind: kind.unwrap_or(PlaneKind::User),
        program: program.as_ref().map_or(Program::Command(Vec::new()), |(program, _)| program.clone()),
        cores: cores.map(|(cores, _)| cores),
        partition: partition.map_or(Partition::Process, |(partition, _)| partition),
        shared,
        reaches: Vec::new(),
        statistics: Vec::new(),
        writable: writable.into_iter().map(|(path, _)| PathBuf::from(path)).collect(),
        kernel: kernel.map(|(path, _)| PathBuf::from(path)),
        emulated: emulated.unwrap_or(false),
        class: class.map_or(Scheduling::Normal, |(class, _)| class),
        nice: fields.number(found, "nice", -20..=19).unwrap_or(0),
        memory: memory.map(|(memory, _)| memory),
        lock_memory: fields.flag(found, "lock_memory").unwrap_or(false),
        netns: netns.map(|(name, _)| name.to_owned()),
        own_processes: fields.flag(found, "own_processes").unwrap_or(false),
        interfaces: interfaces.into_iter().map(|(name, _)| name).collect(),
        environment: fields.pairs(found, "environment"),
        after: Vec::new(),
        bound_to: Vec::new(),
        restart: fields.word(found, "restart", Restart::ALL).map_or(Restart::Always, |(restart, _)| restart),
        backoff,
        backoff_max: backoff_max.max(backoff),
        ready: ready.unwrap_or(by_default),
        start_timeout,
        heartbeat,
        stop_timeout,
        name,
    };
    fields.end(found);
    (program.is_some().then_some(plane), places, instances)
}

/// When a plane counts as ready.
fn ready(fields: &mut Fields<'_, '_>, found: &mut Findings, partition: Partition) -> Option<Ready> {
    let (text, at) = fields.text(found, "ready")?;
    let Some(ready) = Ready::read(text) else {
        found.unknown_word((text, at), "ready", Ready::FORMS.into_iter());
        return None;
    };
    if matches!(ready, Ready::Listens(_)) && partition != Partition::Process {
        found.wrong_value(at, "the sockets of an operating system instance cannot be reached from here; its program is to say that it is ready (`notified`)");
        return None;
    }
    Some(ready)
}

/// What a plane runs: `config` or `command`.
fn program(fields: &mut Fields<'_, '_>, found: &mut Findings) -> Option<Placed<Program>> {
    let config = fields.text(found, "config");
    let (set, arguments) = (fields.pairs(found, "set"), fields.texts(found, "arguments"));
    let command = fields.command(found, "command");
    match (config, command) {
        (Some((config, at)), None) => {
            let arguments = arguments.into_iter().map(|(text, _)| text).collect();
            Some((Program::Router { config: config.into(), set, arguments }, at))
        }
        (None, Some((command, at))) => {
            if !set.is_empty() || !arguments.is_empty() {
                let wrong = "`set` and `arguments` go with `config`; a command has its arguments in its list";
                found.wrong_value(at, wrong);
            }
            Some((Program::Command(command), at))
        }
        (Some(_), Some((_, at))) => {
            found.wrong_value(at, "a plane has either `config` or `command`, not both");
            None
        }
        (None, None) => {
            let help = "add config = \"FILE.click\" for a router, or command = [\"PROGRAM\", \"ARGUMENT\"]";
            // A value that was wrong has been reported.
            if found.list.iter().all(|d| d.span.is_none_or(|at| at.start < fields.at.start)) {
                fields.missing(found, "program", help);
            }
            None
        }
    }
}

/// Resolves the names of other planes; finds unknown ones and circles.
fn dependencies(found: &mut Findings, planes: &mut [Plane], places: &[Places]) {
    let names: Vec<String> = planes.iter().map(|plane| plane.name.clone()).collect();
    let tables: Vec<Option<String>> = planes.iter().map(|plane| plane.of.clone()).collect();
    let routers: Vec<bool> =
        planes.iter().map(|plane| matches!(plane.program, Program::Router { .. })).collect();
    let mut find = |(name, at): &Placed<String>| {
        let is = |id: &usize| names[*id] == *name || tables[*id].as_ref() == Some(name);
        let all: Vec<usize> = (0..names.len()).filter(is).collect();
        // All instances of a plane have the same setting.
        if all.is_empty() && found.list.iter().all(|known| known.span != Some(*at)) {
            let unknown = Diagnostic::error("E0706", format!("there is no plane `{name}`")).at(*at);
            let near = lang::suggest(name, names.iter().map(String::as_str));
            found.list.push(unknown.did_you_mean(near));
        }
        all
    };
    for (plane, place) in planes.iter_mut().zip(places) {
        plane.after = place.after.iter().flat_map(&mut find).collect();
        plane.bound_to = place.bound_to.iter().flat_map(&mut find).collect();
        plane.reaches = place.reaches.iter().flat_map(&mut find).collect();
    }
    for (plane, place) in planes.iter().zip(places) {
        // Only where all names are known do they stand side by side.
        let named =
            plane.reaches.iter().zip(&place.reaches).filter(|_| plane.reaches.len() == place.reaches.len());
        for (_, (name, at)) in named.filter(|(reached, _)| !routers[**reached]) {
            found.wrong_value(
                *at,
                format!("plane `{name}` runs no router (`config`), so it has no control socket"),
            );
        }
    }
    // Planes that can be started, one after the other; what is left is on a circle or behind one.
    let mut done = vec![false; planes.len()];
    while let Some(next) = (0..planes.len()).find(|&i| !done[i] && planes[i].after.iter().all(|&b| done[b])) {
        done[next] = true;
    }
    if let Some(first) = done.iter().position(|done| !done) {
        let on_it: Vec<&str> = (0..planes.len()).filter(|&i| !done[i]).map(|i| &*names[i]).collect();
        let wrong = format!("planes wait for each other: {}", on_it.join(", "));
        let at = places[first].after.first().map_or(places[first].name, |(_, at)| *at);
        found.list.push(Diagnostic::error("E0706", wrong).at(at).help("remove one of their `after`"));
    }
}

/// Holds the cores of planes against the placement.
fn placed(found: &mut Findings, deployment: &Deployment, places: &[Places]) {
    for (i, (plane, place)) in deployment.planes.iter().zip(places).enumerate() {
        let Some(cores) = &plane.cores else {
            if deployment.placement == Placement::Amp {
                let wrong = format!("plane `{}` has no cores of its own", plane.name);
                let help = "add cores = \"N\", or placement = \"smp\" if all planes share all cores";
                found.list.push(Diagnostic::error("E0707", wrong).at(place.name).help(help));
            }
            continue;
        };
        if deployment.placement == Placement::Smp {
            let wrong =
                format!("plane `{}` has cores of its own, but all planes share all cores", plane.name);
            let help = "add placement = \"amp\" at the top, or remove `cores`";
            found.list.push(Diagnostic::error("E0707", wrong).at(place.cores).help(help));
            continue;
        }
        if let Some(all) = &deployment.cores {
            let beyond = cores.without(all);
            if !beyond.is_empty() {
                let wrong =
                    format!("plane `{}` uses cores {beyond}, which the deployment has not", plane.name);
                let help = format!("the deployment's `cores` are {all}");
                found.list.push(Diagnostic::error("E0707", wrong).at(place.cores).help(help));
            }
        }
        for (other, theirs) in deployment.planes.iter().zip(places).take(i) {
            let twice = other.cores.as_ref().map(|other| other.and(cores)).filter(|both| !both.is_empty());
            if let Some(twice) = twice {
                let wrong = format!("cores {twice} are given to both `{}` and `{}`", other.name, plane.name);
                let wrong = Diagnostic::error("E0707", wrong).at(place.cores);
                found.list.push(wrong.note(theirs.cores, "given here first"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Read {
        read(Path::new("/etc/junctor/edge.toml"), text)
    }

    #[test]
    fn channels_have_no_more_endpoints_than_a_domain() {
        let plane = "[planes.a]\nkind = \"user\"\nconfig = \"a.click\"\n";
        let with = |calls: usize, others: usize| {
            let calls = (0..calls).map(|n| format!("[channels.c{n}]\nkind = \"calls\"\nplane = \"a\"\n"));
            let others = (0..others).map(|n| format!("[channels.p{n}]\n"));
            calls.chain(others).fold(plane.to_owned(), |text, channel| text + &channel)
        };
        for (calls, others) in [(0, 64), (32, 0), (20, 24)] {
            let all = check(&with(calls, others)).diagnostics;
            assert!(all.is_empty(), "{all:?}");
        }
        for (calls, others, first) in [(0, 66, "p64"), (33, 0, "c32"), (32, 1, "p0"), (20, 26, "p24")] {
            let text = with(calls, others);
            let all = check(&text).diagnostics;
            let [wrong] = &all[..] else { panic!("{all:?}") };
            let expected =
                format!("channel `{first}` is one too many: channels have at most 64 endpoints together");
            assert_eq!((wrong.code, wrong.message.as_str()), ("E0703", expected.as_str()));
            assert!(wrong.span.is_some_and(|at| text[at.start as usize..].starts_with(first)), "{wrong:?}");
        }
    }

    #[test]
    fn a_deployment_is_read() {
        let text = r#"
            placement = "amp"
            [channels.spill]
            count = 100
            mode = "0660"
            [channels.steer]
            kind = "calls"
            plane = "user"
            [channels.news]
            kind = "messages"
            [planes.user]
            kind = "user"
            config = "router.click"
            set = { IN = "eth0", N = 3 }
            cores = "1-2"
            scheduler = "fifo:5"
            memory = "512M"
            [planes.control]
            kind = "control"
            command = ["zebra", "-f", "zebra.conf"]
            cores = "0"
            after = ["user"]
            ready = "unix:zserv"
            restart = "on-failure"
            heartbeat = "2s"
            [planes.agent]
            kind = "management"
            command = "sleep 5"
            cores = "3"
            after = ["user", "control"]
        "#;
        let read = check(text);
        assert!(read.diagnostics.is_empty(), "{}", lang::render(&read.diagnostics, &read.sources, false));
        let deployment = read.deployment.unwrap();
        assert_eq!(
            (deployment.name.as_str(), deployment.directory.as_path()),
            ("edge", Path::new("/etc/junctor"))
        );
        let [spill, calls, answers, news] = &deployment.channels[..] else {
            panic!("{:?}", deployment.channels)
        };
        let kind = icc::ChannelKind::Packets { longest: 2048, cells: 128 };
        assert_eq!((&*spill.name, spill.kind, spill.rights.mode), ("spill", kind, 0o660));
        assert_eq!((&*news.name, news.port, news.kind.name()), ("news", 4, "messages"));
        assert_eq!((&*calls.name, &*answers.name, answers.port), ("steer.calls", "steer.answers", 3));
        let [steer] = &deployment.calls[..] else { panic!("{:?}", deployment.calls) };
        assert_eq!((&*steer.name, &*steer.plane), ("steer", "user"));
        let [user, control, agent] = &deployment.planes[..] else { panic!("{:?}", deployment.planes) };
        assert_eq!(
            (user.class, user.memory, &user.ready),
            (Scheduling::Fifo(5), Some(512 << 20), &Ready::Notified)
        );
        assert_eq!((&control.ready, &agent.ready), (&Ready::Listens("zserv".into()), &Ready::Started));
        assert_eq!(user.cores, Cpus::parse_list("1-2"));
        let set = vec![("IN".to_owned(), "eth0".to_owned()), ("N".to_owned(), "3".to_owned())];
        assert_eq!(
            user.program,
            Program::Router { config: "router.click".into(), set, arguments: Vec::new() }
        );
        assert_eq!((control.after.as_slice(), control.restart), (&[0][..], Restart::OnFailure));
        assert_eq!(control.heartbeat, Some(Duration::from_secs(2)));
        assert_eq!(agent.after, [0, 1]);
        let shell = ["/bin/sh", "-c", "exec sleep 5"].map(str::to_owned).to_vec();
        assert_eq!(agent.program, Program::Command(shell));
    }

    /// Each line of a small file that is wrong in one way, and what is said.
    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let plane = "[planes.a]\nkind = \"user\"\nconfig = \"a.click\"\n";
        for (text, said) in [
            ("planes = 3", "`planes` expects tables such as [planes.user], not integer"),
            ("", "a deployment has no planes"),
            ("name = [", "E0701"),
            ("[planes.\"a b\"]\nkind = \"user\"\ncommand = \"x\"", "is no name for a plane"),
            (&format!("placment = \"amp\"\n{plane}"), "did you mean `placement`?"),
            (&format!("{plane}confg = 3"), "did you mean `config`?"),
            (&format!("{plane}scheduler = \"fifo:100\""), "`scheduler` expects normal, batch"),
            (&format!("{plane}nice = 20"), "`nice` expects a whole number from -20 to 19"),
            (&format!("{plane}memory = \"12\""), "`memory` expects an amount of at least 1M"),
            (&format!("{plane}memory = \"18446744073709551615G\""), "`memory` expects an amount"),
            (&format!("{plane}heartbeat = \"1ms\""), "`heartbeat` expects 100ms or more"),
            (&format!("{plane}backoff = \"0s\""), "`backoff` expects 1ms or more"),
            (&format!("{plane}backoff_max = \"0s\""), "`backoff_max` expects 1ms or more"),
            (&format!("{plane}start_timeout = \"0s\""), "`start_timeout` expects 100ms or more"),
            (&format!("{plane}interfaces = [\"../eth0\"]"), "is no name for an interface"),
            (
                "[planes.a-b]\nkind = \"user\"\ncommand = \"x\"\n[planes.A_B]\nkind = \"user\"\ncommand = \"x\"",
                "too much alike",
            ),
            (&format!("{plane}heartbeat = 5"), "`heartbeat` expects a time"),
            (&format!("{plane}command = \"x\""), "either `config` or `command`, not both"),
            (&format!("{plane}after = [\"b\"]"), "there is no plane `b`"),
            (&format!("{plane}after = [\"a\"]"), "planes wait for each other: a"),
            (&format!("{plane}after = [1]"), "`after` expects strings, not integer"),
            (&format!("{plane}cores = \"1\""), "but all planes share all cores"),
            (&format!("placement = \"amp\"\n{plane}"), "has no cores of its own"),
            (&format!("{plane}partition = \"xen\""), "expects one of process, uml, kvm"),
            (&format!("{plane}ready = \"unix:\""), "`ready` expects one of notified, started, unix:PATH"),
            (&format!("{plane}ready = \"notifed\""), "did you mean `notified`?"),
            (
                "[planes.a]\nkind = \"control\"\ncommand = \"x\"\npartition = \"uml\"\nready = \"unix:x\"",
                "cannot be reached from here",
            ),
            (&format!("{plane}shared = \"4M\""), "`shared` is for planes with partition"),
            (&format!("{plane}reaches = [\"a\"]"), "`reaches` is for planes with partition"),
            (
                "[planes.a]\nkind = \"control\"\ncommand = \"x\"\npartition = \"uml\"\nreaches = [\"a\"]",
                "plane `a` runs no router",
            ),
            (
                "[planes.a]\nkind = \"control\"\ncommand = \"x\"\npartition = \"uml\"\nreaches = [\"b\"]",
                "there is no plane `b`",
            ),
            (&format!("{plane}statistics = [\"x\"]"), "`statistics` is for planes with partition"),
            (
                &format!(
                    "{plane}[planes.g]\nkind = \"control\"\ncommand = \"x\"\npartition = \"uml\"\nstatistics = [\"x\"]"
                ),
                "there is no channel `x`",
            ),
            (
                &format!(
                    "{plane}[planes.g]\nkind = \"control\"\ncommand = \"x\"\npartition = \"uml\"\nstatistics = [\"x\"]\n[channels.x]"
                ),
                "channel `x` carries no statistics",
            ),
            (
                &format!(
                    "{plane}[planes.g]\nkind = \"control\"\ncommand = \"x\"\npartition = \"uml\"\nstatistics = [\"x\"]\n[channels.x]\nkind = \"calls\"\nplane = \"a\""
                ),
                "channel `x` carries no statistics",
            ),
            (
                &format!(
                    "{plane}[planes.g]\nkind = \"control\"\ncommand = \"x\"\npartition = \"uml\"\nshared = \"1M\"\nstatistics = [\"x\"]\n[channels.x]\nkind = \"statistics\"\nplane = \"a\""
                ),
                "either `shared` or `statistics`",
            ),
            (&format!("{plane}[channels.x]\nkind = \"frames\""), "`kind` expects one of packets, messages"),
            (&format!("{plane}[channels.x]\nkind = \"calls\""), "channel `x` has no plane"),
            (&format!("{plane}[channels.x]\nkind = \"calls\"\nplane = \"usr\""), "there is no plane `usr`"),
            (&format!("{plane}[channels.x]\nkind = \"statistics\""), "channel `x` has no plane"),
            (&format!("{plane}[channels.x]\nkind = \"statistics\"\nplane = \"b\""), "there is no plane `b`"),
            (
                "[planes.a]\nkind = \"control\"\ncommand = \"x\"\n[channels.x]\nkind = \"statistics\"\nplane = \"a\"",
                "plane `a` is no router, so it has no statistics",
            ),
            (
                &format!("{plane}instances = 2\n[channels.x]\nkind = \"statistics\"\nplane = \"a\""),
                "name one of them, such as `a.0`",
            ),
            (
                &format!("{plane}[channels.x]\nkind = \"statistics\"\nplane = \"a\"\nsize = \"4000\""),
                "`size` expects an amount from 4K to 64M",
            ),
            (
                &format!("{plane}[channels.x]\nkind = \"statistics\"\nplane = \"a\"\nsize = \"65M\""),
                "`size` expects an amount from 4K to 64M",
            ),
            (
                &format!("{plane}[channels.x]\nkind = \"statistics\"\nplane = \"a\"\nlongest = 9000"),
                "channel `x` has no setting `longest`",
            ),
            (&format!("{plane}[channels.x]\nsize = \"1M\""), "channel `x` has no setting `size`"),
            (&format!("{plane}[channels.x]\nplane = \"user\""), "channel `x` has no setting `plane`"),
            (&format!("{plane}[channels.x]\nlongest = 70000"), "packets have at most 65536 bytes"),
            (&format!("{plane}[channels.x]\nmode = \"rw\""), "`mode` expects rights such as"),
            (
                &format!("{plane}[channels.x]\nkind = \"scalars\"\nbits = 12"),
                "`bits` expects 8, 16, 32 or 64",
            ),
            (&format!("{plane}[channels.\"a b\"]"), "is no name for a channel"),
            (&format!("{plane}[channels.x]\nframes = 3"), "channel `x` has no setting `frames`"),
            (&format!("{plane}instances = 0"), "`instances` expects a whole number from 1 to 64"),
            (
                &format!("placement = \"amp\"\n{plane}cores = \"0-2\"\ninstances = 2"),
                "3 cores of plane `a` cannot be shared evenly",
            ),
            ("[planes.a]\nkind = \"control\"\ncommand = \"x\"\ninstances = 2", "plane `a` runs no router"),
            (&format!("{plane}instances = 3\nafter = [\"b\"]"), "there is no plane `b`"),
            ("[planes.a]\nconfig = \"a\"", "plane `a` has no kind"),
            ("[planes.a]\nkind = \"user\"", "plane `a` has no program"),
            ("[planes.a]\nkind = \"user\"\ncommand = []", "`command` names no program"),
        ] {
            let read = check(text);
            let all = lang::render(&read.diagnostics, &read.sources, false);
            assert!(all.contains(said), "{text}\n{all}");
            assert!(read.deployment.is_none(), "{text}");
            assert_eq!(read.diagnostics.len(), 1, "{text}\n{all}");
        }
    }

    #[test]
    fn guests_have_the_memory_that_their_channels_take() {
        let text = |partition: &str, more: &str| {
            format!(
                "[planes.a]\nkind = \"user\"\nconfig = \"a\"\n\
                 [planes.g]\nkind = \"control\"\ncommand = \"x\"\npartition = \"{partition}\"\n{more}\n\
                 [channels.load]\nkind = \"statistics\"\nplane = \"a\"\nsize = \"64K\"\n[channels.other]\n"
            )
        };
        let shared = |partition: &str, more: &str| {
            let deployment = check(&text(partition, more)).deployment.unwrap();
            let guest = &deployment.planes[1];
            let names: Vec<String> = guest.statistics.iter().map(|c| c.name.clone()).collect();
            (guest.shared, names)
        };
        let both = "reaches = [\"a\"]\nstatistics = [\"load\"]";
        assert_eq!(shared("uml", ""), (None, Vec::new()));
        let (reaching, _) = shared("uml", "reaches = [\"a\"]");
        let (reading, names) = shared("uml", "statistics = [\"load\"]");
        assert_eq!(names, ["load"]);
        // Two slots of 64 KiB.
        assert!(reading > Some(128 << 10) && reading < Some(140 << 10), "{reading:?}");
        let all = shared("uml", both).0.unwrap();
        assert!(all > reading.unwrap() && all < reading.unwrap() + reaching.unwrap());
        assert_eq!(shared("kvm", both).0, Some(all.next_power_of_two()));
    }

    #[test]
    fn instances_are_planes_with_a_share_of_the_cores() {
        let text = "placement = \"amp\"\n[planes.user]\nkind = \"user\"\nconfig = \"a\"\ncores = \"2-5\"\ninstances = 2\n\
            [planes.x]\nkind = \"control\"\ncommand = \"x\"\ncores = \"0\"\nafter = [\"user\"]\n";
        let deployment = check(text).deployment.unwrap();
        let all: Vec<(&str, String)> = deployment
            .planes
            .iter()
            .map(|plane| (plane.name.as_str(), plane.cores.as_ref().unwrap().to_list()))
            .collect();
        assert_eq!(all, [("user.0", "2-3".into()), ("user.1", "4-5".into()), ("x", "0".into())]);
        assert_eq!(deployment.planes[2].after, [0, 1]);
        assert_eq!(deployment.named("user").collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn all_errors_are_said_at_once() {
        let text = "placement = \"amp\"\ncores = \"0-1\"\n\
            [planes.a]\nkind = \"user\"\nconfig = \"a\"\ncores = \"0-1\"\n\
            [planes.b]\nkind = \"contrl\"\ncommand = \"x\"\ncores = \"1-2\"\nafter = [\"c\"]\n";
        let read = check(text);
        let all = lang::render(&read.diagnostics, &read.sources, false);
        for said in [
            "did you mean `control`?",
            "cores 1 are given to both `a` and `b`",
            "edge.toml:10:9",
            "uses cores 2, which the deployment has not",
            "there is no plane `c`",
        ] {
            assert!(all.contains(said), "{said}\n{all}");
        }
    }

    proptest::proptest! {
        /// Reading any file ends with a deployment or with what is wrong.
        #[test]
        fn any_text_is_read(text in "([a-z.\\[\\]{}=\"\n #0-9-]|planes|kind|config|command|after|cores){0,60}") {
            let read = check(&text);
            proptest::prop_assert!(read.deployment.is_some() || !read.diagnostics.is_empty());
            let _ = lang::render(&read.diagnostics, &read.sources, false);
        }
    }
}
