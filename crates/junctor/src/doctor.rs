// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor doctor`: what this machine offers, and each shortfall with its fix.

use std::path::Path;

use planes::machine::{Machine, Roots};
use serde_json::{Value, json};

use crate::{exit, outcome};
use report::measure;

/// Report what this machine offers to the router: permissions, drivers, memory, interfaces; each shortfall with its fix.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  junctor doctor
  junctor doctor --json | jq '.findings[] | select(.state != \"ok\")'")]
pub(crate) struct Args {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    /// It works, but slower or with less.
    Limited,
    Missing,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// One thing looked at.
#[derive(Clone, Debug)]
struct Finding {
    what: String,
    state: State,
    detail: String,
    /// What to do about it; empty when all is well.
    mend: String,
}

impl Finding {
    fn good(what: impl Into<String>, detail: impl Into<String>) -> Finding {
        Finding { what: what.into(), state: State::Good, detail: detail.into(), mend: String::new() }
    }

    fn short(
        what: impl Into<String>,
        state: State,
        detail: impl Into<String>,
        mend: impl Into<String>,
    ) -> Finding {
        Finding { what: what.into(), state, detail: detail.into(), mend: mend.into() }
    }
}

/// Runs the command. Shortfalls are findings, not failures.
pub(crate) fn main(args: &Args) -> u8 {
    let findings = examine();
    if args.json {
        let list: Vec<Value> = findings
            .iter()
            .map(|f| json!({ "what": f.what, "state": f.state.word(), "detail": f.detail, "mend": f.mend }))
            .collect();
        let object = json!({ "command": "doctor", "version": env!("CARGO_PKG_VERSION"),
            "machine": measure::machine(), "findings": list });
        return outcome::print_or_fail(format!("{object}\n").as_bytes());
    }
    let width = findings.iter().map(|f| f.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    for f in &findings {
        text += &format!("{:8} {:width$}  {}\n", f.state.word(), f.what, f.detail);
        if !f.mend.is_empty() {
            text += &format!("{:8} {:width$}  -> {}\n", "", "", f.mend);
        }
    }
    let status = outcome::print_or_fail(text.as_bytes());
    if status == exit::SUCCESS { exit::SUCCESS } else { status }
}

fn examine() -> Vec<Finding> {
    let mut findings = vec![cores(), kernel()];
    findings.extend(permissions());
    findings.push(tap());
    findings.push(locked_memory());
    findings.push(huge_pages());
    findings.push(events());
    findings.extend(partitions());
    findings.extend(interfaces());
    findings
}

/// By what planes can be kept apart (`junctor up`).
fn partitions() -> [Finding; 4] {
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
        Err((why, mend)) => return Finding::short(WHAT, State::Missing, why, mend),
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

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn cores() -> Finding {
    let usable = core_affinity::get_core_ids().unwrap_or_default().len();
    let online = read("/sys/devices/system/cpu/online");
    let isolated = read("/sys/devices/system/cpu/isolated");
    let detail = format!(
        "{usable} usable, online {online}, isolated {}",
        if isolated.is_empty() { "none" } else { &isolated }
    );
    match usable {
        0 | 1 => Finding::short(
            "cores",
            State::Limited,
            detail,
            "one worker runs; give the process more cores (taskset, cpuset)",
        ),
        _ => Finding::good("cores", detail),
    }
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease");
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    // 5.10: AF_XDP need-wakeup, shared UMEM over queues, bpf_link for XDP.
    if version >= (5, 10) {
        Finding::good("kernel", release)
    } else {
        Finding::short("kernel", State::Limited, release, "AF_XDP wants Linux 5.10 or newer; AF_PACKET works")
    }
}

/// Capabilities by bit number (linux/capability.h), and what they are needed for.
const CAPABILITIES: [(u32, &str, &str); 5] = [
    (13, "cap_net_raw", "opening interfaces with AF_PACKET or AF_XDP"),
    (12, "cap_net_admin", "promiscuous mode, XDP programs, TAP interfaces"),
    (39, "cap_bpf", "loading the AF_XDP redirect program"),
    (14, "cap_ipc_lock", "AF_XDP memory above the locked memory limit"),
    (38, "cap_perfmon", "kernel events in profiles"),
];

fn permissions() -> Vec<Finding> {
    let status = read("/proc/self/status");
    let mask = status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok());
    let mask = mask.unwrap_or(0);
    // The administrator's capability still covers the two that were split off it (Linux 5.8).
    let has = |bit: u32| mask >> bit & 1 == 1 || (matches!(bit, 38 | 39) && mask >> 21 & 1 == 1);
    let program = std::env::current_exe().map_or_else(|_| "junctor".into(), |p| p.display().to_string());
    CAPABILITIES
        .iter()
        .map(|(bit, name, why)| match has(*bit) {
            true => Finding::good(*name, *why),
            false => Finding::short(
                *name,
                State::Missing,
                *why,
                format!("run as root, or: sudo setcap {name}+ep {program}"),
            ),
        })
        .collect()
}

fn tap() -> Finding {
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => Finding::good("tap", "/dev/net/tun can be opened"),
        Err(why) => Finding::short(
            "tap",
            State::Missing,
            format!("/dev/net/tun: {why}"),
            "sudo modprobe tun; run as root or in a group that may open it",
        ),
    }
}

fn locked_memory() -> Finding {
    let limits = read("/proc/self/limits");
    let line = limits.lines().find(|l| l.starts_with("Max locked memory")).unwrap_or_default();
    let soft = line.split_ascii_whitespace().nth(3).unwrap_or("0");
    let enough = soft == "unlimited" || soft.parse::<u64>().is_ok_and(|b| b >= 128 << 20);
    let detail = format!("limit {soft} bytes");
    if enough {
        Finding::good("locked memory", detail)
    } else {
        Finding::short(
            "locked memory",
            State::Limited,
            detail,
            "AF_XDP needs cap_ipc_lock or: ulimit -l unlimited",
        )
    }
}

fn huge_pages() -> Finding {
    let meminfo = read("/proc/meminfo");
    let value = |name: &str| {
        let line = meminfo.lines().find_map(|l| l.strip_prefix(name));
        line.and_then(|l| l.split_ascii_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let (free, size_kb) = (value("HugePages_Free:"), value("Hugepagesize:"));
    let config = packet::Config::default();
    let wanted = ((config.frames * config.frame_size + config.jumbo_frames * (16 << 10)) as u64)
        .div_ceil(size_kb.max(1) << 10);
    let detail = format!("{free} free of {size_kb} kB; the default packet memory takes {wanted}");
    if free >= wanted && size_kb > 0 {
        Finding::good("huge pages", detail)
    } else {
        Finding::short(
            "huge pages",
            State::Limited,
            detail,
            format!("ordinary pages are used; for huge ones: sudo sysctl vm.nr_hugepages={wanted}"),
        )
    }
}

fn events() -> Finding {
    let level = read("/proc/sys/kernel/perf_event_paranoid");
    if level.parse::<i32>().is_ok_and(|l| l <= 1) {
        Finding::good("kernel events", format!("perf_event_paranoid {level}"))
    } else {
        Finding::short(
            "kernel events",
            State::Limited,
            format!("perf_event_paranoid {level}"),
            "for profiles with kernel events: sudo sysctl kernel.perf_event_paranoid=1",
        )
    }
}

fn interfaces() -> Vec<Finding> {
    let mut names: Vec<String> = std::fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.iter().map(|name| interface(name)).collect()
}

fn interface(name: &str) -> Finding {
    let dir = Path::new("/sys/class/net").join(name);
    let queues = |kind: &str| {
        let entries = std::fs::read_dir(dir.join("queues")).into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().to_string_lossy().starts_with(kind)).count()
    };
    let driver = std::fs::read_link(dir.join("device/driver")).ok();
    let driver = driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
    let detail = format!(
        "{}, link {}, mtu {}, {} rx and {} tx queues, {}",
        read(dir.join("address")),
        read(dir.join("operstate")),
        read(dir.join("mtu")),
        queues("rx-"),
        queues("tx-"),
        driver.as_deref().unwrap_or("virtual"),
    );
    let what = format!("interface {name}");
    if read(dir.join("operstate")) == "down" {
        return Finding::short(what, State::Limited, detail, format!("sudo ip link set {name} up"));
    }
    Finding::good(what, detail)
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
