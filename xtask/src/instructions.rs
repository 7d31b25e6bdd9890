// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions that a packet costs: `cargo xtask instructions [DIRECTORY]`.
//!
//! The program is built for release without link-time optimisation, in DIRECTORY. Each configuration then runs twice under
//! callgrind, on simulated time, with capture files as its devices. One run has three times as many packets as the other. The
//! difference in instructions over the difference in packets leaves out what starting and learning cost. Time plays no part, so
//! two runs differ by less than one instruction in a thousand. The figures include reading and writing the files.

use std::path::Path;
use std::process::{Command, ExitCode};

/// Frames that each device receives in the two runs, besides those by which the router learns.
const FRAMES: [usize; 2] = [40_000, 120_000];
/// Flows and stations: all have been seen when the shorter run ends.
const FLOWS: usize = 1024;

type Mac = [u8; 6];
type Ip = [u8; 4];

/// A device: its variable, its own address, and what it receives.
struct Device {
    variable: &'static str,
    mac: Mac,
    own: Ip,
    /// Networks of senders and receivers; `None` for a device that only its neighbours answer on.
    traffic: Option<[Ip; 2]>,
}

/// A configuration with its devices.
struct Subject {
    name: &'static str,
    devices: [Device; 2],
    /// It forwards by Ethernet addresses: each host has its own.
    is_bridge: bool,
}

const fn subjects() -> [Subject; 4] {
    const fn device(variable: &'static str, mac: Mac, own: Ip, traffic: Option<[Ip; 2]>) -> Device {
        Device { variable, mac, own, traffic }
    }
    const LEFT: Ip = [18, 26, 4, 0];
    const RIGHT: Ip = [18, 26, 7, 0];
    const fn router(name: &'static str, is_bridge: bool) -> Subject {
        let left = device("$DEV0", [0, 0, 0xc0, 0xae, 0x67, 0xef], [18, 26, 4, 24], Some([LEFT, RIGHT]));
        let right = device("$DEV1", [0, 0, 0xc0, 0x4f, 0x71, 0xef], [18, 26, 7, 1], Some([RIGHT, LEFT]));
        Subject { name, devices: [left, right], is_bridge }
    }
    let outside = device("$OUTSIDE", [2, 0, 0, 0, 0, 2], [192, 0, 2, 1], None);
    let inside = device("$INSIDE", [2, 0, 0, 0, 0, 1], [10, 0, 1, 1], Some([[10, 0, 1, 0], [192, 0, 2, 0]]));
    [
        router("ip-router", false),
        router("ip-router-noqueue", false),
        router("bridge", true),
        Subject { name: "nat-gateway", devices: [outside, inside], is_bridge: false },
    ]
}

/// What one run counted.
struct Counts {
    instructions: u64,
    packets: u64,
}

/// Runs the command.
pub(crate) fn main(root: &Path, directory: &str) -> ExitCode {
    let measured = build(root, directory).and_then(|()| {
        let program = Path::new(directory).join("release/junctor");
        subjects().iter().try_for_each(|subject| {
            let n = per_packet(root, Path::new(directory), &program, subject)
                .map_err(|why| format!("{}: {why}", subject.name))?;
            println!("{:20} {n:9.2} instructions per packet", subject.name);
            Ok(())
        })
    });
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn build(root: &Path, directory: &str) -> Result<(), String> {
    let fast = ["--config", "profile.release.lto=false", "--config", "profile.release.codegen-units=16"];
    let status = Command::new("cargo")
        .args(["build", "--release", "--quiet", "--package", "junctor", "--target-dir", directory])
        .args(fast)
        .current_dir(root)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the program could not be built".into()),
        Err(why) => Err(format!("cargo: {why}")),
    }
}

/// Instructions for each packet of a configuration.
fn per_packet(root: &Path, directory: &Path, program: &Path, subject: &Subject) -> Result<f64, String> {
    let [short, long] = FRAMES.map(|n| run(root, directory, program, subject, n));
    let (short, long) = (short?, long?);
    match (long.packets.checked_sub(short.packets), long.instructions.checked_sub(short.instructions)) {
        (Some(packets @ 1..), Some(instructions)) => Ok(instructions as f64 / packets as f64),
        _ => Err("the longer run had no more packets than the shorter one".into()),
    }
}

/// Runs a configuration with so many frames for each device.
fn run(root: &Path, directory: &Path, program: &Path, subject: &Subject, n: usize) -> Result<Counts, String> {
    let failed = |why: std::io::Error| why.to_string();
    let conf = root.join("conf").join(subject.name).with_extension("click");
    let mut text = std::fs::read_to_string(conf).map_err(failed)?;
    for (i, device) in subject.devices.iter().enumerate() {
        let [input, output] = ["in", "out"].map(|way| directory.join(format!("{way}{i}.pcap")));
        std::fs::write(&input, capture(&frames(subject, i, n))).map_err(failed)?;
        let variable = device.variable;
        let read = format!("FromDevice({}, METHOD FILE, TIMESTAMP false", input.display());
        let write = format!("ToDevice({}, METHOD FILE, SETTING WRITE true", output.display());
        text = text.replace(&format!("FromDevice({variable}, METHOD $METHOD"), &read);
        text = text.replace(&format!("ToDevice({variable}, METHOD $METHOD"), &write);
    }
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["run", "--simtime", "-j", "1", "--time", "3600", "-h", "FromDevice*.count", "-e", &text])
        .output()
        .map_err(|why| format!("valgrind: {why}; install valgrind"))?;
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    match (output.status.success(), counts(&said.concat())) {
        (true, Some(counts)) => Ok(counts),
        _ => Err(format!("the program did not run to its end:\n{}", said[1])),
    }
}

/// Reads what callgrind and the program say: instructions, and packets that devices received.
fn counts(text: &str) -> Option<Counts> {
    let collected = text.lines().find_map(|line| line.split_once("Collected :"))?.1;
    let mut lines = text.lines();
    let mut packets = 0;
    while let Some(line) = lines.next() {
        if line.starts_with("FromDevice") && line.ends_with(".count:") {
            packets += lines.next()?.trim().parse::<u64>().ok()?;
        }
    }
    Some(Counts { instructions: collected.trim().parse().ok()?, packets })
}

/// What a device receives: answers of all its neighbours, then flows in turn.
fn frames(subject: &Subject, at: usize, n: usize) -> Vec<Vec<u8>> {
    let device = &subject.devices[at];
    let mut all = Vec::new();
    if !subject.is_bridge {
        let hosts = (2..=254).map(|host| [device.own[0], device.own[1], device.own[2], host]);
        all.extend(hosts.filter(|host| *host != device.own).map(|host| arp_reply(device, host)));
    }
    let Some([from, to]) = device.traffic else { return all };
    let host = |net: Ip, flow: usize, step: usize| [net[0], net[1], net[2], 30 + (flow * step % 200) as u8];
    let flow = |i: usize| {
        let (source, target) = (host(from, i, 7), host(to, i, 13));
        let (from, to) = match subject.is_bridge {
            true => (station(source), station(target)),
            false => (station(device.own), device.mac),
        };
        udp([to, from], [source, target], 1024 + i as u16)
    };
    let flows: Vec<Vec<u8>> = (0..FLOWS).map(flow).collect();
    all.extend(flows.iter().cycle().take(n).cloned());
    all
}

/// The Ethernet address of a host.
fn station(host: Ip) -> Mac {
    [2, 1, host[0], host[1], host[2], host[3]]
}

fn arp_reply(device: &Device, host: Ip) -> Vec<u8> {
    let from = station(host);
    let head = [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2];
    let mut frame = [&device.mac[..], &from, &head, &from, &host, &device.mac, &device.own].concat();
    frame.resize(60, 0);
    frame
}

/// A UDP datagram of 60 bytes with its Ethernet header: `to` and `from`, then source and target.
fn udp(ethernet: [Mac; 2], [source, target]: [Ip; 2], port: u16) -> Vec<u8> {
    let mut ip = [&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0][..], &source, &target].concat();
    let sum: u32 = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let ports = [port.to_be_bytes(), 2000u16.to_be_bytes(), 26u16.to_be_bytes(), [0, 0]].concat();
    let mut frame = [&ethernet.concat()[..], &[0x08, 0], &ip, &ports].concat();
    frame.resize(60, 0);
    frame
}

/// A capture file of these frames.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1]);
    for frame in frames {
        let len = frame.len() as u32;
        file.extend(words(&[1_000_000_000, 0, len, len]));
        file.extend(frame);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_text_of_both() {
        let text = "FromDevice@1.count:\n30\n\nFromDevice@2.count:\n12\n\n==7== Collected : 4200\n";
        let counts = counts(text).expect("counts");
        assert_eq!((counts.instructions, counts.packets), (4200, 42));
    }

    #[test]
    fn devices_receive_answers_and_then_flows() {
        let [router, _, bridge, nat] = subjects();
        let count = |subject: &Subject, at| frames(subject, at, 10).len();
        assert_eq!(
            [count(&router, 0), count(&bridge, 0), count(&nat, 0), count(&nat, 1)],
            [262, 10, 253, 263]
        );
        assert!(frames(&router, 1, 10).iter().all(|frame| frame.len() == 60));
        assert_eq!(capture(&frames(&bridge, 0, 2)).len(), 24 + 2 * 76);
    }
}
