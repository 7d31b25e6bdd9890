// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a machine offers to a router, and each shortfall with its fix.
//!
//! [`examine`] looks at all, and changes nothing. It starts guest kernels for some seconds, to see whether they run.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod planes_apart;

use std::path::Path;

use serde_json::{Value, json};

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Good,
    /// It works, but slower or with less.
    Limited,
    /// It is not there.
    Missing,
}

impl State {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// One thing looked at.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// What to do about it; empty when all is well.
    pub fix: String,
}

impl Finding {
    fn good(what: impl Into<String>, detail: impl Into<String>) -> Finding {
        Finding { what: what.into(), state: State::Good, detail: detail.into(), fix: String::new() }
    }

    fn short(
        what: impl Into<String>,
        state: State,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { what: what.into(), state, detail: detail.into(), fix: fix.into() }
    }
}

/// Findings for people, one or two lines each.
pub fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|f| f.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    for f in findings {
        text += &format!("{:8} {:width$}  {}\n", f.state.word(), f.what, f.detail);
        if !f.fix.is_empty() {
            text += &format!("{:8} {:width$}  -> {}\n", "", "", f.fix);
        }
    }
    text
}

/// Findings for programs.
pub fn json(findings: &[Finding]) -> Value {
    let finding =
        |f: &Finding| json!({ "what": f.what, "state": f.state.word(), "detail": f.detail, "mend": f.fix });
    findings.iter().map(finding).collect()
}

/// Looks at this machine.
pub fn examine() -> Vec<Finding> {
    let mut findings = vec![cores(), kernel()];
    findings.extend(permissions());
    findings.push(tap());
    findings.push(locked_memory());
    findings.push(huge_pages());
    findings.push(events());
    findings.extend(planes_apart::partitions());
    findings.extend(interfaces());
    findings
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
