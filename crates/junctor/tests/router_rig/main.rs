// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built router between two hosts in network namespaces, on real packets.
//!
//! ```text
//! host A 10.0.1.2 --- 10.0.1.1 junctor run 10.0.2.1 --- 10.0.2.2 host B
//! ```
//! The hosts are the kernel's own stack, scapy, iperf3, ping and traceroute, so none of the judges is ours. Every test
//! runs with AF_XDP and with AF_PACKET. Without root or a tool it says what is missing and is skipped.

mod bridge;
mod bytes;
mod dut;
mod faults;
mod hosts;
mod judge;
mod moves;
mod nat;
mod neighbours;
mod pmtu;
mod policy;
mod ready6;
mod router;
mod router6;
mod shares;
mod shipped;
mod strangers;
mod swap;
mod twins;
mod vrrp;
mod wire;

/// Tests on a rig, one for each driver; skipped with a message where there can be none.
#[macro_export]
macro_rules! on_rig {
    ($($name:ident needs $tools:expr => $check:expr;)*) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            #[test]
            fn af_packet() {
                if !testbed::rig::skip_without(stringify!($name), &$tools) {
                    $check("AF_PACKET");
                }
            }

            #[test]
            fn af_xdp() {
                if !testbed::rig::skip_without(stringify!($name), &$tools) {
                    $check("AF_XDP");
                }
            }
        }
    )*};
}
