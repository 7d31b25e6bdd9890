// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ip xfrm`, which knows nothing of Junctor, shows and changes Junctor's databases by the library.

mod bench;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use bench::{Bench, library};
use ipsec::{Database, Event, Id, Reached};
use testbed::process::Process;

const ADD: &str = "xfrm state add src 192.0.2.1 dst 198.51.100.1 proto esp spi 0x1234 reqid 7 mode tunnel \
                   aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128 replay-window 32";
const POLICY: &str = "xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 5 \
                      tmpl src 192.0.2.1 dst 198.51.100.1 proto esp reqid 7 mode tunnel";

/// Whether there is an `ip`.
fn skip(test: &str) -> bool {
    let is_there = Command::new("ip").arg("-V").output().is_ok();
    if !is_there {
        println!("{test}: skipped: ip is not installed");
    }
    !is_there
}

fn command(bench: &Bench, arguments: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(arguments.split_whitespace());
    command.env("LD_PRELOAD", library()).env("JUNCTOR_XFRM", bench.path());
    command
}

fn ip(bench: &Bench, arguments: &str) -> Output {
    command(bench, arguments).output().unwrap()
}

fn text(bench: &Bench, arguments: &str) -> String {
    let output = ip(bench, arguments);
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn id() -> Id {
    Id { dst: [198, 51, 100, 1].into(), spi: 0x1234 }
}

fn only(database: &Database) -> std::sync::Arc<ipsec::Association> {
    let [one] = &database.associations()[..] else { panic!("one association") };
    one.clone()
}

#[test]
fn ip_xfrm_works() {
    if skip("ip_xfrm_works") {
        return;
    }
    let bench = Bench::new();
    text(&bench, ADD);
    let association = only(&bench.database);
    assert_eq!((association.id(), association.config.reqid, association.config.esp.window), (id(), 7, 32));
    association.lines.passed(0, 1000, 5);
    let shown = text(&bench, "-s xfrm state");
    for part in [
        "src 192.0.2.1 dst 198.51.100.1",
        "proto esp spi 0x00001234(4660) reqid 7(0x00000007) mode tunnel",
        "replay-window 32",
        "aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 (160 bits) 128",
        "1000(bytes), 1(packets)",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let one = text(&bench, "xfrm state get src 192.0.2.1 dst 198.51.100.1 proto esp spi 0x1234");
    assert!(one.contains("reqid 7"), "{one}");
    let again = ip(&bench, ADD);
    let why = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && why.contains("there is an association with SPI 0x1234"), "{why}");
    let ah = ip(
        &bench,
        "xfrm state add src 192.0.2.1 dst 198.51.100.1 proto ah spi 0x1234 auth hmac(sha256) 0x00",
    );
    assert!(String::from_utf8_lossy(&ah.stderr).contains("ESP only, not AH"));
    text(&bench, POLICY);
    assert_eq!(bench.database.policies().len(), 1);
    let shown = text(&bench, "xfrm policy");
    for part in ["src 10.1.0.0/16 dst 10.2.0.0/16", "dir out priority 5", "proto esp reqid 7 mode tunnel"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(text(&bench, "xfrm state count").contains("1"));
    let count = text(&bench, "xfrm policy count");
    assert!(count.contains("OUT 1"), "{count}");
    text(&bench, "xfrm policy delete src 10.1.0.0/16 dst 10.2.0.0/16 dir out");
    text(&bench, "xfrm state delete src 192.0.2.1 dst 198.51.100.1 proto esp spi 0x1234");
    assert!(bench.database.associations().is_empty() && bench.database.policies().is_empty());
    let spi = "xfrm state allocspi src 192.0.2.1 dst 198.51.100.1 proto esp reqid 9 mode tunnel min 0x500 max 0x500";
    assert!(text(&bench, spi).contains("spi 0x00000500"));
}

/// More than one datagram's worth.
#[test]
fn a_long_list_is_whole() {
    if skip("a_long_list_is_whole") {
        return;
    }
    let bench = Bench::new();
    for spi in 0..3000u32 {
        let text = format!(
            "src 192.0.2.1 dst 198.51.100.1 spi {} reqid 7 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128",
            spi + 256
        );
        bench.database.add(ipsec::text::parse_association(&text).unwrap(), false, 0).unwrap();
    }
    assert_eq!(text(&bench, "xfrm state").matches("proto esp spi").count(), 3000);
    text(&bench, "xfrm state flush");
    assert!(bench.database.associations().is_empty());
}

/// What is behind the sockets of a process, by descriptor.
fn sockets(process: &Process) -> BTreeMap<PathBuf, PathBuf> {
    let all = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().flatten();
    let links = all.filter_map(|entry| Some((entry.path(), std::fs::read_link(entry.path()).ok()?)));
    links.filter(|(_, to)| to.to_string_lossy().starts_with("socket:")).collect()
}

#[test]
fn monitors_hear_of_events_before_and_after_the_server_was_away() {
    if skip("monitors_hear_of_events_before_and_after_the_server_was_away") {
        return;
    }
    let patience = Duration::from_secs(60);
    let mut bench = Bench::new();
    text(&bench, ADD);
    let mut monitor = Process::spawn(command(&bench, "xfrm monitor"), "ip xfrm monitor".to_owned()).unwrap();
    // Until it listens, events go to nobody.
    let expire = |bench: &Bench, reqid: u32| {
        bench.database.events.put(Event::Expire { id: id(), reqid, reached: Reached::Soft });
    };
    let hears = |bench: &Bench, monitor: &mut Process, lines: usize| {
        testbed::rig::wait_for("the monitor", patience, || {
            expire(bench, 7);
            monitor.stdout().matches("Expired src 192.0.2.1 dst 198.51.100.1").count() > lines
        })
    };
    hears(&bench, &mut monitor, 0).unwrap();
    assert!(monitor.stdout().contains("hard 0"), "{}", monitor.stdout());
    let connected = sockets(&monitor);
    bench.stop();
    testbed::rig::wait_for("the monitor to notice", patience, || sockets(&monitor) != connected).unwrap();
    bench.start();
    let before = monitor.stdout().matches("Expired").count();
    hears(&bench, &mut monitor, before).unwrap();
    assert_eq!(monitor.ended(), None);
}
