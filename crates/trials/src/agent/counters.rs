// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a machine counts by itself: packets by interface, processor time, interrupts. Read straight from `/proc` and `/sys`, by no other
//! program, so that reading disturbs little of what is measured.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Instant, SystemTime};

use crate::Error;
use procfs::{CpuTime, CurrentSI as _, KernelStats};
use serde::{Deserialize, Serialize};

/// All counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counters {
    /// When they were read, by the machine's wall clock: nanoseconds since 1970.
    pub(super) at_ns: u64,
    /// The same since the agent began, by a clock that nobody sets.
    pub(super) uptime_ns: u64,
    /// How long reading took.
    pub(super) reading_ns: u64,
    /// By name.
    pub(super) interfaces: BTreeMap<String, Interface>,
    /// By number.
    pub(super) processors: Vec<Processor>,
    /// By number or name and who asks for it; one count for each processor.
    pub(super) interrupts: BTreeMap<String, Vec<u64>>,
    /// By kind; one count for each processor.
    pub(super) softirqs: BTreeMap<String, Vec<u64>>,
}

/// What an interface counted since it is there (`/proc/net/dev`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Interface {
    pub(super) rx_packets: u64,
    pub(super) rx_bytes: u64,
    pub(super) rx_dropped: u64,
    pub(super) rx_errors: u64,
    pub(super) tx_packets: u64,
    pub(super) tx_bytes: u64,
    pub(super) tx_dropped: u64,
    pub(super) tx_errors: u64,
    /// Where `/sys` has this interface. Agents of before do not tell it.
    #[serde(default)]
    pub(super) sys: Option<Sys>,
}

/// Where the kernel describes interfaces.
const CLASS: &str = "/sys/class/net";

/// Counters of an interface that only `/sys/class/net` has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sys {
    /// Packets for which the hardware had no room; `/proc/net/dev` has them among those that were dropped.
    pub(super) rx_missed: u64,
    /// Packets that nobody wanted.
    pub(super) rx_nohandler: u64,
    /// How often the link came or went.
    pub(super) carrier_changes: u64,
}

/// Packets and bytes, received and sent: what `/proc` and `/sys` both tell.
type Told = [u64; 4];

impl Interface {
    fn told(&self) -> Told {
        [self.rx_packets, self.rx_bytes, self.tx_packets, self.tx_bytes]
    }
}

impl Sys {
    /// What `class` has of an interface, if it has all of it.
    fn read(class: &Path, name: &str) -> Option<(Told, Sys)> {
        let number = |file: &str| -> Option<u64> {
            std::fs::read_to_string(class.join(name).join(file)).ok()?.trim().parse().ok()
        };
        let counted = |what: &str| number(&format!("statistics/{what}"));
        let told =
            [counted("rx_packets")?, counted("rx_bytes")?, counted("tx_packets")?, counted("tx_bytes")?];
        let sys = Sys {
            rx_missed: counted("rx_missed_errors")?,
            rx_nohandler: counted("rx_nohandler")?,
            carrier_changes: number("carrier_changes")?,
        };
        Some((told, sys))
    }
}

/// What interfaces have counted, by `read`, with what `class` has besides. That may be of another network namespace than the process's, with other
/// interfaces of the same names: then what both tell does not lie between what was read before and after.
fn interfaces(
    class: &Path,
    mut read: impl FnMut() -> Result<BTreeMap<String, Interface>, Error>,
) -> Result<BTreeMap<String, Interface>, Error> {
    let before = read()?;
    let seen = before.keys().map(|name| Sys::read(class, name)).collect::<Vec<_>>();
    let mut after = read()?;
    for ((name, first), seen) in before.iter().zip(seen) {
        let (Some(interface), Some((told, sys))) = (after.get_mut(name), seen) else { continue };
        let (low, high) = (first.told(), interface.told());
        let is_this =
            told.iter().zip(low.iter().zip(&high)).all(|(n, (low, high))| (low..=high).contains(&n));
        interface.sys = is_this.then_some(sys);
    }
    Ok(after)
}

/// Reads `/proc/net/dev`.
fn devices() -> Result<BTreeMap<String, Interface>, Error> {
    let devices = procfs::net::dev_status().map_err(|why| Error::Counters { file: "/proc/net/dev", why })?;
    let interface = |d: procfs::net::DeviceStatus| Interface {
        rx_packets: d.recv_packets,
        rx_bytes: d.recv_bytes,
        rx_dropped: d.recv_drop,
        rx_errors: d.recv_errs,
        tx_packets: d.sent_packets,
        tx_bytes: d.sent_bytes,
        tx_dropped: d.sent_drop,
        tx_errors: d.sent_errs,
        sys: None,
    };
    Ok(devices.into_iter().map(|(name, device)| (name, interface(device))).collect())
}

/// What a processor did since the machine runs, in ticks (`/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Processor {
    /// Programs, those of lower priority too.
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) irq: u64,
    pub(super) softirq: u64,
    /// Taken by the host of a virtual machine.
    pub(super) steal: u64,
    /// Nothing to do, or waiting for a disk.
    pub(super) idle: u64,
}

impl Processor {
    fn of(time: &CpuTime) -> Processor {
        let some = |ticks: Option<u64>| ticks.unwrap_or(0);
        Processor {
            user: time.user + time.nice,
            system: time.system,
            irq: some(time.irq),
            softirq: some(time.softirq),
            steal: some(time.steal),
            idle: time.idle + some(time.iowait),
        }
    }

    /// Names and values, in the order in which they are reported.
    pub(super) fn parts(&self) -> [(&'static str, u64); 6] {
        let Processor { user, system, irq, softirq, steal, idle } = *self;
        [
            ("user", user),
            ("system", system),
            ("irq", irq),
            ("softirq", softirq),
            ("steal", steal),
            ("idle", idle),
        ]
    }
}

/// What some processors together did since the machine runs, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    busy: u64,
    idle: u64,
}

impl Ticks {
    /// Of the processors with these numbers. None if there are none, or they are not there.
    pub(crate) fn of(numbers: &[usize]) -> Option<Ticks> {
        let stat = KernelStats::current().ok().filter(|_| !numbers.is_empty())?;
        let one = |number: &usize| stat.cpu_time.get(*number).map(Processor::of);
        let all = numbers.iter().map(one).collect::<Option<Vec<Processor>>>()?;
        // What the host took was nobody's here.
        let busy = all.iter().map(|p| p.user + p.system + p.irq + p.softirq).sum();
        Some(Ticks { busy, idle: all.iter().map(|p| p.idle).sum() })
    }

    /// Share of the time until `later` in which they were busy, 0 to 1. None if no time has gone by.
    pub(crate) fn share_until(&self, later: &Ticks) -> Option<f64> {
        let (busy, idle) = (later.busy.saturating_sub(self.busy), later.idle.saturating_sub(self.idle));
        (busy + idle > 0).then(|| busy as f64 / (busy + idle) as f64)
    }
}

/// The wall clock: nanoseconds since the epoch.
pub(super) fn wall_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64)
}

impl Counters {
    /// Reads all of them. `began` is when the agent did.
    pub(super) fn read(began: Instant) -> Result<Counters, Error> {
        let started = Instant::now();
        let at_ns = wall_ns();
        let stat = KernelStats::current().map_err(|why| Error::Counters { file: "/proc/stat", why })?;
        let table = |path: &str| {
            std::fs::read_to_string(path).map(|text| by_processor(&text)).map_err(Error::system(path))
        };
        Ok(Counters {
            at_ns,
            uptime_ns: started.duration_since(began).as_nanos() as u64,
            interfaces: interfaces(Path::new(CLASS), devices)?,
            processors: stat.cpu_time.iter().map(Processor::of).collect(),
            interrupts: table("/proc/interrupts")?,
            softirqs: table("/proc/softirqs")?,
            reading_ns: started.elapsed().as_nanos() as u64,
        })
    }
}

/// The rows of a table whose first line names processors: after each row's name a count for each of them, then perhaps words, which
/// become part of the name. Rows that nothing was counted in are left out.
fn by_processor(text: &str) -> BTreeMap<String, Vec<u64>> {
    let mut lines = text.lines();
    let processors = lines.next().map_or(0, |head| head.split_ascii_whitespace().count());
    let row = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let counts: Vec<u64> = words.iter().take(processors).map_while(|word| word.parse().ok()).collect();
        let name = [&[name.trim()], &words[counts.len()..]].concat().join(" ");
        counts.iter().any(|count| *count > 0).then_some((name, counts))
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_interrupts_are_read() {
        let text = "           CPU0       CPU1\n  0:        126          0   IO-APIC   2-edge      timer\n 24:          0          0  PCI-MSI 1-edge  eth0\n\
                    NMI:          1          2   Non-maskable interrupts\nERR:          3\n";
        let rows = by_processor(text);
        let rows: Vec<(&str, &[u64])> =
            rows.iter().map(|(name, counts)| (name.as_str(), &counts[..])).collect();
        assert_eq!(
            rows,
            [
                ("0 IO-APIC 2-edge timer", &[126, 0][..]),
                ("ERR", &[3]),
                ("NMI Non-maskable interrupts", &[1, 2])
            ]
        );
        assert!(by_processor("").is_empty() && by_processor("CPU0\nno colon\n").is_empty());
    }

    #[test]
    fn what_sysfs_has_is_taken_if_it_is_of_the_same_interfaces() {
        let class = tempfile::tempdir().expect("a directory");
        for (name, rx_packets) in [("same", 5), ("other", 11)] {
            let statistics = class.path().join(name).join("statistics");
            std::fs::create_dir_all(&statistics).expect("a directory");
            let put = |file: &str, count: u64| {
                std::fs::write(statistics.join(file), format!("{count}\n")).expect("written");
            };
            for file in ["rx_bytes", "tx_packets", "tx_bytes", "rx_nohandler"] {
                put(file, 0);
            }
            put("rx_packets", rx_packets);
            put("rx_missed_errors", 3);
            put("../carrier_changes", 2);
        }
        // Five packets come between both readings.
        let mut count = 0;
        let read = || {
            count += 5;
            let interface = Interface { rx_packets: count, ..Interface::default() };
            Ok(["same", "other", "unknown"].map(|name| (name.to_owned(), interface)).into())
        };
        let all = interfaces(class.path(), read).expect("counters");
        let sys = all.values().map(|interface| interface.sys).collect::<Vec<_>>();
        // By name: other, same, unknown.
        assert_eq!(sys, [None, Some(Sys { rx_missed: 3, rx_nohandler: 0, carrier_changes: 2 }), None]);
        assert!(all.values().all(|interface| interface.rx_packets == 10));
        let before = r#"{"rx_packets":1,"rx_bytes":1,"rx_dropped":0,"rx_errors":0,"tx_packets":1,"tx_bytes":1,"tx_dropped":0,"tx_errors":0}"#;
        assert_eq!(serde_json::from_str::<Interface>(before).expect("an agent's of before").sys, None);
    }

    #[test]
    fn the_load_of_processors_is_the_busy_share_of_their_ticks() {
        let ticks = |busy, idle| Ticks { busy, idle };
        assert_eq!(ticks(100, 100).share_until(&ticks(130, 110)), Some(0.75));
        assert_eq!(ticks(100, 100).share_until(&ticks(100, 100)), None);
        assert!(Ticks::of(&[0]).is_some_and(|ticks| ticks.busy + ticks.idle > 0));
        assert_eq!((Ticks::of(&[]), Ticks::of(&[0, 1 << 20])), (None, None));
    }

    #[test]
    fn this_machine_counts() {
        let began = Instant::now();
        let first = Counters::read(began).expect("counters");
        let second = Counters::read(began).expect("counters");
        assert!(second.uptime_ns > first.uptime_ns && second.at_ns > 1_700_000_000_000_000_000);
        assert!(
            !first.processors.is_empty() && first.softirqs.keys().any(|kind| kind == "NET_RX"),
            "{first:?}"
        );
        assert!(first.interfaces.contains_key("lo"));
        let text = serde_json::to_string(&second).expect("JSON");
        assert_eq!(serde_json::from_str::<Counters>(&text).expect("the same"), second);
    }
}
