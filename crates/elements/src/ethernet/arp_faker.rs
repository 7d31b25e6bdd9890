// SPDX-License-Identifier: MIT OR Apache-2.0
//! # ARPFaker
//!
//! `ARPFaker(DSTIP, DSTETH, SRCIP, SRCETH)`
//!
//! Announces to a host, one second after the start and then every 10 seconds, at which Ethernet address another one is. It sends ARP replies that
//! nobody asked for. To answer questions, use ARPResponder.
//!
//! **Ports:** 1 push output.
//!
//! **Arguments**
//! * `DSTIP`, `DSTETH` IPv4 and Ethernet address of the host that gets the replies.
//! * `SRCIP`, `SRCETH` IPv4 address, and the Ethernet address to which it shall belong.
//!
//! **Metadata set:** link header position.
//!
//! **Drops:** `no-memory`.
//!
//! ```click
//! ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> c :: Counter(COUNT_CALL 3 stop) -> Discard;
//! ```
//!
//! See also: ARPResponder, ARPQuerier; RFC 826

use element::args::Args;
use element::clock::SECOND;
use element::{Class, Cx, Element, InitCx, OpenCx, Reason, Tasks};
use packet::Packet;
use wire::MacAddr;
use wire::arp::{Operation, Repr};

use crate::ip::Address;

/// The descriptor.
pub const CLASS: Class =
    Class::new("ARPFaker", "0/1", || Box::new(ArpFaker::default())).processing("h/h").file(file!());

#[derive(Default)]
struct ArpFaker {
    frame: Vec<u8>,
}

impl Element for ArpFaker {
    fn configure(&mut self, args: &mut Args<'_>) {
        let target_ip = args.required::<Address>("DSTIP").0;
        let target_mac: MacAddr = args.required("DSTETH");
        let sender_ip = args.required::<Address>("SRCIP").0;
        let sender_mac: MacAddr = args.required("SRCETH");
        let reply = Repr { operation: Operation::REPLY, sender_mac, sender_ip, target_mac, target_ip };
        self.frame = reply.to_frame().to_vec();
    }

    fn open(&mut self, _: &mut OpenCx<'_>) -> Result<Tasks, String> {
        Ok(Tasks::One)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if cx.is_home() {
            cx.set_timer_after(0, SECOND);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        cx.made(1);
        match Packet::copy_of(&self.frame) {
            Some(mut packet) => {
                packet.set_mac_offset(0);
                cx.push_one(0, packet);
            }
            None => cx.count_drops(Reason::NoMemory, 1),
        }
        cx.set_timer_after(0, 10 * SECOND);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Rig;

    #[test]
    fn tells_again_and_again() {
        let text = "e :: ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2)
            -> SetTimestamp -> c :: Counter(COUNT_CALL 3 stop) -> o :: TestOut;";
        let run = Rig::text(text).run();
        let out = run.out("o");
        let want = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\x06\0\x01\x08\0\x06\x04\0\x02\
            \x02\0\0\0\0\x02\x0a\0\0\x02\x02\0\0\0\0\x01\x0a\0\0\x01";
        assert!(out.iter().all(|p| p.data() == want), "{:?}", out[0].data());
        let seconds = |ns: u64| (ns - engine::clock::SIMULATION_EPOCH) / element::clock::SECOND;
        assert_eq!(out.iter().map(|p| seconds(p.timestamp_ns())).collect::<Vec<_>>(), [1, 11, 21]);
        assert_eq!(Rig::text("ARPFaker(x, y) -> Discard;").errors().len(), 4);
    }
}
