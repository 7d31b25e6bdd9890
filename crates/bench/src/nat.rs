// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor bench nat`: how fast an address translator begins sessions, translates, and ends sessions.
//!
//! The shapes are those of FD.io CSIT's tests of NAT44: 63 sessions for each inside host, 1,024 to 262,144 hosts. For each shape:
//!
//! 1. *Set-up.* The table is empty. The first packet of each session leaves, one after the other.
//! 2. *Ramp-up.* The other side answers in each session. It is not timed.
//! 3. *Throughput.* Packets of sessions at random, half of them in each direction, batch by batch.
//! 4. *Expiry.* All sessions but a tenth expire at once, while packets of that tenth go on.
//! 5. *Set-up again*, in a table that has its memory already.
//!
//! With [`Of::Firewall`], a firewall takes the place of the translator: hosts inside may connect to those outside. With [`Of::Balance`], a load balancer with 100 servers does: hosts inside are
//! clients of its service.
//!
//! [`table`] calls the translator itself, [`together`] by several workers at once. [`chain`] adds the elements around it. [`peer`] compares a whole gateway with nftables.
//! [`flood`] is about one host that opens flows without end.

mod chain;
pub mod flood;
pub mod peer;
mod shape;
mod subject;
mod table;
mod together;

use report::measure::Measured;
use serde_json::json;

use crate::{Failure, Findings};
use shape::Shape;
pub use shape::{Allocation, Protocol};

/// Inside hosts of CSIT's shapes, of which the last two take long.
pub const HOSTS: [usize; 5] = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18];
/// How many of them are measured by default.
pub const QUICK: usize = 3;
/// Sessions of an inside host in CSIT's shapes.
pub const PORTS: u16 = 63;
/// Sessions that a translator may have.
const SESSIONS_MAX: usize = 1 << 24;
/// Packets of a batch at most.
const BURST_MAX: usize = 256;

/// Whose sessions are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Of {
    /// Those of a translator.
    #[default]
    Nat44,
    /// Those of a firewall: its connections.
    Firewall,
    /// Those of a load balancer with address translation.
    Balance,
}

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose sessions.
    pub of: Of,
    /// Inside hosts of each shape.
    pub hosts: Vec<usize>,
    /// Sessions of each host.
    pub ports: u16,
    /// The protocol of all packets.
    pub protocol: Protocol,
    /// How hosts get outside ports.
    pub allocation: Allocation,
    /// Packets of a batch.
    pub burst: usize,
    /// Packets of established sessions in a run.
    pub packets: usize,
    /// Measured runs of each shape.
    pub runs: usize,
    /// Length of a run through elements, or of several workers, in milliseconds.
    pub run_ms: u64,
    /// Cores of workers that are measured together, if there are several.
    pub cores: Vec<usize>,
}

impl Settings {
    /// The shapes, fewest sessions first.
    ///
    /// # Errors
    /// A setting is out of its range.
    fn shapes(&self) -> Result<Vec<Shape>, Failure> {
        let most = HOSTS[HOSTS.len() - 1];
        let mut hosts = self.hosts.clone();
        hosts.sort_unstable();
        hosts.dedup();
        if let Some(bad) = hosts.iter().find(|hosts| !(1..=most).contains(*hosts)) {
            return Err(Failure::usage(format!("--hosts {bad}: a shape has 1 to {most} inside hosts")));
        }
        if !(1..=shape::WIDTH / 2).contains(&usize::from(self.ports)) {
            let most = shape::WIDTH / 2;
            let why = format!("--ports {}: a host has 1 to {most} sessions", self.ports);
            return Err(Failure::usage(why));
        }
        if !(1..=BURST_MAX).contains(&self.burst) {
            let why = format!("--burst {}: a batch has 1 to {BURST_MAX} packets", self.burst);
            return Err(Failure::usage(why));
        }
        if self.packets == 0 {
            return Err(Failure::usage("--packets 0: at least one packet is to be translated"));
        }
        let shape = |hosts| Shape::new(hosts, self.ports, self.protocol, self.allocation);
        let shapes: Vec<Shape> = hosts.into_iter().map(shape).collect();
        match shapes.iter().find(|shape| shape.sessions() > SESSIONS_MAX) {
            Some(bad) => Err(Failure::usage(format!(
                "{} sessions: a translator has {SESSIONS_MAX} at most; give fewer --hosts or --ports",
                bad.sessions()
            ))),
            None => Ok(shapes),
        }
    }
}

/// Measures each shape: the translator alone, then with elements around it where the sessions fit into packet memory.
///
/// # Errors
/// A setting is wrong, or a packet is not translated as it should be.
pub fn measure(args: &Settings) -> Result<Findings, Failure> {
    let shapes = args.shapes()?;
    let results = match args.of {
        Of::Balance => table::measure::<subject::Shared>(args, &shapes)?,
        Of::Firewall => {
            let mut results = table::measure::<subject::Gate>(args, &shapes)?;
            results.extend(together::<subject::Gate>(args, &shapes)?);
            results
        }
        Of::Nat44 => {
            let mut results = table::measure::<subject::Translator>(args, &shapes)?;
            for shape in shapes.iter().filter(|shape| chain::suits(shape)) {
                results.push(chain::measure(args, shape)?);
            }
            results.extend(together::<subject::Translator>(args, &shapes)?);
            results
        }
    };
    Ok(Findings { conditions: conditions(args), results })
}

/// Measures several workers, if there are cores for them.
fn together<S: subject::Together>(args: &Settings, shapes: &[Shape]) -> Result<Vec<Measured>, Failure> {
    let mut results = Vec::new();
    for shape in shapes.iter().filter(|_| args.cores.len() > 1) {
        results.extend(together::measure::<S>(args, shape)?);
    }
    Ok(results)
}

fn conditions(args: &Settings) -> serde_json::Value {
    json!({
        "ports": args.ports, "protocol": args.protocol.name(), "allocation": args.allocation.name(),
        "burst": args.burst, "packets": args.packets, "bytes": shape::FRAME,
        "time": "processor time of the thread; memory: resident set of the process",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            of: Of::Nat44,
            hosts: vec![8],
            ports: PORTS,
            protocol: Protocol::Udp,
            allocation: Allocation::Random,
            burst: 32,
            packets: 4096,
            runs: 2,
            run_ms: 5,
            cores: Vec::new(),
        }
    }

    #[test]
    fn every_kind_of_session_is_measured() {
        for (protocol, allocation, burst) in [
            (Protocol::Udp, Allocation::Random, 32),
            (Protocol::Tcp, Allocation::Random, 64),
            (Protocol::Udp, Allocation::Block, 1),
            (Protocol::Tcp, Allocation::Deterministic, 32),
        ] {
            let args = Settings { hosts: vec![24, 8], protocol, allocation, burst, ..settings() };
            let found = measure(&args).unwrap_or_else(|why| panic!("{protocol:?} {allocation:?}: {why}"));
            let names: Vec<&str> = found.results.iter().map(|one| &*one.name).collect();
            for name in ["setup_per_s.504", "setup_per_s.1512", "ns_per_packet.504", "expiry.batch_us.1512"] {
                assert!(names.contains(&&*format!("nat.{name}")), "{protocol:?} {allocation:?}: {names:?}");
            }
            // On a table so small memory need not grow.
            let measured = found.results.iter().filter(|one| !one.name.contains("bytes_per_session"));
            assert!(measured.clone().all(|one| one.median() >= 0.0 && !one.runs.is_empty()));
        }
    }

    #[test]
    fn several_workers_are_measured_together() {
        let cores: Vec<usize> =
            core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
        if cores.len() < 2 {
            errln!("skipped: two cores are needed");
            return;
        }
        for (of, prefix, protocol) in [
            (Of::Nat44, "nat", Protocol::Udp),
            (Of::Firewall, "nat.firewall", Protocol::Tcp),
            (Of::Firewall, "nat.firewall", Protocol::Udp),
        ] {
            let args = Settings { of, protocol, cores: cores[..2].to_vec(), runs: 1, ..settings() };
            let found = measure(&args).unwrap_or_else(|why| panic!("{of:?} {protocol:?}: {why}"));
            for name in ["mpps_1", "scaling_2.apart", "scaling_2.across", "setup_scaling_2"] {
                let name = format!("{prefix}.{name}.504");
                assert!(found.results.iter().any(|one| one.name == name && one.median() > 0.0), "{name}");
            }
        }
    }

    #[test]
    fn firewalls_and_load_balancers_are_measured() {
        for (of, prefix, protocol, burst) in [
            (Of::Balance, "nat.balance", Protocol::Udp, 32),
            (Of::Balance, "nat.balance", Protocol::Tcp, 1),
            (Of::Firewall, "nat.firewall", Protocol::Udp, 32),
            (Of::Firewall, "nat.firewall", Protocol::Tcp, 1),
        ] {
            let args = Settings { of, hosts: vec![24, 8], protocol, burst, ..settings() };
            let found = measure(&args).unwrap_or_else(|why| panic!("{of:?} {protocol:?}: {why}"));
            let names: Vec<&str> = found.results.iter().map(|one| &*one.name).collect();
            for name in ["setup_per_s.504", "setup_per_s.1512", "ns_per_packet.504", "expiry.batch_us.1512"] {
                assert!(names.contains(&&*format!("{prefix}.{name}")), "{of:?} {protocol:?}: {names:?}");
            }
        }
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let check = |args: Settings, word: &str| {
            let why = measure(&args).expect_err(word).to_string();
            assert!(why.contains(word), "{why}");
        };
        check(Settings { hosts: vec![0], ..settings() }, "--hosts 0");
        check(Settings { hosts: vec![1 << 19], ..settings() }, "--hosts 524288");
        check(Settings { ports: 0, ..settings() }, "--ports 0");
        check(Settings { burst: 0, ..settings() }, "--burst 0");
        check(Settings { packets: 0, ..settings() }, "--packets 0");
        check(Settings { hosts: vec![1 << 18], ports: 100, ..settings() }, "26214400 sessions");
    }
}
