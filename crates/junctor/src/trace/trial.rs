// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of one's own, of which nothing comes.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use packet::port::link_type;
use wire::fields::First;
use wire::pcap::{Reader, Record};

use super::{Args, Out, print};
use crate::outcome;
use client::{Client, Failure};
use observe::fetch;
use observe::records::{Line, Order, State, Step};

/// A packet's bytes, and whether they begin with an IP header.
type Bytes = (Vec<u8>, bool);

/// Where packets to try come from.
pub(super) enum Packets {
    /// One that is given on the line.
    One(Bytes),
    /// A capture file: its name, and what reads it.
    File(PathBuf, Box<Reader>),
}

impl Packets {
    /// What is to be tried; nothing if no packet is given.
    ///
    /// # Errors
    /// It is not well put, or no capture file.
    pub(super) fn of(trial: &super::Trial) -> Result<Option<Packets>, String> {
        if let Some(line) = &trial.packet {
            let made = wire::compose::compose(line).map_err(|why| format!("--packet: {why}"))?;
            return Ok(Some(Packets::One((made.bytes, made.first == First::Ip))));
        }
        if let Some(digits) = &trial.hex {
            let bytes = wire::compose::from_hex(digits).map_err(|why| format!("--hex: {why}"))?;
            let ip = wire::fields::looks_like_ip(&bytes);
            return Ok(Some(Packets::One((bytes, ip))));
        }
        let Some(file) = &trial.pcap else { return Ok(None) };
        let opened = File::open(file).map_err(|e| named(file, e))?;
        let reader = Reader::new(BufReader::new(opened)).map_err(|e| named(file, e))?;
        Ok(Some(Packets::File(file.clone(), Box::new(reader))))
    }
}

fn named(file: &Path, why: impl std::fmt::Display) -> String {
    format!("{}: {why}", file.display())
}

/// Whether a packet of a file begins with an IP header.
fn begins_with_ip(record: &Record) -> Result<bool, String> {
    match record.link_type {
        link_type::ETHERNET => Ok(false),
        link_type::RAW => Ok(true),
        other => Err(format!("a packet begins with neither Ethernet nor IP (link type {other})")),
    }
}

/// Tries packets.
pub(super) fn try_packets(
    args: &Args,
    client: &mut Client,
    mut out: Out,
    packets: Packets,
) -> Result<u8, Failure> {
    match packets {
        Packets::One(bytes) => {
            try_packet(args, client, &mut out, 1, &bytes)?;
            Ok(out.status())
        }
        Packets::File(file, reader) => try_file(args, client, out, &file, *reader),
    }
}

/// Tries the packets of a file one by one, so that what comes before a damaged one is told.
fn try_file(
    args: &Args,
    client: &mut Client,
    mut out: Out,
    file: &Path,
    mut reader: Reader,
) -> Result<u8, Failure> {
    let (mut tried, mut packet) = (0, (Vec::new(), false));
    let mut damage = None;
    while out.takes_more() && args.count.is_none_or(|count| tried < count) {
        let next = reader.next(&mut packet.0).map_err(|e| e.to_string());
        match next.and_then(|record| record.map(|record| begins_with_ip(&record)).transpose()) {
            Ok(Some(ip)) => packet.1 = ip,
            Ok(None) => break,
            Err(why) => {
                damage = Some(named(file, why));
                break;
            }
        }
        tried += 1;
        try_packet(args, client, &mut out, tried, &packet)?;
    }
    if tried > 0 {
        errln!("junctor: {tried} {} tried", if tried == 1 { "packet" } else { "packets" });
    }
    Ok(match damage {
        // What was asked for could not even begin.
        Some(why) if tried == 0 => outcome::usage(why),
        Some(why) => outcome::fail(why),
        None if tried == 0 => outcome::fail(named(file, "it has no packets")),
        None => out.status(),
    })
}

fn try_packet(
    args: &Args,
    client: &mut Client,
    out: &mut Out,
    number: u64,
    (bytes, ip): &Bytes,
) -> Result<(), Failure> {
    let (bytes, ip) = (wire::fields::hex(bytes), *ip);
    let tried = State { bytes: bytes.clone(), ip, annotations: Vec::new() };
    let lines = fetch::ask(client, &Order::Try { bytes, ip, at: args.at.clone() })?;
    let of_step = |line| if let Line::Step(step) = line { Some(step) } else { None };
    let mut steps: Vec<Step> = lines.into_iter().filter_map(of_step).collect();
    steps.iter_mut().for_each(|step| step.packet = number);
    // A source that does not take it tells no more of it.
    if let Some(first) = steps.first_mut() {
        first.state.get_or_insert(tried);
    }
    print(args, out, number, steps, &[], true);
    Ok(())
}
