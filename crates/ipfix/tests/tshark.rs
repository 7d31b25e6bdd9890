// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wireshark reads the same values from messages as were put in.

use std::process::Command;

use cases::{START_MS, cases};
use junctor_ipfix::{Event, Exporter, Format, Settings, What};

mod cases;

/// The fields that are compared, as tshark names them; in the order of the rows below.
const FIELDS: [&str; 22] = [
    "cflow.nat_event",
    "cflow.srcaddr",
    "cflow.srcaddrv6",
    "cflow.post_natsource_ipv4_address",
    "cflow.protocol",
    "cflow.srcport",
    "cflow.post_naptsource_transport_port",
    "cflow.dstaddr",
    "cflow.post_natdestination_ipv4_address",
    "cflow.dstport",
    "cflow.post_naptdestination_transport_port",
    "cflow.port_range_start",
    "cflow.port_range_end",
    "cflow.port_range_step_size",
    "cflow.port_range_num_ports",
    "cflow.nat_pool_id",
    "cflow.nat_quota_exceeded_event",
    "cflow.max_session_entries",
    "cflow.max_bib_entries",
    "cflow.max_entries_per_user",
    "cflow.observation_time_milliseconds",
    "cflow.od_id",
];

/// A capture of datagrams to a port: IPv4 without a link layer (LINKTYPE_RAW), and no checksum of UDP.
fn capture(messages: &[Vec<u8>], port: u16) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65_535, 101] {
        file.extend_from_slice(&if word == 0x0002_0004 {
            0x0004_0002u32.to_le_bytes()
        } else {
            word.to_le_bytes()
        });
    }
    for message in messages {
        let (udp, ip) = (message.len() as u16 + 8, message.len() as u16 + 28);
        for word in [0, 0, u32::from(ip), u32::from(ip)] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        for half in [0x4500, ip, 0, 0, 0x4011, 0, 0x0a00, 1, 0x0a00, 2, 40_000, port, udp, 0u16] {
            file.extend_from_slice(&half.to_be_bytes());
        }
        file.extend_from_slice(message);
    }
    file
}

/// What tshark finds in messages: a row of these fields for each.
fn decoded(messages: &[Vec<u8>], port: u16, fields: &[&str]) -> Option<Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("messages.pcap");
    std::fs::write(&path, capture(messages, port)).unwrap();
    let mut command = Command::new("tshark");
    command
        .env("TZ", "UTC")
        .args(["-n", "-d", &format!("udp.port=={port},cflow"), "-T", "fields", "-r"])
        .arg(&path);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let Ok(output) = command.output() else {
        eprintln!("skipped: tshark is not installed");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// A row with a dash for each field that is not there.
fn row(line: &str) -> String {
    line.split('\t').map(|field| if field.is_empty() { "-" } else { field }).collect::<Vec<_>>().join("|")
}

fn check(format: Format, port: u16) {
    let (mut messages, mut expected) = (Vec::new(), Vec::new());
    for (n, (event, mut fields)) in cases().into_iter().enumerate() {
        // One exporter for each, so that each message has its template.
        let settings = Settings { domain: n as u32 + 1, ..Settings::new(format) };
        let mut exporter = Exporter::new(settings, START_MS).unwrap();
        messages.extend(exporter.export(START_MS, &[event]));
        fields.push(format!("Nov 14, 2023 22:13:20.{:03}000000 UTC", 100 + n));
        fields.push(if format == Format::Ipfix { (n + 1).to_string() } else { "-".to_owned() });
        expected.push(fields.join("|"));
    }
    let Some(found) = decoded(&messages, port, &FIELDS) else { return };
    assert_eq!(found.iter().map(|line| row(line)).collect::<Vec<_>>(), expected);
}

#[test]
fn tshark_reads_ipfix() {
    check(Format::Ipfix, 4739);
}

#[test]
fn tshark_reads_netflow_9() {
    check(Format::NetFlow9, 2055);
}

#[test]
fn tshark_reads_records_not_sent() {
    let mut exporter = Exporter::new(Settings { process: 77, ..Settings::new(Format::Ipfix) }, 0).unwrap();
    let messages = [exporter.not_sent(0, 5), exporter.not_sent(0, 2)].concat();
    let fields = ["cflow.flow_exporter", "cflow.notsent_flows", "cflow.sequence"];
    let Some(found) = decoded(&messages, 4739, &fields) else { return };
    assert_eq!(found, ["77\t5\t0", "77\t7\t1"]);
}

#[test]
fn tshark_finds_nothing_wrong_with_many_messages() {
    for (format, port) in [(Format::Ipfix, 4739), (Format::NetFlow9, 2055)] {
        let settings = Settings { message_octets_max: 300, refresh_messages: 5, ..Settings::new(format) };
        let mut exporter = Exporter::new(settings, 0).unwrap();
        let what: Vec<What> = cases().into_iter().map(|(event, _)| event.what).collect();
        let event = |n: u64| Event { at_ms: n, what: what[n as usize % what.len()] };
        let messages = exporter.export(0, &(0..1000).map(event).collect::<Vec<_>>());
        let fields = ["cflow.nat_event", "_ws.malformed", "_ws.expert.message"];
        let Some(found) = decoded(&messages, port, &fields) else { return };
        assert_eq!(found.len(), messages.len());
        let events = |line: &String| {
            line.split('\t').next().unwrap_or_default().split(',').filter(|e| !e.is_empty()).count()
        };
        assert_eq!(found.iter().map(events).sum::<usize>(), 1000);
        assert!(found.iter().all(|line| line.ends_with("\t\t")), "{found:?}");
    }
}
