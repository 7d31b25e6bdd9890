// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a router says after its run: values of handlers, what elements sent and dropped, and whether all packets are accounted for.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use engine::Router;

/// The configuration has no element that a pattern or class means.
#[derive(Debug, thiserror::Error)]
#[error("no element {matching}'{pattern}'")]
pub struct NoElement {
    matching: &'static str,
    pattern: String,
}

/// The handlers that `pattern.handler` means where no element is called so: by glob or class, of elements that have it.
///
/// # Errors
/// No element is meant.
pub fn expand(full: &str, router: &Router) -> Result<Option<Vec<String>>, NoElement> {
    let shared = router.shared();
    let (pattern, handler) = full.rsplit_once('.').unwrap_or(("", full));
    if pattern.is_empty() || shared.lookup(pattern, None).is_some() {
        return Ok(None);
    }
    let glob = pattern.contains(['*', '?', '[']);
    let matches = |e: &engine::ElementInfo| {
        if glob { engine::glob_match(pattern, &e.name) } else { e.class.name == pattern }
    };
    let elements: Vec<_> = shared.elements.iter_enumerated().filter(|(_, e)| matches(e)).collect();
    if elements.is_empty() {
        let matching = if glob { "matching " } else { "" };
        return Err(NoElement { matching, pattern: pattern.to_owned() });
    }
    let having = elements.into_iter().filter(|(i, _)| shared.is_readable(*i, handler));
    Ok(Some(having.map(|(_, e)| format!("{}.{handler}", e.name)).collect()))
}

/// An exit status that a handler's value asks for: an integer, or a boolean.
pub fn exit_status(value: &str) -> Option<u8> {
    let number = engine::parse_integer(value).map(|n| n as u8);
    number.or_else(|| engine::args::parse_bool(value).map(|good| u8::from(!good)))
}

/// What each element sent and dropped in a run.
pub fn report(router: &Router) -> String {
    let mut text = String::new();
    let width = router.shared().elements.iter().map(|e| e.name.len()).max().unwrap_or(0);
    for (info, stats) in router.shared().elements.iter().zip(router.report().elements) {
        let sent: Vec<String> = stats.outputs.iter().map(|o| o.packets.to_string()).collect();
        let _ = write!(
            text,
            "{:width$}  sent {}",
            info.name,
            if sent.is_empty() { "-".into() } else { sent.join(" ") }
        );
        for (reason, n) in &stats.drops {
            let _ = write!(text, "  {reason} {n}");
        }
        if stats.held > 0 {
            let _ = write!(text, "  held {}", stats.held);
        }
        text.push('\n');
    }
    for lock in router.shared().locks().iter().filter(|l| l.stats.contended > 0) {
        let (s, waited) = (lock.stats, |ns: u64| ns as f64 / 1e3);
        let _ = writeln!(
            text,
            "lock of {} ({}, {}): taken {} times, {} had to wait, {:.1} us in all and {:.1} us at worst",
            lock.name,
            lock.how,
            lock.made_at,
            s.acquisitions,
            s.contended,
            waited(s.wait_ns),
            waited(s.worst_ns)
        );
    }
    text
}

/// Adds a line for each element whose packets are not accounted for, and one for the whole router. A configuration that came later
/// has counters of two, so it has no account.
///
/// # Errors
/// The file cannot be written.
pub fn account(router: &Router, begun_as: &Arc<()>, file: &str) -> io::Result<()> {
    use io::Write as _;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    let (shared, report) = (router.shared(), router.report());
    if !router.left_behind().is_empty() || !Arc::ptr_eq(shared.lineage(), begun_as) {
        return writeln!(file, "no account");
    }
    for wrong in report.unaccounted(shared) {
        writeln!(file, "{wrong}")?;
    }
    let usage = packet::memory().usage();
    let frames = usage.total - usage.free;
    if !report.explains(frames) {
        writeln!(
            file,
            "{frames} frames of packet memory are in use, which is not what elements say that they hold"
        )?;
    }
    let moved: u64 = report.elements.iter().map(|e| e.inputs).sum();
    writeln!(file, "accounted for {moved}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses() {
        assert_eq!(
            ["0", "3", "true", "false", "x"].map(exit_status),
            [Some(0), Some(3), Some(0), Some(1), None]
        );
    }
}
