// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two cores of the lab, and what they share in spite of being two.

use std::path::Path;

use planes::Cpus;
use planes::machine::{Machine, Roots};

use super::super::{Error, Wrong};

/// Where planes run, and what is known of the machine.
#[derive(Clone, Debug)]
pub(super) struct LabMachine {
    /// The CPU of the control plane's work.
    pub(super) control: usize,
    /// The CPU of the user plane: of the reflector and of what makes its frames.
    pub(super) user: usize,
    /// The CPUs of the lab itself: others than these two, if there are any, else that of the control plane.
    pub(super) own: Vec<usize>,
    /// What these two share.
    pub(super) shared: Vec<String>,
    /// They are threads of one core.
    pub(super) one_core: bool,
    /// Bytes of the first level, the second level, and the last level of caches.
    pub(super) caches: [usize; 3],
    /// Bytes of memory that are free.
    pub(super) free: usize,
}

impl LabMachine {
    /// On the first `cores` cores of the machine that this process may use.
    pub(super) fn find(cores: usize) -> Result<LabMachine, Wrong> {
        let usable: Vec<usize> =
            core_affinity::get_core_ids().unwrap_or_default().iter().take(cores).map(|id| id.id).collect();
        let machine = Machine::read(&Roots::below(Path::new("/")));
        let [control, others @ ..] = &usable[..] else { return Err(too_few()) };
        let user = farthest(&machine, *control, others).ok_or_else(too_few)?;
        let mut own: Vec<usize> = others.iter().copied().filter(|cpu| *cpu != user).collect();
        if own.is_empty() {
            own.push(*control);
        }
        Ok(LabMachine {
            control: *control,
            user,
            own,
            shared: machine.shared_by(&Cpus::of(*control), &Cpus::of(user)),
            one_core: of(&machine, *control).is_some_and(|cpu| cpu.siblings.contains(user)),
            caches: caches(Path::new("/sys"), *control),
            free: free_memory(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        })
    }

    /// What is said of every row of the lab.
    pub(super) fn in_words(&self) -> String {
        let lab = match self.own.contains(&self.control) {
            true => {
                "The lab itself and 'junctor up' have no CPU of their own; they sleep while the control plane works."
            }
            false => "The lab itself has others.",
        };
        format!(
            "The user plane has CPU {}: the reflector and what makes its frames share it. The control plane has CPU {}, with all its processes. {lab}",
            self.user, self.control
        )
    }

    /// What the two share and who may say otherwise.
    pub(super) fn sharing_in_words(&self) -> String {
        let shared =
            if self.shared.is_empty() { "nothing that is known".into() } else { self.shared.join(", ") };
        let threads = if self.one_core {
            "They are two threads of one core, so each slow-down includes what they take from each other within it."
        } else {
            "By /sys they are two cores, not two threads of one; a host of virtual machines may decide otherwise and does not show it."
        };
        format!("CPUs {} and {} share {shared}. {threads}", self.control, self.user)
    }

    /// The size of the last level of caches.
    pub(super) fn last_level(&self) -> usize {
        self.caches[2]
    }
}

fn too_few() -> Wrong {
    Wrong::Failure(Error::Missing(
        "the lab needs two cores, one for the control plane's work and one for the user plane; give the process another one (taskset, cpuset, --cores)".to_owned(),
    ))
}

fn of(machine: &Machine, cpu: usize) -> Option<&planes::machine::Cpu> {
    machine.cpus.iter().find(|c| c.number == cpu)
}

/// One that is no thread of the first one's core, if there is one.
fn farthest(machine: &Machine, control: usize, others: &[usize]) -> Option<usize> {
    let apart = |cpu: &&usize| of(machine, control).is_none_or(|c| !c.siblings.contains(**cpu));
    others.iter().rev().find(apart).or(others.last()).copied()
}

/// Sizes of data caches; where the kernel names none, usual ones.
fn caches(sys: &Path, cpu: usize) -> [usize; 3] {
    let mut sizes = [32 << 10, 1 << 20, 0];
    let directory = sys.join(format!("devices/system/cpu/cpu{cpu}/cache"));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let text = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let level = text("level").trim().parse::<usize>().unwrap_or(0);
        let kib = text("size").trim().trim_end_matches('K').parse::<usize>().unwrap_or(0);
        if (1..=3).contains(&level) && kib > 0 && text("type").trim() != "Instruction" {
            sizes[level - 1] = kib << 10;
        }
    }
    if sizes[2] == 0 {
        sizes[2] = 8 * sizes[1];
    }
    sizes
}

/// Bytes that programs may still have, of `/proc/meminfo`.
fn free_memory(meminfo: &str) -> usize {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or(0) << 10
}

/// Processor time of each CPU in ticks, of `/proc/stat`: busy, and all.
fn ticks(stat: &str, cpu: usize) -> Option<[u64; 2]> {
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")))?;
    // User, nice, system, idle, waiting, interrupts of two kinds, and what the host took.
    let times: Vec<u64> =
        line.split_ascii_whitespace().take(8).filter_map(|time| time.parse().ok()).collect();
    let all: u64 = times.iter().sum();
    Some([all - times.get(3)? - times.get(4)?, all])
}

/// What other programs take of both CPUs before anything is measured, if that is much.
pub(super) fn others(place: &LabMachine, during: std::time::Duration) -> Option<String> {
    let read = || std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let before = read();
    std::thread::sleep(during);
    let after = read();
    let busy = |cpu| {
        let ([b0, a0], [b1, a1]) = (ticks(&before, cpu)?, ticks(&after, cpu)?);
        Some(100.0 * b1.saturating_sub(b0) as f64 / a1.saturating_sub(a0).max(1) as f64)
    };
    let shares = [place.control, place.user].map(|cpu| busy(cpu).unwrap_or(0.0));
    shares.iter().any(|share| *share > BUSY).then(|| {
        format!(
            "Quiet: before anything was measured, other programs kept CPU {} busy for {:.0} % of the time and CPU {} for {:.0} %. While the user plane is paused they have its CPU, too, so paused values are disturbed most. Slow-downs of this run are no statement about the machine.",
            place.control, shares[0], place.user, shares[1]
        )
    })
}

/// Percent of a CPU that other programs may take before it is said.
const BUSY: f64 = 5.0;

/// A number of bytes in its largest unit.
pub(super) fn bytes_in_words(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 30 => format!("{} GiB", b >> 30),
        b if b >= 1 << 20 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 => format!("{} KiB", b >> 10),
        b => format!("{b} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_from_sys() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = |index: usize, level: &str, kind: &str, size: &str| {
            let path = dir.path().join(format!("devices/system/cpu/cpu3/cache/index{index}"));
            std::fs::create_dir_all(&path).expect("a directory");
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(path.join(name), format!("{text}\n")).expect("a file");
            }
        };
        cache(0, "1", "Data", "48K");
        cache(1, "1", "Instruction", "64K");
        cache(2, "2", "Unified", "2048K");
        assert_eq!(caches(dir.path(), 3), [48 << 10, 2 << 20, 16 << 20]);
        cache(3, "3", "Unified", "32768K");
        assert_eq!(caches(dir.path(), 3), [48 << 10, 2 << 20, 32 << 20]);
    }

    #[test]
    fn free_memory_is_what_programs_may_have() {
        assert_eq!(free_memory("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), 2 << 20);
        assert_eq!(free_memory(""), 0);
    }

    #[test]
    fn ticks_are_read_by_cpu() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 10 4 1 1 2 0 0\ncpu1 0 0 0 7 0 0 0 0 0 0\n";
        assert_eq!((ticks(stat, 0), ticks(stat, 1), ticks(stat, 2)), (Some([10, 24]), Some([0, 7]), None));
    }

    #[test]
    fn another_core_wins_over_another_thread() {
        let cpu = |number, siblings: &str| planes::machine::Cpu {
            number,
            node: 0,
            siblings: Cpus::parse_list(siblings).expect("CPUs"),
            caches: Vec::new(),
        };
        let cpus = vec![cpu(0, "0,2"), cpu(1, "1,3"), cpu(2, "0,2"), cpu(3, "1,3")];
        let machine = Machine { cpus, ..Machine::default() };
        assert_eq!(farthest(&machine, 0, &[1, 2]), Some(1));
        assert_eq!(farthest(&machine, 0, &[2]), Some(2));
        assert_eq!(farthest(&machine, 0, &[]), None);
    }
}
