// SPDX-License-Identifier: MIT OR Apache-2.0
//! Throughput as the study measured it: iperf sends as fast as it can, and counters of the kernel tell what came.
//!
//! The lab reads the counters itself, from `/proc` of the sink's namespace: no other program runs during the test for that.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use testbed::rig::{Namespace, Resident, wait_for};

use super::super::shared::Setting;
use super::client::{Answers, Client};
use super::measure::{Found, work};
use super::network::{Network, PORT};
use super::subject::{Device, Placement};
use super::{Asked, Cores};
use crate::Error;

/// Payloads that iperf sends.
const PAYLOADS: [usize; 3] = [64, 1472, 8972];
const QUICK: [usize; 1] = [1472];
/// Where iperf3 listens.
const TCP_PORT: u16 = 5201;
/// How long a program of the test may take beyond what it was asked for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often counters are read.
const LOOK: Duration = Duration::from_millis(10);

/// What generates the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// `iperf -u`: payloads of a size.
    Datagrams(usize),
    /// `iperf3`: a stream.
    Stream,
}

impl Tool {
    pub(super) fn in_words(self) -> String {
        match self {
            Tool::Datagrams(payload) => format!("iperf UDP, {payload} bytes"),
            Tool::Stream => "iperf3 TCP".to_owned(),
        }
    }

    /// As results are named.
    pub(super) fn key(self) -> String {
        match self {
            Tool::Datagrams(payload) => format!("udp.{payload}"),
            Tool::Stream => "tcp".to_owned(),
        }
    }

    fn program(self) -> &'static str {
        match self {
            Tool::Datagrams(_) => "iperf",
            Tool::Stream => "iperf3",
        }
    }
}

/// What one of them showed.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) tool: Tool,
    /// With concurrent management requests.
    pub(super) asked: bool,
    /// Megabits of payload a second that the sink's kernel handed over, or why there are none.
    pub(super) mbps: Result<f64, String>,
}

/// The sink's counters at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    /// UDP datagrams handed over.
    datagrams: u64,
    /// Bytes received by the interface.
    bytes: u64,
}

/// Measures with all tools, without and with management requests.
pub(super) fn round(
    setting: &Setting<'_>,
    place: (&Network, &Cores, &Asked),
    client: &Client<'_>,
    found: &mut Found,
) -> Result<(), Error> {
    let payloads: &[usize] = if setting.common.quick { &QUICK } else { &PAYLOADS };
    let taken = payloads.iter().filter(|payload| found.subject.device.takes(**payload));
    let mut tools: Vec<Tool> = taken.map(|payload| Tool::Datagrams(*payload)).collect();
    // A stream does not pass a device that takes datagrams.
    if setting.common.quick && found.subject.placement != Placement::Smp {
        return Ok(());
    }
    if found.subject.device != Device::Passthrough && !setting.common.quick {
        tools.push(Tool::Stream);
    }
    for tool in tools {
        for asked in [false, true] {
            if asked && setting.common.quick {
                continue;
            }
            let mbps = one(setting, place, client, (found.subject.device, tool, asked));
            let mbps = mbps.map_err(|why| why.to_string());
            found.iperf.push(Flow { tool, asked, mbps });
        }
    }
    Ok(())
}

fn one(
    setting: &Setting<'_>,
    (network, cores, asked): (&Network, &Cores, &Asked),
    client: &Client<'_>,
    (device, tool, with): (Device, Tool, bool),
) -> Result<f64, Error> {
    let seconds = if setting.common.quick { "0.5" } else { "1" };
    let (sink, port) = match tool {
        Tool::Datagrams(_) => ("-s -u -l 9000 -w 4M".to_owned(), PORT),
        Tool::Stream => ("-s -1".to_owned(), TCP_PORT),
    };
    let address = if device == Device::Passthrough { "10.0.1.1" } else { "10.0.2.2" };
    let source = match tool {
        Tool::Datagrams(payload) => format!("-c {address} -u -l {payload} -b 20G -w 4M -t {seconds}"),
        Tool::Stream => format!("-c {address} -w 4M -t {seconds}"),
    };
    let _sink = start(&network.sink, tool, &format!("{sink} -p {port}"), cores)?;
    let listens = || is_listening(&network.sink, tool, port);
    wait_for("iperf to listen", PATIENCE, listens)?;
    let over = AtomicBool::new(false);
    let (samples, answers) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let done = watch(network, tool, &format!("{source} -p {port}"), cores);
            over.store(true, Ordering::Release);
            done
        });
        let answers = if with { client.ask_until(&work(asked), &over) } else { Ok(Answers::default()) };
        (watch.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), answers)
    });
    answers?;
    rate(&samples?, tool).ok_or_else(|| Error::nothing("nothing arrived"))
}

/// Starts a program of the test on the tester's core, at raised priority. It ends with this process.
fn start(home: &Namespace, tool: Tool, arguments: &str, cores: &Cores) -> Result<Resident, Error> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "nice", "-n", "-19", tool.program()]);
    command.args(arguments.split(' '));
    let what = format!("{} {arguments}", tool.program());
    Ok(home.settle(command, what, &[cores.tester])?)
}

/// Whether a port is bound in a namespace.
fn is_listening(home: &Namespace, tool: Tool, port: u16) -> bool {
    let table = match tool {
        Tool::Datagrams(_) => "udp",
        Tool::Stream => "tcp",
    };
    let wanted = format!(":{port:04X} ");
    // A server of IPv6 takes IPv4, too.
    let has = |table: &str| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        text.lines().any(|line| {
            line.split_once(": ")
                .is_some_and(|(_, rest)| rest.split_at(rest.len().min(40)).0.contains(&wanted))
        })
    };
    home.enter(|| has(table) || has(&format!("{table}6"))).unwrap_or(false)
}

/// Runs the source to its end, and reads the sink's counters meanwhile.
fn watch(
    network: &Network,
    tool: Tool,
    arguments: &str,
    cores: &Cores,
) -> Result<Vec<(Instant, Counters)>, Error> {
    let mut source = start(&network.generator, tool, arguments, cores)?;
    let begun = Instant::now();
    let read = || {
        let mut samples = Vec::new();
        loop {
            samples.push((Instant::now(), counters()));
            if let Some(status) = source.process.ended() {
                let said = || format!("{}: {}", tool.program(), source.process.stderr().trim());
                return if status.success() { Ok(samples) } else { Err(Error::Nothing(said())) };
            }
            if begun.elapsed() > PATIENCE {
                return Err(Error::nothing(format!("{} did not end", tool.program())));
            }
            std::thread::sleep(LOOK);
        }
    };
    network.sink.enter(read)?
}

/// The counters of the calling thread's namespace.
fn counters() -> Counters {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    Counters {
        datagrams: datagrams(&read("snmp")).unwrap_or(0),
        bytes: bytes(&read("dev"), "b0").unwrap_or(0),
    }
}

/// `InDatagrams` of UDP: a line of names and one of values, both of which begin with the protocol.
fn datagrams(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|name| name == "InDatagrams")?;
    values.split(' ').nth(at)?.parse().ok()
}

/// Bytes that an interface has received.
fn bytes(dev: &str, interface: &str) -> Option<u64> {
    let line = dev.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Megabits a second between the first and the last change.
fn rate(samples: &[(Instant, Counters)], tool: Tool) -> Option<f64> {
    let count = |counters: &Counters| match tool {
        Tool::Datagrams(payload) => counters.datagrams * payload as u64,
        Tool::Stream => counters.bytes,
    };
    let first = samples.windows(2).find(|pair| count(&pair[0].1) < count(&pair[1].1))?;
    let last = samples.windows(2).rev().find(|pair| count(&pair[0].1) < count(&pair[1].1))?;
    let (begin, end) = (&first[0], &last[1]);
    let seconds = end.0.duration_since(begin.0).as_secs_f64();
    (seconds > 0.0).then(|| (count(&end.1) - count(&begin.1)) as f64 * 8.0 / seconds / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_read() {
        let snmp = "Tcp: InSegs\nTcp: 9\nUdp: InDatagrams NoPorts InErrors\nUdp: 4711 1 2\nUdpLite: InDatagrams\nUdpLite: 5\n";
        assert_eq!(datagrams(snmp), Some(4711));
        let dev = "Inter-| Receive\n face |bytes packets\n    lo: 5 1\n    b0:  123456 78 0\n";
        assert_eq!((bytes(dev, "b0"), bytes(dev, "b1")), (Some(123_456), None));
    }

    #[test]
    fn rates_leave_out_the_time_before_and_after() {
        let begun = Instant::now();
        let at = |ms: u64, datagrams| (begun + Duration::from_millis(ms), Counters { datagrams, bytes: 0 });
        let samples = [at(0, 5), at(500, 5), at(600, 605), at(700, 1005), at(5000, 1005)];
        // 1000 datagrams of 1000 bytes in 0.2 s.
        assert_eq!(rate(&samples, Tool::Datagrams(1000)), Some(40.0));
        assert_eq!(rate(&samples[3..], Tool::Datagrams(1000)), None);
    }
}
