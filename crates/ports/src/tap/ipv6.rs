// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives a tap the MTU of its twin, and keeps its IPv6 addresses and routes meanwhile.
//!
//! The kernel takes IPv6 off an interface with an MTU below 1280 bytes (RFC 8200, section 5), and returns nothing when the MTU rises. So all
//! addresses are remembered before, and routes that nobody would set again: those of `ip route` and of the configuration of a host. Daemons return
//! their routes themselves.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::TapSpec;
use crate::link::Watch;
use crate::netlink::{ADDRESS_HEADER, CREATE, RTM_GETADDR, RTM_NEWADDR, Request, attributes, word};
use crate::sys;

/// The least MTU of an interface with IPv6, in bytes.
const LEAST_MTU: usize = 1280;

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const IFA_ADDRESS: u16 = 1;
const IFA_CACHEINFO: u16 = 6;
const IFA_F_TEMPORARY: u8 = 1;
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTPROT_BOOT: u8 = 3;
const RTPROT_STATIC: u8 = 4;
const ROUTE_HEADER: usize = 12;

/// Whether the kernel has IPv6 on an interface with this MTU.
pub(super) fn is_possible(mtu: usize) -> bool {
    mtu >= LEAST_MTU
}

/// What a tap has of IPv6, as the kernel's messages say it.
#[derive(Debug)]
struct Memory {
    /// The interface that had it. Another one may have come in its place.
    index: u32,
    addresses: Vec<Vec<u8>>,
    routes: Vec<Vec<u8>>,
    since: Instant,
}

/// Changes the MTU of a tap.
#[derive(Debug)]
pub(super) struct Resizer {
    watch: Arc<Watch>,
    /// The tap is in another namespace than this process, and so than its opener.
    is_elsewhere: bool,
    /// IPv6 addresses that the tap was made with.
    addresses: Vec<(Ipv6Addr, u8)>,
    socket: OwnedFd,
    /// What the kernel has taken away.
    memory: Mutex<Option<Memory>>,
}

impl Resizer {
    /// Must be made in the tap's namespace.
    pub(super) fn new(watch: Arc<Watch>, spec: &TapSpec, is_elsewhere: bool) -> io::Result<Resizer> {
        const SOL_NETLINK: i32 = 270;
        const NETLINK_GET_STRICT_CHK: i32 = 12;
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        // The kernel then names what is on the interface alone. One before 4.20 names all.
        let _ = sys::set_option(&socket, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &1i32);
        let six = |(address, prefix): &(IpAddr, u8)| match address {
            IpAddr::V6(address) => Some((*address, *prefix)),
            IpAddr::V4(_) => None,
        };
        let addresses = spec.addresses.iter().filter_map(six).collect();
        Ok(Resizer { watch, is_elsewhere, addresses, socket, memory: Mutex::default() })
    }

    /// Sets the MTU, in bytes. One that taps cannot have is left out. The calling thread ends soon.
    pub(super) fn set_mtu(&self, mtu: usize) {
        if self.is_elsewhere {
            // The sockets are there already.
            crate::opener::is_elsewhere();
        }
        let (interfaces, name) = (&self.watch.interfaces, self.watch.name());
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let had_six = interfaces.mtu(name).is_ok_and(is_possible);
        if had_six && !is_possible(mtu) {
            // Somebody else has raised the MTU since: what is noted is to be there, too.
            if let Some(before) = memory.take() {
                self.restore(Some(before));
            }
            *memory = interfaces.index(name).and_then(|index| self.remember(index)).ok();
        }
        if interfaces.set_mtu(name, mtu).is_err() {
            *memory = memory.take().filter(|_| !had_six);
        } else if is_possible(mtu) && (!had_six || memory.is_some()) {
            self.restore(memory.take());
        }
    }

    /// Gives the interface an address of the configuration.
    fn set(&self, index: u32, (address, prefix): (Ipv6Addr, u8)) {
        let mut header = header_of(index);
        header[1] = prefix;
        let mut request = Request::new(RTM_NEWADDR, CREATE, &header);
        request.attribute(IFA_ADDRESS, &address.octets());
        let _ = request.send(&self.socket);
    }

    fn remember(&self, index: u32) -> io::Result<Memory> {
        let (mut addresses, mut routes) = (Vec::new(), Vec::new());
        Request::new(RTM_GETADDR, 0, &header_of(index)).ask_for_all(&self.socket, |body| {
            if is_lasting(body, index) {
                addresses.push(body.to_vec());
            }
        })?;
        let mut header = [0; ROUTE_HEADER];
        header[0] = libc::AF_INET6 as u8;
        let mut request = Request::new(RTM_GETROUTE, 0, &header);
        request.attribute(RTA_OIF, &index.to_ne_bytes());
        request.ask_for_all(&self.socket, |body| {
            if is_set_by_hand(body, index) {
                routes.push(body.to_vec());
            }
        })?;
        Ok(Memory { index, addresses, routes, since: Instant::now() })
    }

    /// What is there again already, or is refused now, is left out.
    fn restore(&self, memory: Option<Memory>) {
        let Ok(index) = self.watch.interfaces.index(self.watch.name()) else { return };
        let Some(Memory { addresses, routes, since, .. }) = memory.filter(|memory| memory.index == index)
        else {
            return self.addresses.iter().for_each(|own| self.set(index, *own));
        };
        let passed_s = u32::try_from(since.elapsed().as_secs()).unwrap_or(u32::MAX);
        for body in addresses.iter().filter_map(|body| aged(body, passed_s)) {
            let _ = Request::new(RTM_NEWADDR, CREATE, &body).send(&self.socket);
        }
        // A gateway must be there before a route by it.
        for _ in 0..2 {
            for body in &routes {
                let _ = Request::new(RTM_NEWROUTE, CREATE, body).send(&self.socket);
            }
        }
    }
}

/// Whether an address of the interface lasts: temporary ones (RFC 8981) are made anew.
fn is_lasting(body: &[u8], index: u32) -> bool {
    let is_temporary = body.get(2).is_none_or(|flags| flags & IFA_F_TEMPORARY != 0);
    body.first() == Some(&(libc::AF_INET6 as u8)) && word(body, 4) == Some(index) && !is_temporary
}

/// The header of messages on IPv6 addresses of an interface.
fn header_of(index: u32) -> [u8; ADDRESS_HEADER] {
    let mut header = [0; ADDRESS_HEADER];
    header[0] = libc::AF_INET6 as u8;
    header[4..].copy_from_slice(&index.to_ne_bytes());
    header
}

/// Whether a route leads out of the interface, and neither the kernel nor a daemon made it.
fn is_set_by_hand(body: &[u8], index: u32) -> bool {
    let leads = |(kind, value): (u16, &[u8])| match kind {
        RTA_OIF => word(value, 0) == Some(index),
        // Its interface follows two bytes of length, flags and a weight.
        RTA_MULTIPATH => word(value, 4) == Some(index),
        _ => false,
    };
    body.first() == Some(&(libc::AF_INET6 as u8))
        && matches!(body.get(5), Some(&(RTPROT_BOOT | RTPROT_STATIC)))
        && attributes(body.get(ROUTE_HEADER..).unwrap_or(&[])).any(leads)
}

/// An address whose lifetimes have gone on for some seconds; `None` when it would not be valid any more.
fn aged(body: &[u8], passed_s: u32) -> Option<Vec<u8>> {
    let mut aged = body.to_vec();
    let all = attributes(body.get(ADDRESS_HEADER..)?);
    if let Some((_, lifetimes)) = all.into_iter().find(|(kind, _)| *kind == IFA_CACHEINFO) {
        let at = lifetimes.as_ptr() as usize - body.as_ptr() as usize;
        let left = |at: usize| match word(body, at)? {
            u32::MAX => Some(u32::MAX),
            seconds => Some(seconds.saturating_sub(passed_s)),
        };
        // The preferred one, then the valid one.
        let (preferred, valid) = (left(at)?, left(at + 4).filter(|valid| *valid > 0)?);
        aged[at..at + 4].copy_from_slice(&preferred.to_ne_bytes());
        aged[at + 4..at + 8].copy_from_slice(&valid.to_ne_bytes());
    }
    Some(aged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address of interface 7 with these lifetimes, as the kernel says it.
    fn address(preferred: u32, valid: u32) -> Vec<u8> {
        let mut body = vec![libc::AF_INET6 as u8, 64, 0x80, 0, 7, 0, 0, 0];
        body.extend(crate::netlink::attribute(1, &[0xfd; 16]));
        let times = [preferred, valid, 1, 2].map(u32::to_ne_bytes).concat();
        body.extend(crate::netlink::attribute(IFA_CACHEINFO, &times));
        body
    }

    #[test]
    fn lifetimes_go_on() {
        const FOREVER: u32 = u32::MAX;
        assert_eq!(aged(&address(FOREVER, FOREVER), 100), Some(address(FOREVER, FOREVER)));
        assert_eq!(aged(&address(60, 200), 100), Some(address(0, 100)));
        assert_eq!(aged(&address(60, 100), 100), None);
        for cut in 0..address(1, 2).len() {
            aged(&address(1, 2)[..cut], 1);
        }
    }

    #[test]
    fn temporary_addresses_and_those_of_others_are_not_kept() {
        let lasting = address(60, 200);
        assert!(is_lasting(&lasting, 7) && !is_lasting(&lasting, 8) && !is_lasting(&[], 7));
        let mut temporary = lasting;
        temporary[2] |= IFA_F_TEMPORARY;
        assert!(!is_lasting(&temporary, 7));
    }

    #[test]
    fn routes_of_daemons_are_not_kept() {
        let route = |protocol: u8, attribute: u16, value: &[u8]| {
            let mut body = vec![libc::AF_INET6 as u8, 64, 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0];
            body.extend(crate::netlink::attribute(attribute, value));
            body
        };
        let out = 7u32.to_ne_bytes();
        assert!(is_set_by_hand(&route(RTPROT_BOOT, RTA_OIF, &out), 7));
        assert!(is_set_by_hand(&route(RTPROT_STATIC, RTA_MULTIPATH, &[8, 0, 0, 0, 7, 0, 0, 0]), 7));
        assert!(!is_set_by_hand(&route(RTPROT_BOOT, RTA_OIF, &out), 8));
        for protocol in [2, 186] {
            assert!(!is_set_by_hand(&route(protocol, RTA_OIF, &out), 7), "{protocol}");
        }
        assert!(!is_set_by_hand(&[], 7));
    }
}
