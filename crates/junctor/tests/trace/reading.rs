// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields that `junctor trace` shows of packets, compared with what tshark and scapy read in them. scapy makes the packets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::capturing::fields_of;
use crate::router::Running;

/// Values by name, in the order of their headers.
type Fields = BTreeMap<String, Vec<String>>;

fn told(packet: &Value) -> Fields {
    let mut all = Fields::new();
    for field in packet["fields"].as_array().expect("fields") {
        let [name, value] = ["field", "value"].map(|key| field[key].as_str().unwrap().to_owned());
        if !name.starts_with("anno.") {
            let values = all.entry(name).or_default();
            assert_eq!(field["nth"], values.len(), "{packet}");
            values.push(value);
        }
    }
    all
}

/// A number, however it is written, or else the text.
fn plain(value: &str) -> String {
    let digits = value.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    digits.unwrap_or_else(|| value.parse()).map_or_else(|_| value.to_owned(), |number| number.to_string())
}

/// What tshark's name is for a field of ours.
fn tsharks(name: &str) -> &str {
    match name {
        "data" => "data.data",
        other => other,
    }
}

#[test]
fn fields_are_those_that_tshark_and_scapy_read() {
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace_packets.py");
    let Some(_) = testbed::scapy::ask(script, &[dir.path().as_os_str()]) else { return };
    let file = dir.path().join("packets.pcap");
    let router = Running::start("Idle -> in :: Null -> Discard;", &["-j", "1"]);
    let traced = router.trace(&["--at", "in", "--pcap", file.to_str().unwrap()]);
    let told: Vec<Fields> = traced.iter().map(told).collect();
    assert!(told.len() > 400, "{}", told.len());

    // The same packets as digits.
    let digits = std::fs::read_to_string(dir.path().join("packets.hex")).unwrap();
    for (at, line) in digits.lines().enumerate().step_by(29) {
        let by_hex = router.trace(&["--at", "in", "--hex", line]);
        assert_eq!(by_hex[0]["fields"], traced[at]["fields"], "{line}");
    }

    let scapys = std::fs::read_to_string(dir.path().join("packets.json")).unwrap();
    let scapys: Vec<Fields> = serde_json::from_str(&scapys).unwrap();
    assert_eq!(scapys.len(), told.len());
    for ((told, scapys), line) in told.iter().zip(&scapys).zip(digits.lines()) {
        for (name, values) in scapys {
            let ours = told.get(name).cloned().unwrap_or_default();
            assert_eq!(&ours, values, "{name} of {line}: {told:?}");
        }
    }

    let of_scapy = ["ip.options", "ipv6.extensions", "eth.padding", "data", "data.len"];
    let names: BTreeSet<&str> = told.iter().flat_map(|told| told.keys().map(String::as_str)).collect();
    assert!(names.len() > 60, "{names:?}");
    let mut asked: Vec<&str> =
        names.into_iter().filter(|name| !of_scapy.contains(name)).map(tsharks).collect();
    asked.extend(["ieee8021ad.id", "ieee8021ad.priority", "ieee8021ad.dei"]);
    let options =
        ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE", "-o", "tcp.desegment_tcp_streams:FALSE"];
    let Some(read) = fields_of(&file, &options, &asked) else { return };
    assert_eq!(read.len(), told.len());
    for ((told, read), line) in told.iter().zip(&read).zip(digits.lines()) {
        let values = |name: &str| {
            let at = asked.iter().position(|asked| *asked == name);
            let all = at.map_or("", |at| &read[at]);
            all.split('|').filter(|value| !value.is_empty()).map(plain).collect::<Vec<_>>()
        };
        for name in asked.iter().filter(|name| !name.starts_with("ieee8021ad.")) {
            let mut tsharks = values(name);
            if let Some(field) = name.strip_prefix("vlan.") {
                tsharks.splice(0..0, values(&format!("ieee8021ad.{field}")));
            }
            if *name == "ip.version" {
                // tshark has one for headers of IPv6, too.
                tsharks.retain(|version| version != "6");
            }
            if *name == "vlan.etype" && !values("ieee8021ad.id").is_empty() {
                // tshark does not name what an outer tag of 802.1ad is followed by: here always another.
                tsharks.insert(0, "33024".into());
            }
            if name.ends_with("frag_offset") || name.ends_with("fraghdr.offset") {
                // tshark's filters have units of 8 bytes.
                tsharks.iter_mut().for_each(|n| *n = (n.parse::<u64>().unwrap() * 8).to_string());
            }
            let ours = told.get(*name).map_or(Vec::new(), |all| all.iter().map(|v| plain(v)).collect());
            assert_eq!(ours, tsharks, "{name} of {line}: {told:?}");
        }
    }
}
