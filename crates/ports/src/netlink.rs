// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel reports of interfaces without being asked (rtnetlink(7)). Nothing is missed between two looks, and listening waits for no lock of
//! the kernel's.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys::{self, check};

mod request;

pub(crate) use request::{CREATE, REPLACE, Request, attribute};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
pub(crate) const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
pub(crate) const RTM_GETADDR: u16 = 22;
const RTMGRP_LINK: u32 = 1;
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_CARRIER_DOWN_COUNT: u16 = 48;
const IFLA_INFO_KIND: u16 = 1;
const HEADER: usize = 16;
const LINK_HEADER: usize = 16;
pub(crate) const ADDRESS_HEADER: usize = 8;
/// Room for some messages of the kernel's, which are seldom longer than 2 KiB.
const BUFFER: usize = 32 * 1024;

/// What a message reports about an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkEvent {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) gone: bool,
    /// It is up and has a carrier.
    pub(crate) carries: bool,
    pub(crate) carrier_downs: Option<u32>,
    pub(crate) mac: Option<[u8; 6]>,
    /// The interface below it.
    pub(crate) lower: Option<u32>,
    pub(crate) kind: Option<String>,
}

/// Hears of all interfaces of the namespace in which it was made.
#[derive(Debug)]
pub(crate) struct LinkEvents(OwnedFd);

/// Hears of all addresses of interfaces of the namespace in which it was made.
#[derive(Debug)]
pub(crate) struct AddressEvents(OwnedFd);

/// What a message reports about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressEvent {
    pub(crate) index: u32,
    pub(crate) address: IpAddr,
    pub(crate) prefix_len: u8,
    /// Lower is better: whether the kernel speaks by others if it can, and the scope.
    pub(crate) preference: (bool, u8),
    pub(crate) gone: bool,
}

fn listen(groups: u32) -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
    // SAFETY: zeros are an address.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_groups = groups;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of the address.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(socket)
}

/// Asks for all objects; the answers come as events.
fn dump(socket: &OwnedFd, what: u16) -> io::Result<()> {
    const REQUEST_DUMP: u16 = 1 | 0x300;
    let mut request = [0u8; HEADER + LINK_HEADER];
    request[..4].copy_from_slice(&((HEADER + LINK_HEADER) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&what.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    // SAFETY: the kernel reads the request.
    let sent =
        unsafe { libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Calls `tell` with the kind and the body of each message that has come; false when the kernel had no room and something is missing.
fn receive(socket: &OwnedFd, mut tell: impl FnMut(u16, &[u8])) -> bool {
    let mut whole = true;
    let mut buffer = Vec::new();
    loop {
        // Mostly nothing has come, for which no buffer is needed.
        let mut nothing = [0; 1];
        let peeks = buffer.is_empty();
        let room: &mut [u8] = if peeks { &mut nothing } else { &mut buffer };
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC | if peeks { libc::MSG_PEEK } else { 0 };
        // SAFETY: the kernel writes at most `room.len()` bytes there.
        let got = unsafe { libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), flags) };
        match usize::try_from(got) {
            Ok(_) if peeks => buffer.resize(BUFFER, 0),
            Ok(len) if len > BUFFER => whole = false,
            Ok(len) => messages(&buffer[..len], &mut tell),
            Err(_) => match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOBUFS) => whole = false,
                Some(libc::EINTR) => {}
                _ => return whole,
            },
        }
    }
}

impl LinkEvents {
    pub(crate) fn new() -> io::Result<LinkEvents> {
        listen(RTMGRP_LINK).map(LinkEvents)
    }

    /// Asks for all interfaces; the answers come as events.
    pub(crate) fn ask_for_all(&self) -> io::Result<()> {
        const RTM_GETLINK: u16 = 18;
        dump(&self.0, RTM_GETLINK)
    }

    /// Calls `tell` with what has come; false when something is missing.
    pub(crate) fn read(&self, mut tell: impl FnMut(LinkEvent)) -> bool {
        receive(&self.0, |kind, body| {
            if matches!(kind, RTM_NEWLINK | RTM_DELLINK)
                && let Some(event) = link(body, kind == RTM_DELLINK)
            {
                tell(event);
            }
        })
    }
}

impl AddressEvents {
    pub(crate) fn new() -> io::Result<AddressEvents> {
        listen(RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR).map(AddressEvents)
    }

    /// Asks for all addresses; the answers come as events.
    pub(crate) fn ask_for_all(&self) -> io::Result<()> {
        dump(&self.0, RTM_GETADDR)
    }

    /// Calls `tell` with what has come; false when something is missing.
    pub(crate) fn read(&self, mut tell: impl FnMut(AddressEvent)) -> bool {
        receive(&self.0, |kind, body| {
            if matches!(kind, RTM_NEWADDR | RTM_DELADDR)
                && let Some(event) = address(body, kind == RTM_DELADDR)
            {
                tell(event);
            }
        })
    }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

fn messages(mut bytes: &[u8], tell: &mut impl FnMut(u16, &[u8])) {
    while let Some(len) = word(bytes, 0).map(|len| len as usize).filter(|len| *len >= HEADER)
        && let Some(message) = bytes.get(..len)
    {
        tell(half(message, 4).unwrap_or(0), &message[HEADER..]);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
}

/// Attributes: length and kind, and what they hold.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(half(bytes, 0)?);
        let (kind, value) = (half(bytes, 2)?, bytes.get(4..len)?);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind & 0x3fff, value))
    })
}

fn text(value: &[u8]) -> Option<String> {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8(value[..end].to_vec()).ok()
}

/// struct ifinfomsg: family, type, index, flags, change; then attributes.
fn link(body: &[u8], gone: bool) -> Option<LinkEvent> {
    const CARRIES: u32 = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    // Bridges tell of their ports in messages of their own family.
    if *body.first()? != libc::AF_UNSPEC as u8 {
        return None;
    }
    let carries = word(body, 8)? & CARRIES == CARRIES;
    let mut event = LinkEvent { index: word(body, 4)?, gone, carries, ..LinkEvent::default() };
    for (kind, value) in attributes(body.get(LINK_HEADER..)?) {
        match kind {
            IFLA_IFNAME => event.name = text(value)?,
            IFLA_ADDRESS => event.mac = value.try_into().ok(),
            IFLA_LINK => event.lower = word(value, 0),
            IFLA_CARRIER_DOWN_COUNT => event.carrier_downs = word(value, 0),
            IFLA_LINKINFO => {
                event.kind =
                    attributes(value).find(|(kind, _)| *kind == IFLA_INFO_KIND).and_then(|(_, v)| text(v));
            }
            _ => {}
        }
    }
    Some(event)
}

/// struct ifaddrmsg: family, prefix length, flags, scope, index; then attributes.
fn address(body: &[u8], gone: bool) -> Option<AddressEvent> {
    // The kernel speaks by none of these if it has another one. Temporary addresses of IPv6 count as secondary.
    const LESS: u8 = (libc::IFA_F_SECONDARY | libc::IFA_F_DEPRECATED | libc::IFA_F_TENTATIVE) as u8;
    let read = |value: &[u8]| match value.len() {
        4 => value.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        _ => value.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
    };
    let index = word(body, 4)?;
    let all = || attributes(body.get(ADDRESS_HEADER..).unwrap_or(&[]));
    let value_of = |wanted: u16| all().find(|(kind, _)| *kind == wanted).and_then(|(_, value)| read(value));
    // Where the link has two ends, this is the local one, and the network is the other one's.
    let (local, other) = (value_of(IFA_LOCAL), value_of(IFA_ADDRESS));
    let address = local.or(other)?;
    let own_len = if address.is_ipv4() { 32 } else { 128 };
    let prefix_len = if other.is_some_and(|other| other != address) { own_len } else { *body.get(1)? };
    let preference = (body.get(2)? & LESS != 0, *body.get(3)?);
    Some(AddressEvent { index, address, prefix_len, preference, gone })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_interfaces_are_told() {
        let events = LinkEvents::new().unwrap();
        events.ask_for_all().unwrap();
        let mut found = Vec::new();
        testbed::rig::wait_for("loopback", std::time::Duration::from_secs(60), || {
            assert!(events.read(|event| found.push(event)));
            found.iter().any(|event| event.name == "lo")
        })
        .unwrap();
        let lo = found.iter().find(|event| event.name == "lo").unwrap();
        assert_eq!(
            (lo.mac, lo.gone, lo.index),
            (Some([0; 6]), false, crate::link::Interfaces::new().unwrap().index("lo").unwrap())
        );
    }

    #[test]
    fn addresses_are_told() {
        let events = AddressEvents::new().unwrap();
        events.ask_for_all().unwrap();
        let mut found = Vec::new();
        testbed::rig::wait_for("an address of loopback", std::time::Duration::from_secs(60), || {
            assert!(events.read(|event| found.push(event)));
            found.iter().any(|event| !event.gone && event.address.is_loopback())
        })
        .unwrap();
    }

    #[test]
    fn damaged_messages_end_the_reading() {
        let whole = {
            let mut message = vec![0; HEADER + LINK_HEADER];
            message.extend([8, 0, 3, 0, b'e', b'0', 0, 0]);
            let len = message.len() as u32;
            message[..4].copy_from_slice(&len.to_ne_bytes());
            message[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
            message[HEADER + 4] = 7;
            message
        };
        let read = |bytes: &[u8]| {
            let mut found = Vec::new();
            messages(bytes, &mut |kind, body| found.extend(link(body, kind == RTM_DELLINK)));
            found
        };
        assert_eq!(read(&whole), [LinkEvent { index: 7, name: "e0".to_owned(), ..LinkEvent::default() }]);
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_empty());
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            read(&damaged);
        }
    }
}
