// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keeps planes apart on a machine: control groups, guests, and cores that share nothing.

use std::path::Path;

use planes::machine::{Machine, Roots};

use crate::{Finding, State};

/// By what planes can be kept apart (`junctor up`).
pub(crate) fn partitions() -> [Finding; 4] {
    let groups = planes::groups::Groups::find().words();
    let groups = match groups.is_empty() {
        false => Finding::good("planes: process", groups.join(", ")),
        true => Finding::short(
            "planes: process",
            State::Limited,
            "by affinity alone: no control group can be made",
            "start as root where cpuset control groups are mounted, or in a delegated group (systemd: Delegate=yes)",
        ),
    };
    [groups, user_mode_linux(), virtual_machine(), neighbours(&Machine::read(&Roots::below(Path::new("/"))))]
}

/// What planes have in common although each has CPUs of its own.
fn neighbours(machine: &Machine) -> Finding {
    const WHAT: &str = "planes: neighbours";
    let second = machine.cpus.iter().filter(|cpu| cpu.thread() > 0).count();
    if second > 0 {
        let detail = format!("{second} of {} CPUs are second threads of a core", machine.cpus.len());
        let fix = "give both threads of a core to one plane; 'junctor lab interference' measures what planes cost each other";
        return Finding::short(WHAT, State::Limited, detail, fix);
    }
    let mut caches: Vec<String> = Vec::new();
    for cache in machine.cpus.iter().flat_map(|cpu| &cpu.caches) {
        let name = format!("{} of CPUs {} ({})", cache.name, cache.cpus, cache.size);
        if !caches.contains(&name) {
            caches.push(name);
        }
    }
    let shared = if caches.is_empty() { "no cache".to_owned() } else { caches.join(", ") };
    let detail = format!(
        "no two CPUs are threads of one core; they share {shared}; 'junctor lab interference' measures the cost"
    );
    Finding::good(WHAT, detail)
}

/// Whether planes can have User Mode Linux. A kernel is started to find that out, for a few seconds.
fn user_mode_linux() -> Finding {
    use planes::guest::{KERNEL, uml};
    const WHAT: &str = "planes: uml";
    let Some(kernel) = planes::deployment::find_program(KERNEL, Path::new("/")) else {
        let why = "no kernel for planes with an operating system of their own";
        return Finding::short(WHAT, State::Missing, why, "sudo apt-get install user-mode-linux");
    };
    match uml::trial(&kernel) {
        Ok(()) => Finding::good(WHAT, format!("{} starts", kernel.display())),
        Err(why) => Finding::short(WHAT, State::Limited, format!("no guest runs: {why}"), uml::INSTEAD),
    }
}

/// Whether planes can have virtual machines. A kernel is started to find that out, for at most half a minute.
fn virtual_machine() -> Finding {
    use planes::guest::kvm;
    const WHAT: &str = "planes: kvm";
    let kernel = match kvm::offered(None) {
        Ok(kernel) => kernel,
        Err((why, fix)) => return Finding::short(WHAT, State::Missing, why, fix),
    };
    match kvm::trial(&kernel, false) {
        Ok(()) => Finding::good(WHAT, format!("{} starts in a virtual machine", kernel.display())),
        Err(why) => Finding::short(
            WHAT,
            State::Limited,
            format!("KVM runs no guest: {why}"),
            "use partition = \"uml\"; for tests, emulated = true runs {} slowly"
                .replace("{}", &kernel.display().to_string()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use planes::Cpus;
    use planes::machine::{Cache, Cpu};

    #[test]
    fn threads_of_one_core_are_reported() {
        let cache =
            Cache { name: "L3".into(), size: "8M".into(), cpus: Cpus::parse_list("0-1").expect("CPUs") };
        let cpu = |number, siblings: &str| Cpu {
            number,
            node: 0,
            siblings: Cpus::parse_list(siblings).expect("CPUs"),
            caches: vec![cache.clone()],
        };
        let cores = Machine { cpus: vec![cpu(0, "0"), cpu(1, "1")], ..Machine::default() };
        let finding = neighbours(&cores);
        assert_eq!(finding.state, State::Good);
        assert!(finding.detail.contains("share L3 of CPUs 0-1 (8M);"), "{}", finding.detail);
        let threads = Machine { cpus: vec![cpu(0, "0-1"), cpu(1, "0-1")], ..Machine::default() };
        let finding = neighbours(&threads);
        assert_eq!(
            (finding.state, &finding.detail[..]),
            (State::Limited, "1 of 2 CPUs are second threads of a core")
        );
    }
}
