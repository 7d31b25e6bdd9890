// SPDX-License-Identifier: MIT OR Apache-2.0
//! Address resolution (RFC 826) for IPv4 over Ethernet, the one combination in use.

use std::fmt;
use std::net::Ipv4Addr;

use crate::{Error, EtherType, MacAddr, ethernet};

/// Byte offsets of the fields.
pub mod field {
    /// Hardware type.
    pub const HARDWARE: usize = 0;
    /// Protocol type.
    pub const PROTOCOL: usize = 2;
    /// Length of a hardware address.
    pub const HARDWARE_LEN: usize = 4;
    /// Length of a protocol address.
    pub const PROTOCOL_LEN: usize = 5;
    /// Operation.
    pub const OPERATION: usize = 6;
    /// Sender's Ethernet address.
    pub const SENDER_MAC: usize = 8;
    /// Sender's IPv4 address.
    pub const SENDER_IP: usize = 14;
    /// Target's Ethernet address.
    pub const TARGET_MAC: usize = 18;
    /// Target's IPv4 address.
    pub const TARGET_IP: usize = 24;
}

/// Hardware type of Ethernet.
pub const HARDWARE_ETHERNET: u16 = 1;

/// What an ARP packet asks or says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation(pub u16);

impl Operation {
    /// Who has this address?
    pub const REQUEST: Operation = Operation(1);
    /// This station has it.
    pub const REPLY: Operation = Operation(2);
    /// Reverse request.
    pub const REVERSE_REQUEST: Operation = Operation(3);
    /// Reverse reply.
    pub const REVERSE_REPLY: Operation = Operation(4);
}

field_as_bytes! {
    Operation, 2, |b| Operation(u16::from_be_bytes(b)), |v| v.0.to_be_bytes();
}

header! {
    "ARP", 28;
    fields {
        /// Hardware type; 1 is Ethernet.
        hardware / set_hardware: u16 = field::HARDWARE;
        /// Protocol type; IPv4.
        protocol / set_protocol: EtherType = field::PROTOCOL;
        /// Length of a hardware address; 6.
        hardware_len / set_hardware_len: u8 = field::HARDWARE_LEN;
        /// Length of a protocol address; 4.
        protocol_len / set_protocol_len: u8 = field::PROTOCOL_LEN;
        /// Operation.
        operation / set_operation: Operation = field::OPERATION;
        /// Sender's Ethernet address.
        sender_mac / set_sender_mac: MacAddr = field::SENDER_MAC;
        /// Sender's IPv4 address.
        sender_ip / set_sender_ip: Ipv4Addr = field::SENDER_IP;
        /// Target's Ethernet address; meaningless in requests.
        target_mac / set_target_mac: MacAddr = field::TARGET_MAC;
        /// Target's IPv4 address.
        target_ip / set_target_ip: Ipv4Addr = field::TARGET_IP;
    }
    derived {
        /// Whether the addresses are IPv4 over Ethernet, so that the other fields mean what they say.
        is_ethernet_ipv4: bool = |b| b[..6] == [0, 1, 8, 0, 6, 4];
    }
}

impl<T: AsRef<[u8]>> View<T> {
    /// Checks length and address formats.
    ///
    /// # Errors
    /// [`Error::Truncated`] below 28 bytes; [`Error::Field`] where this is not IPv4 over Ethernet.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        Error::check_len(PROTOCOL, HEADER_LEN, buffer.as_ref().len())?;
        let view = View { buffer };
        let check =
            |ok, field, value: u32, expected| Error::check_field(ok, PROTOCOL, field, value, expected);
        check(view.hardware() == HARDWARE_ETHERNET, "hardware type", view.hardware().into(), "1 (Ethernet)")?;
        check(view.protocol() == EtherType::IPV4, "protocol type", view.protocol().0.into(), "2048 (IPv4)")?;
        check(view.hardware_len() == 6, "hardware address length", view.hardware_len().into(), "6")?;
        check(view.protocol_len() == 4, "protocol address length", view.protocol_len().into(), "4")?;
        Ok(view)
    }
}

/// The meaning of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Operation.
    pub operation: Operation,
    /// Sender's Ethernet address.
    pub sender_mac: MacAddr,
    /// Sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// Target's Ethernet address.
    pub target_mac: MacAddr,
    /// Target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// "Who has `target`? Tell `ip` at `mac`."
    pub fn request(mac: MacAddr, ip: Ipv4Addr, target: Ipv4Addr) -> Self {
        Repr {
            operation: Operation::REQUEST,
            sender_mac: mac,
            sender_ip: ip,
            target_mac: MacAddr::ZERO,
            target_ip: target,
        }
    }

    /// The answer to `self`: the address asked for is at `mac`.
    pub fn reply(&self, mac: MacAddr) -> Self {
        Repr {
            operation: Operation::REPLY,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Reads a view; never fails.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Repr {
            operation: view.operation(),
            sender_mac: view.sender_mac(),
            sender_ip: view.sender_ip(),
            target_mac: view.target_mac(),
            target_ip: view.target_ip(),
        }
    }

    /// Writes the packet to the front of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it does not fit; nothing is written then.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let mut header = HeaderMut::from_slice(buffer)?;
        header
            .set_hardware(HARDWARE_ETHERNET)
            .set_protocol(EtherType::IPV4)
            .set_hardware_len(6)
            .set_protocol_len(4);
        header.set_operation(self.operation);
        header.set_sender_mac(self.sender_mac).set_sender_ip(self.sender_ip);
        header.set_target_mac(self.target_mac).set_target_ip(self.target_ip);
        Ok(())
    }

    /// The whole frame: a request goes to all stations, anything else to the target. 42 bytes, without padding.
    pub fn to_frame(&self) -> [u8; ethernet::HEADER_LEN + HEADER_LEN] {
        let mut frame = [0; ethernet::HEADER_LEN + HEADER_LEN];
        let dst = if self.operation == Operation::REQUEST { MacAddr::BROADCAST } else { self.target_mac };
        let ethernet = ethernet::Repr { dst, src: self.sender_mac, ethertype: EtherType::ARP };
        let (link, arp) = frame.split_at_mut(ethernet::HEADER_LEN);
        link.copy_from_slice(&ethernet.to_bytes());
        let emitted = self.emit(arp);
        debug_assert!(emitted.is_ok(), "the array has room for both");
        frame
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Operation::REQUEST => write!(f, "arp who-has {} tell {}", self.target_ip, self.sender_ip),
            Operation::REPLY => write!(f, "arp reply {} is-at {}", self.sender_ip, self.sender_mac),
            Operation::REVERSE_REQUEST => {
                write!(f, "arp reverse who-is {} tell {}", self.target_mac, self.sender_mac)
            }
            Operation::REVERSE_REPLY => {
                write!(f, "arp reverse reply {} at {}", self.target_mac, self.target_ip)
            }
            Operation(other) => write!(f, "arp operation {other}"),
        }
    }
}

impl<T: AsRef<[u8]>> fmt::Display for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> Repr {
        Repr::request(MacAddr::new(2, 0, 0, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
    }

    #[test]
    fn question_and_answer() {
        assert_eq!(request().to_string(), "arp who-has 10.0.0.2 tell 10.0.0.1");
        let reply = request().reply(MacAddr::new(2, 0, 0, 0, 0, 2));
        assert_eq!(reply.to_string(), "arp reply 10.0.0.2 is-at 02:00:00:00:00:02");
        assert_eq!(request().to_frame()[..14], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6]);
        assert_eq!(reply.to_frame()[..6], [2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn other_formats_are_refused() {
        let good = request().to_frame();
        let good = &good[14..];
        assert!(View::new_checked(good).unwrap().is_ethernet_ipv4());
        for (at, field) in [
            (1, "hardware type"),
            (3, "protocol type"),
            (4, "hardware address length"),
            (5, "protocol address length"),
        ] {
            let mut bad = good.to_vec();
            bad[at] ^= 0x40;
            match View::new_checked(bad) {
                Err(Error::Field { field: found, .. }) => assert_eq!(found, field),
                other => panic!("{other:?}"),
            }
        }
        assert!(View::new_checked(&good[..27]).is_err());
    }

    proptest! {
        #[test]
        fn parses_what_it_emits(op: u16, macs: [[u8; 6]; 2], ips: [u32; 2]) {
            let repr = Repr {
                operation: Operation(op),
                sender_mac: MacAddr(macs[0]),
                sender_ip: ips[0].into(),
                target_mac: MacAddr(macs[1]),
                target_ip: ips[1].into(),
            };
            let frame = repr.to_frame();
            prop_assert_eq!(Repr::parse(&View::new_checked(&frame[14..]).unwrap()), repr);
        }
    }
}
