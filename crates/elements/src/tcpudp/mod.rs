// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of UDP and TCP over IPv4.

mod check_header;
mod set_checksum;
mod tcp_fragmenter;
mod udp_ip_encap;

pub(crate) use set_checksum::set_transport;

/// The classes of this kind.
pub static CLASSES: &[element::Class] = &[
    check_header::TCP,
    check_header::UDP,
    set_checksum::TCP,
    set_checksum::UDP,
    tcp_fragmenter::CLASS,
    udp_ip_encap::CLASS,
];

#[cfg(test)]
mod samples {
    use packet::Packet;
    use wire::{Protocol, checksum};

    use crate::ip::samples::{datagram, seal};

    const SRC: [u8; 4] = [1, 2, 3, 4];
    const DST: [u8; 4] = [5, 6, 7, 8];

    fn carrying(protocol: Protocol, payload: &[u8]) -> Packet {
        let mut p = datagram(64, SRC, DST, &[], payload.len());
        let bytes = p.data_mut();
        bytes[9] = protocol.0;
        bytes[20..].copy_from_slice(payload);
        seal(bytes);
        p
    }

    /// A UDP packet from port 1234 to 53.
    pub(super) fn udp(payload: &[u8]) -> Packet {
        let mut bytes = vec![4, 210, 0, 53, 0, 8 + payload.len() as u8, 0, 0];
        bytes.extend_from_slice(payload);
        let sum = checksum::transport_v4(SRC.into(), DST.into(), Protocol::UDP, &bytes);
        bytes[6..8].copy_from_slice(&checksum::never_zero(sum).to_be_bytes());
        carrying(Protocol::UDP, &bytes)
    }

    /// A TCP segment from port 1234 to 80, sequence number 1, acknowledging 2.
    pub(super) fn tcp(payload: &[u8]) -> Packet {
        let mut bytes = vec![4, 210, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(payload);
        let sum = checksum::transport_v4(SRC.into(), DST.into(), Protocol::TCP, &bytes);
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        carrying(Protocol::TCP, &bytes)
    }
}
