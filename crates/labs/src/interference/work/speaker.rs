// SPDX-License-Identifier: MIT OR Apache-2.0
//! A BGP speaker that only sends a table (RFC 4271): its messages are made before, so that it takes next to no time.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// Bytes of a message at most (RFC 4271, section 4.1).
const MOST: usize = 4096;
const HEADER: usize = 19;
const OPEN: u8 = 1;
const UPDATE: u8 = 2;
const NOTIFICATION: u8 = 3;
const KEEPALIVE: u8 = 4;
/// Routes with attributes of their own that are made: paths differ as those of a table do.
const PATHS: usize = 256;

/// A route: address and length of the prefix.
pub(super) type Route = (u32, u8);

/// A message: its header and its body.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff; 16];
    bytes.extend(((HEADER + body.len()) as u16).to_be_bytes());
    bytes.push(kind);
    bytes.extend(body);
    bytes
}

/// OPEN without options. Hold time 0: neither side sends keep-alives.
fn open(own_as: u16, id: Ipv4Addr) -> Vec<u8> {
    let mut body = vec![4];
    body.extend(own_as.to_be_bytes());
    body.extend([0, 0]);
    body.extend(id.octets());
    body.push(0);
    message(OPEN, &body)
}

/// Origin, path and next hop of a group of routes. The path distinguishes groups.
fn attributes(own_as: u16, group: usize, next_hop: Ipv4Addr) -> Vec<u8> {
    let path = [own_as, 64_000 + (group % 16) as u16, 63_000 + (group / 16) as u16];
    let mut bytes = vec![0x40, 1, 1, 0];
    bytes.extend([0x40, 2, 2 + 2 * path.len() as u8, 2, path.len() as u8]);
    path.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
    bytes.extend([0x40, 3, 4]);
    bytes.extend(next_hop.octets());
    bytes
}

/// All messages that announce routes, and the one that ends them (RFC 4724).
pub(super) fn updates(routes: &[Route], own_as: u16, next_hop: Ipv4Addr) -> Vec<u8> {
    let mut bytes = Vec::new();
    let group = routes.len().div_ceil(PATHS).max(1);
    for (number, routes) in routes.chunks(group).enumerate() {
        let attributes = attributes(own_as, number, next_hop);
        let mut head = vec![0, 0];
        head.extend((attributes.len() as u16).to_be_bytes());
        head.extend(&attributes);
        let mut body = head.clone();
        for (address, len) in routes {
            let octets = usize::from(len.div_ceil(8));
            if HEADER + body.len() + 1 + octets > MOST {
                bytes.extend(message(UPDATE, &body));
                body.clone_from(&head);
            }
            body.push(*len);
            body.extend(&address.to_be_bytes()[..octets]);
        }
        bytes.extend(message(UPDATE, &body));
    }
    bytes.extend(message(UPDATE, &[0, 0, 0, 0]));
    bytes
}

/// A session.
#[derive(Debug)]
pub(super) struct Speaker {
    stream: TcpStream,
}

impl Speaker {
    /// Opens one from an address to a daemon. Both have sent OPEN and KEEPALIVE when this returns.
    pub(super) fn connect(from: Ipv4Addr, to: Ipv4Addr, own_as: u16) -> io::Result<Speaker> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrV4::new(from, 0))?;
        connect(&socket, &SocketAddrV4::new(to, 179))?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.set_write_timeout(Some(Duration::from_secs(300)))?;
        let mut speaker = Speaker { stream };
        // One that comes before the daemon has sent its own is an error to some.
        speaker.expect(OPEN)?;
        speaker.stream.write_all(&open(own_as, from))?;
        speaker.stream.write_all(&message(KEEPALIVE, &[]))?;
        speaker.expect(KEEPALIVE)?;
        Ok(speaker)
    }

    /// Sends messages.
    pub(super) fn send(&mut self, messages: &[u8]) -> io::Result<()> {
        self.stream.write_all(messages)
    }

    /// Reads messages until one of this kind.
    fn expect(&mut self, kind: u8) -> io::Result<()> {
        loop {
            let mut header = [0; HEADER];
            self.stream.read_exact(&mut header)?;
            let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
            if !(HEADER..=MOST).contains(&length) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("a message of {length} bytes"),
                ));
            }
            let mut body = vec![0; length - HEADER];
            self.stream.read_exact(&mut body)?;
            match header[18] {
                NOTIFICATION => {
                    let why = format!("the daemon ends the session: error {:?}", body.get(..2));
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
                }
                got if got == kind => return Ok(()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes messages apart: their kinds and bodies.
    fn messages(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            assert_eq!(bytes[..16], [0xff; 16]);
            let length = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
            assert!((HEADER..=MOST).contains(&length));
            all.push((bytes[18], &bytes[HEADER..length]));
            bytes = &bytes[length..];
        }
        all
    }

    #[test]
    fn an_open_has_the_length_that_it_says() {
        let bytes = open(65_001, Ipv4Addr::new(127, 0, 0, 2));
        assert_eq!(messages(&bytes), [(OPEN, &[4, 0xfd, 0xe9, 0, 0, 127, 0, 0, 2, 0][..])]);
    }

    #[test]
    fn every_route_is_announced_once_and_then_the_end() {
        let routes: Vec<Route> =
            (0..20_000u32).map(|i| (i << 10, 22)).chain([(0, 0), (0x7f00_0001, 32)]).collect();
        let bytes = updates(&routes, 65_001, Ipv4Addr::new(10, 9, 0, 2));
        let mut found = Vec::new();
        let all = messages(&bytes);
        for (kind, body) in &all {
            assert_eq!((*kind, &body[..2]), (UPDATE, &[0, 0][..]));
            let attributes = usize::from(u16::from_be_bytes([body[2], body[3]]));
            let mut rest = &body[4 + attributes..];
            while let [len, after @ ..] = rest {
                let octets = usize::from(len.div_ceil(8));
                let mut address = [0; 4];
                address[..octets].copy_from_slice(&after[..octets]);
                found.push((u32::from_be_bytes(address), *len));
                rest = &after[octets..];
            }
        }
        assert_eq!(found, routes);
        assert_eq!(all.last().map(|m| m.1), Some(&[0, 0, 0, 0][..]));
    }
}
