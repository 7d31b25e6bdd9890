// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of placement: what each would be as a shell command, and making it, with what to do where the kernel refuses.

use std::io;

use crate::items::{AffinityTarget, Item, ItemKind};
use planes::Cpus;
use planes::machine::{Machine, Roots, text};

/// One item's new CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The item's name.
    pub id: String,
    /// What it is.
    pub kind: ItemKind,
    /// Where its CPUs are set.
    pub place: AffinityTarget,
    /// Its CPUs now.
    pub from: Cpus,
    /// Those that it is to have.
    pub to: Cpus,
}

impl Change {
    /// The change of `item` to these CPUs; `None` if it has them.
    pub fn of(item: &Item, to: &Cpus) -> Option<Change> {
        (item.cpus != *to).then(|| Change {
            id: item.id.clone(),
            kind: item.kind,
            place: item.place.clone(),
            from: item.cpus.clone(),
            to: to.clone(),
        })
    }

    /// The shell command that makes it.
    pub fn command(&self) -> String {
        match &self.place {
            AffinityTarget::List(path) => format!("echo {} > {}", self.to.to_list(), path.display()),
            AffinityTarget::Mask(path) => format!("echo {} > {}", self.to.to_mask(), path.display()),
            AffinityTarget::Thread(tid) => format!("taskset -pc {} {tid}", self.to.to_list()),
        }
    }

    /// What is wrong with it before it is tried.
    ///
    /// # Errors
    /// CPUs that are off line or not there, or none where one is needed.
    pub fn check(&self, machine: &Machine) -> Result<(), String> {
        let steering = matches!(self.kind, ItemKind::Rps | ItemKind::Xps);
        if self.to.is_empty() && !steering {
            return Err(format!("{}: it must run somewhere; 'none' is for rps and xps only", self.id));
        }
        let missing = self.to.without(&machine.online());
        if missing.is_empty() {
            return Ok(());
        }
        match missing.iter().find(|cpu| machine.offline.contains(*cpu)) {
            Some(cpu) => Err(format!(
                "{}: CPU {cpu} is off line; bring it up: echo 1 > /sys/devices/system/cpu/cpu{cpu}/online",
                self.id
            )),
            None => {
                Err(format!("{}: this machine has no CPU {missing}; it has {}", self.id, machine.online()))
            }
        }
    }

    /// Makes it.
    ///
    /// # Errors
    /// What the kernel refused, and what can be done about it.
    pub fn apply(&self, roots: &Roots) -> Result<(), String> {
        let done = match &self.place {
            AffinityTarget::List(path) => std::fs::write(path, self.to.to_list()),
            AffinityTarget::Mask(path) => std::fs::write(path, self.to.to_mask()),
            AffinityTarget::Thread(tid) if roots.own => move_thread(*tid, &self.to),
            AffinityTarget::Thread(_) => Err(io::Error::other("threads of another root cannot be moved")),
        };
        done.map_err(|why| format!("{}: {}", self.id, explain(self, &why)))?;
        // The kernel may take a part only: CPUs outside a cpuset, or what the driver can do.
        let now = match &self.place {
            AffinityTarget::List(path) => text(path).and_then(|t| Cpus::parse_list(&t)),
            AffinityTarget::Mask(path) => text(path).and_then(|t| Cpus::parse_mask(&t)),
            AffinityTarget::Thread(_) => None,
        };
        match now.filter(|now| *now != self.to) {
            Some(now) => Err(format!("{}: asked for {}, but the kernel made it {now}", self.id, self.to)),
            None => Ok(()),
        }
    }
}

fn move_thread(tid: i32, cpus: &Cpus) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.iter() {
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    let tid = rustix::thread::Pid::from_raw(tid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::thread::sched_setaffinity(Some(tid), &set)?)
}

/// What a refusal means, and its fix.
fn explain(change: &Change, why: &io::Error) -> String {
    // Numbers of errno.h: EIO, ESRCH, EINVAL, ENOSPC.
    let errno = why.raw_os_error().unwrap_or(0);
    let thread = matches!(change.place, AffinityTarget::Thread(_));
    match (why.kind(), errno) {
        (io::ErrorKind::PermissionDenied, _) => format!(
            "{why}; run as root, and in the machine's own namespaces (a container sees these files but may not write them)"
        ),
        (io::ErrorKind::ReadOnlyFilesystem, _) => {
            format!("{why}; a container mounts /proc and /sys so: run this on the machine itself")
        }
        (_, 5) => "the kernel manages this interrupt itself, one per CPU, and lets nobody move it; \
                   change the number of queues instead (ethtool -L DEVICE combined N), or leave it"
            .to_owned(),
        (_, 22) if thread => format!(
            "{why}; the thread is bound to its CPU by the kernel, or the process's cpuset has none of these"
        ),
        (_, 22) => {
            format!("{why}; none of these CPUs can take it (off line, or the interrupt controller's limit)")
        }
        (_, 28) => "no CPU of these has a free interrupt vector; choose others, or fewer queues".to_owned(),
        (_, 3) => "the thread has ended; list again".to_owned(),
        (io::ErrorKind::NotFound, _) => "it is gone; list again".to_owned(),
        _ => why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ItemKind, place: AffinityTarget, to: &str) -> Change {
        let to = Cpus::parse_list(to).unwrap();
        Change { id: "it".into(), kind, place, from: Cpus::default(), to }
    }

    #[test]
    fn each_is_a_command() {
        for (place, want) in [
            (
                AffinityTarget::List("/proc/irq/3/smp_affinity_list".into()),
                "echo 0,33 > /proc/irq/3/smp_affinity_list",
            ),
            (AffinityTarget::Mask("/x/rps_cpus".into()), "echo 2,00000001 > /x/rps_cpus"),
            (AffinityTarget::Thread(7), "taskset -pc 0,33 7"),
        ] {
            assert_eq!(change(ItemKind::Interrupt, place, "0,33").command(), want);
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        for (errno, part) in [
            (13, "run as root"),
            (1, "run as root"),
            (5, "manages"),
            (28, "vector"),
            (2, "gone"),
            (30, "container"),
        ] {
            let told = explain(
                &change(ItemKind::Interrupt, AffinityTarget::List("/x".into()), "0"),
                &io::Error::from_raw_os_error(errno),
            );
            assert!(told.contains(part), "{errno}: {told}");
        }
        let told = explain(
            &change(ItemKind::Napi, AffinityTarget::Thread(1), "0"),
            &io::Error::from_raw_os_error(22),
        );
        assert!(told.contains("bound"), "{told}");
        let gone = change(ItemKind::Rps, AffinityTarget::Mask("/nowhere/rps_cpus".into()), "0");
        let roots = Roots::below(std::path::Path::new("/nowhere"));
        assert!(gone.apply(&roots).unwrap_err().contains("gone"));
    }

    #[test]
    fn a_thread_is_moved() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let tid = status.lines().find_map(|l| l.strip_prefix("Pid:")?.trim().parse().ok()).unwrap();
        let allowed =
            status.lines().find_map(|l| Cpus::parse_list(l.strip_prefix("Cpus_allowed_list:")?)).unwrap();
        let last = allowed.iter().last().unwrap();
        let own = Roots::below(std::path::Path::new("/"));
        change(ItemKind::Worker, AffinityTarget::Thread(tid), &last.to_string()).apply(&own).unwrap();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(status.contains(&format!("Cpus_allowed_list:\t{last}\n")), "{status}");
    }
}
