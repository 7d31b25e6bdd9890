// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routers with a tunnel between them, for tests.

use packet::Packet;

use crate::ip::samples::datagram;

/// The keys of Click's example.
pub(super) const KEYS: &str = "ABCDEFFF001DEFD2354550FE40CD708E 112233EE556677888877665544332211";

/// How packets are protected: what sends, and what receives.
pub(super) const CLICK: [&str; 2] = [
    "IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1)",
    "IPsecAES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap",
];
/// The same with single DES.
pub(super) const DES: [&str; 2] = [
    "IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecDES(1)",
    "IPsecDES(0) -> IPsecAuthHMACSHA1(1) -> IPsecESPUnencap",
];
/// As RFC 3602 has it.
pub(super) const CBC: [&str; 2] = [
    "IPsecESPEncap(IV 16) -> IPsecAES(1, IV 16) -> IPsecAuthHMACSHA1(0)",
    "IPsecAuthHMACSHA1(1) -> IPsecAES(0, IV 16) -> IPsecESPUnencap(IV 16)",
];

/// A route to the other side of a tunnel that begins with number 300.
pub(super) fn tunnel(window: u8) -> String {
    format!("10.0.0.0/8 1.0.0.2 1 234 {KEYS} 300 {window}")
}

/// What arrives at `i` enters a tunnel and leaves by `wire`.
pub(super) fn sender(elements: &str) -> String {
    format!(
        "i :: TestIn -> a :: RadixIPsecLookup({}, 0/0 0); a[0] -> plain :: TestOut;
         a[1] -> {elements} -> IPsecEncap(50) -> wire :: TestOut;",
        tunnel(64)
    )
}

/// What arrives at `i` as it was on the wire leaves by `o`.
pub(super) fn receiver(elements: &str, window: u8) -> String {
    format!(
        "i :: TestIn -> CheckIPHeader -> b :: RadixIPsecLookup(1.0.0.2/32 0, {}, 0/0 3);
         b[0] -> StripIPHeader -> {elements} -> CheckIPHeader -> o :: TestOut;
         b[1] -> out :: TestOut; b[2] -> host :: TestOut; b[3] -> other :: TestOut;",
        tunnel(window)
    )
}

/// A packet that is to enter the tunnel, with so many bytes of payload.
pub(super) fn clear(payload: usize) -> Packet {
    let mut packet = datagram(9, [9, 0, 0, 1], [10, 0, 0, 1], &[], payload);
    packet.set_dst_ip([10, 0, 0, 1]);
    packet
}

/// A packet as it comes off the wire.
pub(super) fn arrived(bytes: &[u8]) -> Packet {
    Packet::copy_of(bytes).expect("packet memory")
}
