// SPDX-License-Identifier: MIT OR Apache-2.0
//! The feed of FRR with a real zebra, and with other clients that connect.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use common::{Frr, PATIENCE, Seen, ZEBRA, is_route, is_withdrawal, namespace, notices};
use junctor_control::fpm::sample::Stream;
use junctor_control::fpm::{Settings, spawn};
use junctor_control::model::Change;
use testbed::rig::{Namespace, skip, skip_without, wait_for};

fn settings(namespace: &Namespace) -> Settings {
    let quiet = Duration::from_millis(300);
    Settings { namespace: Some(namespace.name().into()), quiet, ..Settings::default() }
}

const CONF: &str = "fpm address 127.0.0.1\n";
const ROUTES: &str = "
ip route 192.0.2.0/24 10.0.0.2
ip route 198.51.100.0/24 10.0.0.2
ip route 198.51.100.0/24 10.0.1.2
ip route 203.0.113.0/24 blackhole
ipv6 route 2001:db8:1::/48 2001:db8::2
";

fn with_zebra(conf: &str) {
    let namespace = namespace().unwrap();
    let (reports, seen) = sync_channel(4);
    let (tell, notices) = notices();
    let feed = spawn(settings(&namespace), reports, tell).unwrap();
    let mut seen = Seen::new(seen);
    let mut frr = Frr::start(&namespace, conf, ROUTES).unwrap();
    seen.wait_past("the start of the replay", |change| *change == Change::Begin);
    seen.wait("all routes", |changes| {
        ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8:1::/48", "10.0.0.0/24"]
            .iter()
            .all(|text| changes.iter().any(|change| is_route(change, text)))
    });
    seen.wait_past("the end of the replay", |change| *change == Change::End);

    // A change is one change, without a withdrawal in between.
    let merged = feed.counters().merged;
    frr.configure(&namespace, &["ip route 192.0.2.0/24 10.0.1.2", "no ip route 192.0.2.0/24 10.0.0.2"])
        .unwrap();
    wait_for("a merged change", PATIENCE, || feed.counters().merged > merged).unwrap();
    frr.configure(&namespace, &["no ip route 203.0.113.0/24 blackhole"]).unwrap();
    seen.wait("the withdrawal", |changes| {
        changes.iter().any(|change| is_withdrawal(change, "203.0.113.0/24"))
    });
    assert!(!seen.changes.iter().any(|change| is_withdrawal(change, "192.0.2.0/24")), "{:#?}", seen.changes);
    assert!(seen.changes.iter().any(|change| is_route(change, "192.0.2.0/24")), "{:#?}", seen.changes);

    // Killed and started again, it replays.
    seen.changes.clear();
    frr.kill("zebra");
    seen.wait_past("the loss", |change| *change == Change::Lost);
    frr.kill("staticd");
    frr.start_daemons(&namespace).unwrap();
    seen.wait_past("another replay", |change| *change == Change::Begin);
    seen.wait("its routes", |changes| changes.iter().any(|change| is_route(change, "198.51.100.0/24")));
    seen.wait_past("its end", |change| *change == Change::End);
    let counters = feed.counters();
    assert_eq!((counters.malformed, counters.unsupported, counters.refused), (0, 0, 0), "{notices:?}");
    assert!(counters.reports >= 2);
}

#[test]
fn zebra_is_followed_with_next_hop_groups() {
    if !skip_without("zebra_is_followed_with_next_hop_groups", &[ZEBRA, "vtysh"]) {
        with_zebra(CONF);
    }
}

#[test]
fn zebra_is_followed_without_next_hop_groups() {
    if !skip_without("zebra_is_followed_without_next_hop_groups", &[ZEBRA, "vtysh"]) {
        with_zebra(&format!("{CONF}no fpm use-next-hop-groups\n"));
    }
}

/// Reads until the other side closes.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    match stream.read(&mut [0; 8]) {
        Ok(read) => read == 0,
        Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn one_zebra_at_a_time_and_none_that_talks_nonsense() {
    if skip("one_zebra_at_a_time_and_none_that_talks_nonsense") {
        return;
    }
    let namespace = namespace().unwrap();
    let (reports, seen) = sync_channel(1);
    let (tell, notices) = notices();
    let settings = settings(&namespace);
    let feed = spawn(settings.clone(), reports, tell).unwrap();
    let mut seen = Seen::new(seen);
    let connect = || namespace.enter(|| TcpStream::connect(settings.listen)).unwrap().unwrap();
    let said = |text: &str| notices.lock().unwrap().iter().any(|notice| notice.contains(text));

    let mut first = connect();
    let mut sample = Stream::default();
    sample.object(7, [10, 0, 0, 2].into(), 3);
    sample.route(common::prefix("192.0.2.0/24"), 7, false);
    first.write_all(&sample.bytes).unwrap();
    seen.wait_past("a route", |change| is_route(change, "192.0.2.0/24"));
    let mut second = connect();
    assert!(is_closed(&mut second));
    wait_for("the refusal", PATIENCE, || said("one zebra at a time")).unwrap();
    assert_eq!(feed.counters().refused, 1);

    // Half a frame is waited for; nonsense ends the connection.
    first.write_all(&sample.bytes[..50]).unwrap();
    first.write_all(&[0xff; 64]).unwrap();
    assert!(is_closed(&mut first));
    seen.wait_past("the loss", |change| *change == Change::Lost);
    wait_for("the reason", PATIENCE, || said("netlink message of type") || said("FPM stream")).unwrap();
    assert_eq!(feed.counters().malformed, 1);

    // The next one is welcome. It leaves within a frame.
    let mut third = connect();
    third.write_all(&sample.bytes[..50]).unwrap();
    seen.wait_past("another replay", |change| *change == Change::Begin);
    drop(third);
    seen.wait_past("the loss", |change| *change == Change::Lost);
    wait_for("the reason", PATIENCE, || said("within a frame")).unwrap();
}

#[test]
fn a_reader_that_is_behind_holds_zebra_back() {
    if skip("a_reader_that_is_behind_holds_zebra_back") {
        return;
    }
    let namespace = namespace().unwrap();
    let (reports, seen) = sync_channel(1);
    let (tell, _) = notices();
    let settings = settings(&namespace);
    let _feed = spawn(settings.clone(), reports, tell).unwrap();
    let mut stream = namespace.enter(|| TcpStream::connect(settings.listen)).unwrap().unwrap();
    let mut sample = Stream::default();
    let routes = 300_000u32;
    for n in 0..routes {
        let four =
            wire::addr::Prefix4::new(std::net::Ipv4Addr::from_bits(0x0b00_0000 + (n << 8)), 24).unwrap();
        sample.route(junctor_control::Destination::V4(four), 7, n % 2 == 0);
    }
    // The writer is held back as long as nobody receives reports, so the connection's buffers fill.
    stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    wait_for("full buffers", PATIENCE, || {
        loop {
            match stream.write(&sample.bytes[sent..]) {
                Ok(written) => sent += written,
                Err(_) => return sent > 1 << 20,
            }
        }
    })
    .unwrap();
    assert!(sent < sample.bytes.len());
    stream.set_nonblocking(false).unwrap();
    let writer = std::thread::spawn(move || stream.write_all(&sample.bytes[sent..]).map(|()| stream));
    let mut seen = Seen::new(seen);
    let is_route = |change: &&Change| matches!(change, Change::Route { .. });
    seen.wait("all routes", |changes| changes.iter().filter(is_route).count() == routes as usize);
    assert!(!seen.changes.iter().any(|change| matches!(change, Change::Withdraw { .. })));
    drop(writer.join().unwrap().unwrap());
}
