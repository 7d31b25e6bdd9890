// SPDX-License-Identifier: MIT OR Apache-2.0
//! # LookupIPMulticast
//!
//! `LookupIPMulticast([ENTRY, ... , keywords LOCAL, UNKNOWN, KERNEL, PERIOD, RATE, VRF_ANNO, CAPACITY])`
//!
//! Forwards packets to multicast groups: sends a copy by each output that leads to receivers. Stands behind the routing table's output for
//! 224.0.0.0/4. A router fed by a control plane has the entries of the kernel, which a daemon such as FRR's pimd makes.
//!
//! **Ports:** push. 1 input, any number of outputs.
//!
//! **Arguments:** one entry each, `SOURCE GROUP INPUT OUTPUT[/TTL] ...`, with `table N` at its end for a VRF:
//! * `SOURCE` an address, or `*` for any source. `GROUP` the group's address.
//! * `INPUT` the paint of packets that have come by the right interface. Others drop (reverse path check).
//! * `OUTPUT` an output for copies. Only packets whose time to live is greater than `TTL`, default 1, leave there. None leaves by the
//!   output with the number of its paint.
//!
//! An entry for the packet's source goes before one for any source. The latter is for packets that come by INPUT or by one of its outputs;
//! those that come by an output are from the wrong interface.
//!
//! **Keywords**
//! * `LOCAL OUTPUT` for messages to the router itself: IGMP, of any group, and packets to 224.0.0.0/24. Default: they drop.
//! * `UNKNOWN OUTPUT` for packets without an entry, and one packet each second of an entry's from a wrong interface. They should lead to a Punt and the
//!   kernel, which reports them to its daemon. Default: they drop.
//! * `KERNEL OUTPUT` for packets that the kernel forwards in place of this element. They need no Punt. These are: packets with options; packets
//!   of an entry that leads out of an interface which only the kernel has, such as that of PIM's register messages; and one packet in a while of each
//!   entry of a control plane. By the last, the kernel's counters show the daemon that the source is alive. Outputs that the kernel's
//!   entry lacks because its daemon has died get copies from this element. Default: options drop, and the kernel gets none.
//! * `PERIOD` time between two packets of an entry for the kernel, default 10s. `RATE` packets with options for the kernel a second, and as many
//!   of entries that only the kernel can follow, default 1000; 0 is no limit. Over it, packets with options drop, and this element forwards the
//!   others as it can.
//! * `VRF_ANNO` annotation of one byte that holds the number of the packet's table; default: table 0.
//! * `CAPACITY` entries at most, default 16384.
//!
//! The time to live is taken down by one before copies are made. Copies share their bytes until one is changed.
//!
//! **Metadata read:** network header position, paint, VRF_ANNO.
//!
//! **Drops:** `no-multicast-route`, without an entry; `wrong-interface`; `ttl-threshold`, no output takes the packet for its time to live; `no-receivers`, the
//! entry has no output; `bad-option`; `punt-rate-limited`; `bad-destination`, without LOCAL; `too-short`; `no-memory`, copies.
//!
//! **Handlers**
//! * `table` read: entries, in the form of the arguments; `fed` marks those of a control plane, `kernel` those with outputs that only the kernel has.
//!   Behind `kept` are outputs that the kernel's entry lacks because its daemon has died.
//! * `nentries` read: how many. `lookup` read with a source and a group: the entry that decides.
//! * `set` write: adds or replaces an entry. `remove` write: removes the entry of a source and a group. A control plane's entry covers one
//!   that was set, which returns when that one goes.
//!
//! Changes stay when another configuration is taken over in which this element's text is the same.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> CheckIPHeader -> Paint(1)
//!   -> m :: LookupIPMulticast(10.0.1.2 239.1.1.1 1 2 3, * 239.2.0.1 3 1/8 2);
//! m[0] -> Discard; m[1] -> Discard; m[2] -> Discard; m[3] -> Discard;
//! ```
//!
//! See also: LookupIP6Multicast, RouteFeed, StaticIPLookup, Punt, Tee. RFC 1112, RFC 7761 (4.2), RFC 5771

use element::{Class, Reason, Sharing};
use packet::Packet;
use wire::checksum::decrement_ttl;

use super::lookup::{Family, Header, Lookup};
use crate::ip::{header, header_mut};

/// The descriptor.
pub const CLASS: Class = Lookup::<V4>::with_capabilities(
    Class::new("LookupIPMulticast", "1/-", || Box::new(Lookup::<V4>::default()))
        .processing("h/h")
        .sharing(Sharing::Shared)
        .handlers(Lookup::<V4>::HANDLERS)
        .file(file!()),
);

/// The number of IGMP.
const IGMP: u8 = 2;

pub(super) struct V4;

impl Family for V4 {
    const IS_SIX: bool = false;

    #[inline]
    fn read(packet: &Packet) -> Header {
        let Some(header) = header(packet) else { return Header::Bad(Reason::TooShort) };
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if header[9] == IGMP || header[16..19] == [224, 0, 0] {
            return Header::Local;
        }
        if header[0] & 15 != 5 {
            return Header::Options;
        }
        Header::Data { source: word(12).into(), group: word(16).into(), ttl: header[8] }
    }

    #[inline]
    fn age(packet: &mut Packet) {
        header_mut(packet).into_iter().for_each(decrement_ttl);
    }
}

#[cfg(test)]
mod tests {
    use element::Reason;
    use packet::{Packet, anno};
    use tables::multicast::MulticastKey;

    use crate::ip::samples::{datagram, sealed};
    use crate::multicast::{Branch, MulticastForwarding, MulticastRoute};
    use crate::testing::{Rig, Run};

    const ENTRIES: &str = "10.0.1.2 239.1.1.1 1 1 2 3/16, * 239.1.1.1 2 1 2, 10.0.1.2 239.1.1.2 1";

    fn painted(paint: u8, ttl: u8, source: [u8; 4], group: [u8; 4]) -> Packet {
        let mut packet = datagram(ttl, source, group, &[], 100);
        packet.set_anno_u8(anno::PAINT, paint);
        packet
    }

    fn run(more: &str, packets: Vec<Packet>, burst: usize) -> Run {
        let text = format!("LookupIPMulticast({ENTRIES}{more})");
        Rig::new(&text).outputs(5).burst(burst).packets(packets).run()
    }

    const S: [u8; 4] = [10, 0, 1, 2];
    const G: [u8; 4] = [239, 1, 1, 1];

    #[test]
    fn copies_leave_by_the_outputs_whose_threshold_they_pass() {
        for burst in [1, 32] {
            let packets = vec![painted(1, 64, S, G), painted(1, 16, S, G), painted(1, 2, S, G)];
            let run = run("", packets, burst);
            let ttls = |name: &str| run.bytes(name).iter().map(|p| (p[8], sealed(p))).collect::<Vec<_>>();
            assert_eq!(ttls("o1"), [], "never where they came from");
            assert_eq!(ttls("o2"), [(63, true), (15, true), (1, true)]);
            assert_eq!(ttls("o3"), [(63, true)]);
            assert!(run.drops("e").is_empty());
        }
    }

    #[test]
    fn what_cannot_leave_has_a_name() {
        let packets = vec![
            painted(1, 1, S, G),
            painted(1, 64, S, [239, 1, 1, 2]),
            painted(3, 64, S, G),
            painted(1, 64, S, [239, 9, 9, 9]),
            painted(1, 64, S, [224, 0, 0, 5]),
            Packet::copy_of(b"no header").unwrap(),
        ];
        let run = run("", packets, 32);
        let all = [
            (Reason::TooShort, 1),
            (Reason::BadDestination, 1),
            (Reason::NoMulticastRoute, 1),
            (Reason::WrongInterface, 1),
            (Reason::TtlThreshold, 1),
            (Reason::NoReceivers, 1),
        ];
        assert_eq!(run.drops("e"), all);
    }

    #[test]
    fn any_source_is_for_packets_of_the_tree_alone() {
        let other = [10, 0, 9, 9];
        let packets = vec![
            painted(2, 64, other, G),
            // By one of its outputs: the kernel asserts there.
            painted(1, 64, other, G),
            // A source on a network of our own is unknown.
            painted(3, 64, other, G),
            painted(3, 64, other, G),
        ];
        let run = run(", UNKNOWN 0", packets, 32);
        assert_eq!((run.out("o1").len(), run.out("o2").len(), run.out("o0").len()), (1, 0, 3));
    }

    #[test]
    fn messages_options_and_wrong_interfaces_go_their_ways() {
        let mut report = painted(1, 1, S, G);
        report.data_mut()[9] = 2;
        let mut router_alert = datagram(64, S, G, &[148, 4, 0, 0], 10);
        router_alert.set_anno_u8(anno::PAINT, 1);
        let packets = vec![report, router_alert, painted(3, 64, S, G), painted(3, 64, S, G)];
        let run = run(", LOCAL 0, UNKNOWN 3, KERNEL 4", packets, 32);
        let counts = ["o0", "o1", "o2", "o3", "o4"].map(|name| run.out(name).len());
        assert_eq!(counts, [1, 0, 0, 1, 1], "one packet from a wrong interface in a second");
        assert_eq!(run.drops("e"), [(Reason::WrongInterface, 1)]);
    }

    /// The rig's element has an entry of a control plane, and a daemon watches the kernel. Kept outputs are marked by a minus.
    fn fed(more: &str, branches: &[i64], needs_kernel: bool) -> Run {
        let rig = Rig::new(&format!("LookupIPMulticast(KERNEL 4{more})")).outputs(5);
        let run = rig.packets(vec![painted(1, 64, S, G), painted(1, 64, S, G)]).ready();
        let branch = |n: &i64| Branch { output: n.unsigned_abs() as u32, ttl: 1, is_kept: n.is_negative() };
        let way =
            MulticastRoute { input: Some(1), branches: branches.iter().map(branch).collect(), needs_kernel };
        let key = MulticastKey { table: 0, group: 0xef01_0101, source: 0x0a00_0102 };
        let forwarding: std::sync::Arc<MulticastForwarding> = run.provided("e").unwrap();
        assert_eq!(forwarding.with(|trees| trees.fed_commit(&[(key, Some(way))])), Ok(0));
        forwarding.set_watched(true);
        run
    }

    /// The TTLs of packets that have left by outputs 2 and 3 and to the kernel.
    fn left(run: &Run) -> [Vec<u8>; 3] {
        ["o2", "o3", "o4"].map(|name| run.bytes(name).iter().map(|p| p[8]).collect())
    }

    #[test]
    fn outputs_that_the_kernels_entry_lacks_get_what_the_kernel_gets() {
        // A source is being registered, and one packet a second may go to the kernel for that.
        let mut run = fed(", RATE 1", &[2, -3], true);
        assert_eq!(run.read("e.table"), "10.0.1.2 239.1.1.1 1 2 kernel kept 3 fed\n");
        run = run.again();
        assert_eq!(left(&run), [vec![63], vec![63, 63], vec![64]]);
        // A packet in its turn.
        let second = std::time::Duration::from_secs(1);
        for (branches, expected) in [
            (&[2, -3][..], [vec![], vec![63], vec![64]]),
            (&[-2, -3], [vec![63], vec![63], vec![64]]),
            (&[2, 3], [vec![], vec![], vec![64]]),
            (&[], [vec![], vec![], vec![64]]),
        ] {
            let run = fed(", PERIOD 500ms", branches, false).again();
            left(&run);
            let run = run.run_for(second);
            run.give("i", vec![painted(1, 64, S, G)]);
            assert_eq!(left(&run.again()), expected, "{branches:?}");
        }
    }

    #[test]
    fn entries_are_changed_and_shown() {
        let mut run = run("", Vec::new(), 32);
        assert_eq!(run.read("e.nentries"), "3");
        run.write("e.set", "10.0.1.3 239.1.1.1 2 1 3/20").unwrap();
        assert_eq!(run.read_with("e.lookup", "10.0.1.3 239.1.1.1"), "10.0.1.3 239.1.1.1 2 1 3/20");
        assert_eq!(run.read_with("e.lookup", "10.0.1.4 239.1.1.1"), "* 239.1.1.1 2 1 2");
        run.write("e.remove", "* 239.1.1.1").unwrap();
        assert_eq!(
            run.read("e.table"),
            "10.0.1.2 239.1.1.1 1 1 2 3/16\n10.0.1.3 239.1.1.1 2 1 3/20\n10.0.1.2 239.1.1.2 1\n"
        );
        for (bad, why) in [
            ("10.0.1.2 10.0.0.1 1 1", "'10.0.0.1' is no group of IPv4"),
            ("239.1.1.1 239.1.1.1 1 1", "is no source of IPv4"),
            ("* 239.1.1.1", "lacks INPUT"),
            ("* 239.1.1.1 1 7", "there is no output 7 (outputs 0 to 4 are connected)"),
            ("* 239.1.1.1 1 1/x", "'x' is no TTL"),
            ("* 239.1.1.1 1 1 table 4", "table 4 needs VRF_ANNO"),
        ] {
            let refused = run.write("e.set", bad).expect_err(bad).to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn errors_name_the_argument() {
        let errors = Rig::new("LookupIPMulticast(KERNEL 4, 10.0.1.2 9.9.9.9 1, CAPACITY 0)").errors();
        assert_eq!(errors.len(), 3, "{errors:?}");
    }

    #[test]
    fn each_table_has_its_own_entries() {
        let mut packets = Vec::new();
        for vrf in 0..3 {
            let mut packet = painted(1, 64, S, G);
            packet.set_anno_u8(anno::VRF, vrf);
            packets.push(packet);
        }
        let text = "LookupIPMulticast(10.0.1.2 239.1.1.1 1 0, * 239.1.1.1 1 2 table 2, VRF_ANNO VRF)";
        let run = Rig::new(text).outputs(3).packets(packets).run();
        assert_eq!(["o0", "o1", "o2"].map(|name| run.out(name).len()), [1, 0, 1]);
        assert_eq!(run.drops("e"), [(Reason::NoMulticastRoute, 1)]);
    }
}
