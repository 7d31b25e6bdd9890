// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of one's own, of which nothing comes.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use packet::port::link_type;
use wire::fields::First;
use wire::pcap::{Reader, Record};

use crate::{Error, Output};
use client::{Client, Failure};
use observe::fetch;
use observe::records::{Line, Order, State, Step};

/// A packet's bytes, and whether they begin with an IP header.
type Bytes = (Vec<u8>, bool);

/// Where packets to try come from.
pub enum Packets {
    /// One that is given on the line.
    One(Bytes),
    /// A capture file: its name, and what reads it.
    File(PathBuf, Box<Reader>),
}

impl Packets {
    /// The packet of these headers: see [`wire::compose::compose`].
    ///
    /// # Errors
    /// They are not well put.
    pub fn composed(headers: &str) -> Result<Packets, Error> {
        let made = wire::compose::compose(headers).map_err(|why| Error::Usage(format!("--packet: {why}")))?;
        Ok(Packets::One((made.bytes, made.first == First::Ip)))
    }

    /// The packet of these hexadecimal digits.
    ///
    /// # Errors
    /// They are none.
    pub fn of_digits(digits: &str) -> Result<Packets, Error> {
        let bytes = wire::compose::from_hex(digits).map_err(|why| Error::Usage(format!("--hex: {why}")))?;
        let ip = wire::fields::looks_like_ip(&bytes);
        Ok(Packets::One((bytes, ip)))
    }

    /// The packets of a capture file.
    ///
    /// # Errors
    /// It cannot be read, or is no capture file.
    pub fn of_file(file: &Path) -> Result<Packets, Error> {
        let opened = File::open(file).map_err(|e| Error::Usage(named(file, e)))?;
        let reader = Reader::new(BufReader::new(opened)).map_err(|e| Error::Usage(named(file, e)))?;
        Ok(Packets::File(file.to_owned(), Box::new(reader)))
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

/// Tries packets at an element and its port, or where they would come in; of a file so many at most.
///
/// # Errors
/// The router, a file that cannot be read to its end, or standard output that takes no more.
pub fn try_packets(
    packets: Packets,
    (at, most): (Option<&str>, Option<u64>),
    client: &mut Client,
    mut out: Output,
) -> Result<(), Error> {
    match packets {
        Packets::One(bytes) => {
            try_packet(at, client, &mut out, 1, &bytes)?;
            out.end()
        }
        Packets::File(file, reader) => try_file((at, most), client, out, &file, *reader),
    }
}

/// Tries the packets of a file one by one, so that what comes before a damaged one is reported.
fn try_file(
    (at, most): (Option<&str>, Option<u64>),
    client: &mut Client,
    mut out: Output,
    file: &Path,
    mut reader: Reader,
) -> Result<(), Error> {
    let (mut tried, mut packet) = (0, (Vec::new(), false));
    let mut damage = None;
    while out.takes_more() && most.is_none_or(|most| tried < most) {
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
        try_packet(at, client, &mut out, tried, &packet)?;
    }
    if tried > 0 {
        errln!("junctor: {tried} {} tried", if tried == 1 { "packet" } else { "packets" });
    }
    match damage {
        // What was asked for could not even begin.
        Some(why) if tried == 0 => Err(Error::Usage(why)),
        Some(why) => Err(Error::Damaged(why)),
        None if tried == 0 => Err(Error::Nothing(named(file, "it has no packets"))),
        None => out.end(),
    }
}

fn try_packet(
    at: Option<&str>,
    client: &mut Client,
    out: &mut Output,
    number: u64,
    (bytes, ip): &Bytes,
) -> Result<(), Failure> {
    let (bytes, ip) = (wire::fields::hex(bytes), *ip);
    let tried = State { bytes: bytes.clone(), ip, annotations: Vec::new() };
    let lines = fetch::ask(client, &Order::Try { bytes, ip, at: at.map(str::to_owned) })?;
    let of_step = |line| if let Line::Step(step) = line { Some(step) } else { None };
    let mut steps: Vec<Step> = lines.into_iter().filter_map(of_step).collect();
    steps.iter_mut().for_each(|step| step.packet = number);
    // A source that does not take it reports nothing further on it.
    if let Some(first) = steps.first_mut() {
        first.state.get_or_insert(tried);
    }
    out.print(number, steps, &[], true);
    Ok(())
}
