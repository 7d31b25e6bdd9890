// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who the process of a plane is, written down by itself: its number, and when it began, so that another process that gets the
//! number later is not taken for it. A supervisor that was killed is followed by one that finds its planes by these.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;

use crate::machine::text;

/// A process that cannot be mistaken for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub pid: u32,
    /// When it began, in clock ticks since the machine started (proc(5)).
    pub began: u64,
    /// Which start of the machine that was.
    boot: String,
}

/// When a process began, counted from its state.
const BEGAN: usize = 19;

fn boot() -> String {
    text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// What the kernel says of a process from its state on (proc(5)).
///
/// # Errors
/// [`ErrorKind::NotFound`] if there is no such process, or only what is left of it until it is waited for.
fn fields(pid: u32) -> std::io::Result<Vec<String>> {
    let gone = || std::io::Error::from(ErrorKind::NotFound);
    let stat = std::fs::read(format!("/proc/{pid}/stat")).map_err(|why| {
        // It ended while it was read.
        if why.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) { gone() } else { why }
    })?;
    let stat = String::from_utf8_lossy(&stat);
    // The name, in parentheses, may hold anything.
    let fields = &stat[stat.rfind(')').ok_or_else(gone)? + 1..];
    let fields: Vec<String> = fields.split_ascii_whitespace().map(str::to_owned).collect();
    match fields.first().map(String::as_str) {
        None | Some("Z" | "X") => Err(gone()),
        Some(_) => Ok(fields),
    }
}

/// A field of what the kernel says of a process, counted from its state.
pub(crate) fn field(pid: u32, number: usize) -> Option<u64> {
    some_fields(pid, [number]).map(|[field]| field)
}

/// Several such fields, as they are at one moment.
pub(crate) fn some_fields<const N: usize>(pid: u32, numbers: [usize; N]) -> Option<[u64; N]> {
    let fields = fields(pid).ok()?;
    let mut found = [0; N];
    for (field, number) in found.iter_mut().zip(numbers) {
        *field = fields.get(number)?.parse().ok()?;
    }
    Some(found)
}

/// When a process began.
pub(crate) fn began(pid: u32) -> Option<u64> {
    field(pid, BEGAN)
}

/// The session that a process belongs to.
pub(crate) fn session(pid: Pid) -> Option<Pid> {
    Pid::from_raw(field(pid.as_raw_nonzero().get() as u32, 3)? as i32)
}

impl Record {
    /// That of the calling process.
    pub(crate) fn of_this_process() -> Option<Record> {
        let pid = std::process::id();
        Some(Record { pid, began: began(pid)?, boot: boot() })
    }

    pub(crate) fn text(&self) -> String {
        format!("{} {} {}\n", self.pid, self.began, self.boot)
    }

    pub(crate) fn parse(text: &str) -> Option<Record> {
        let mut words = text.split_ascii_whitespace();
        let (pid, began) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Record { pid, began, boot: words.next()?.to_owned() })
    }

    /// Reads one from its file, if the process lives.
    #[must_use]
    pub fn living(path: &Path) -> Option<Record> {
        Record::parse(&std::fs::read_to_string(path).ok()?).filter(Record::is_alive)
    }

    /// Whether the process lives. One that cannot be asked about, for want of descriptors for instance, does.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let lives = || match fields(self.pid) {
            Ok(fields) => fields.get(BEGAN).is_none_or(|began| *began == self.began.to_string()),
            Err(why) => why.kind() != ErrorKind::NotFound,
        };
        let boot = boot();
        (boot.is_empty() || self.boot == boot) && lives()
    }

    /// For how long it has run.
    #[must_use]
    pub fn age(&self) -> Duration {
        let up = text("/proc/uptime").unwrap_or_default();
        let up: f64 = up.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
        let began = self.began as f64 / rustix::param::clock_ticks_per_second().max(1) as f64;
        Duration::from_secs_f64((up - began).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_again_and_no_other_is_taken_for_it() {
        let mine = Record::of_this_process().unwrap();
        assert_eq!(Record::parse(&mine.text()), Some(mine.clone()));
        assert!(mine.is_alive() && mine.age() < Duration::from_secs(3600));
        let later = Record { began: mine.began + 1, ..mine.clone() };
        let earlier = Record { boot: "another".into(), ..mine };
        assert!(!later.is_alive() && !earlier.is_alive());
        for bad in ["", "1", "1 2", "x 2 y", "4294967296 1 b"] {
            assert_eq!(Record::parse(bad), None);
        }
    }

    #[test]
    fn one_that_has_ended_is_not_alive() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let record = Record { pid: child.id(), began: began(child.id()).unwrap(), boot: boot() };
        assert!(record.is_alive());
        child.kill().unwrap();
        // Before and after it was waited for.
        while record.is_alive() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!record.is_alive());
    }
}
