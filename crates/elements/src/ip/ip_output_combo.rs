// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPOutputCombo
//!
//! `IPOutputCombo(COLOR, IPADDR, MTU)`
//!
//! The output path of an IP router in one element: it does the work of `DropBroadcasts -> PaintTee(COLOR) ->
//! IPGWOptions(IPADDR) -> FixIPSrc(IPADDR) -> DecIPTTL -> CheckLength(MTU)`.
//!
//! **Ports:** 1 push input, 5 push outputs. Output 0 gets what goes on; 1 copies of packets of COLOR, for redirects; 2
//! packets with bad options; 3 those whose time to live ran out; 4 those longer than MTU, for an IPFragmenter.
//!
//! **Arguments**
//! * `COLOR` 0 to 255.
//! * `IPADDR` the router's address on this interface.
//! * `MTU` bytes, longest packet for output 0.
//!
//! **Metadata read:** packet type, paint, network header position, and the mark that FixIPSrc acts upon, which is taken
//! away. **Set:** offset of a bad option, for ICMPError.
//!
//! **Drops:** `broadcast`, link-level broadcasts and multicasts; `too-short`, packets without a whole IP header;
//! `no-memory`, copies for output 1.
//!
//! ```click
//! FromIPSummaryDump(/dev/null, STOP true) -> o :: IPOutputCombo(1, 10.0.0.1, 1500) -> Discard;
//! o[1] -> d :: Discard; o[2] -> d; o[3] -> d; o[4] -> d;
//! ```
//!
//! See also: DropBroadcasts, PaintTee, IPGWOptions, FixIPSrc, DecIPTTL, CheckLength, IPFragmenter, IPInputCombo

use element::args::Args;
use element::{Class, Cx, Element, Reason};
use packet::{Batch, Packet, PacketType, anno};

use super::dec_ip_ttl::{Verdict, verdict};
use super::fix_ip_src::fix;
use super::{Address, header, ip_gw_options};

/// The descriptor.
pub const CLASS: Class = Class::new("IPOutputCombo", "1/5", || Box::new(IpOutputCombo::default()))
    .processing("h/h")
    .pure()
    .file(file!());

const NORMAL: usize = 0;
const REDIRECTS: usize = 1;
const BAD_OPTIONS: usize = 2;
const EXPIRED: usize = 3;
const TOO_LONG: usize = 4;

#[derive(Default)]
struct IpOutputCombo {
    color: u8,
    address: Address,
    mtu: usize,
    /// Packets for the outputs other than the first, kept for their memory.
    others: [Batch; 5],
}

impl IpOutputCombo {
    /// Does all the work on a packet and says by which output it leaves, if any.
    #[inline]
    fn work_on(&self, packet: &mut Packet, midnight_ms: u32) -> Result<usize, Reason> {
        if matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast) {
            return Err(Reason::Broadcast);
        }
        if header(packet).is_some_and(|h| h[0] & 15 > 5) {
            let me = self.address.0.octets();
            if let Err(at) = ip_gw_options::options(packet, me, &[me], midnight_ms) {
                packet.set_anno_u8(anno::ICMP_PARAM_PROBLEM, at as u8);
                return Ok(BAD_OPTIONS);
            }
        }
        fix(packet, self.address.0);
        match verdict(packet, true) {
            Verdict::NoHeader => Err(Reason::TooShort),
            Verdict::Expires => Ok(EXPIRED),
            Verdict::Lives if packet.len() > self.mtu => Ok(TOO_LONG),
            Verdict::Lives => Ok(NORMAL),
        }
    }
}

impl Element for IpOutputCombo {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.color = args.required("COLOR");
        self.address = args.required("IPADDR");
        self.mtu = args.required("MTU");
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, mut batch: Batch) {
        let midnight_ms = (cx.wall() / 1_000_000 % 86_400_000) as u32;
        let mut others = std::mem::take(&mut self.others);
        let mut normal = Batch::new();
        for mut packet in batch.drain(..) {
            let unicast = !matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast);
            if unicast && packet.paint() == self.color {
                cx.made(1);
                match packet.share() {
                    Some(copy) => others[REDIRECTS].push(copy),
                    None => cx.count_drops(Reason::NoMemory, 1),
                }
            }
            match self.work_on(&mut packet, midnight_ms) {
                Ok(NORMAL) => normal.push(packet),
                Ok(output) => others[output].push(packet),
                Err(reason) => cx.drop(reason, packet),
            }
        }
        for (output, waiting) in others.iter_mut().enumerate().filter(|(_, waiting)| !waiting.is_empty()) {
            cx.push(output, std::mem::take(waiting));
        }
        self.others = others;
        cx.push(NORMAL, normal);
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::datagram;
    use super::*;
    use crate::testing::Rig;

    /// Packets of every kind of end, painted in turn.
    fn packets() -> Vec<Packet> {
        let bad: &[u8] = &[7, 7, 3, 0, 0, 0, 0, 0];
        let good: &[u8] = &[7, 7, 4, 0, 0, 0, 0, 0];
        let mut all = Vec::new();
        for (i, (ttl, options, len)) in [
            (64, &[][..], 8),
            (1, &[], 8),
            (64, bad, 8),
            (64, good, 8),
            (0, good, 8),
            (9, &[], 981),
            (9, &[], 980),
        ]
        .into_iter()
        .enumerate()
        {
            for paint in [0, 3] {
                let mut p = datagram(ttl, [1, 2, 3, 4], [5, 6, 7, 8], options, len);
                p.set_paint(paint);
                p.set_anno_u8(anno::FIX_IP_SRC, (i % 2) as u8);
                all.push(p);
            }
        }
        let mut broadcast = datagram(64, [1, 2, 3, 4], [5, 6, 7, 8], &[], 8);
        broadcast.set_packet_type(PacketType::Broadcast);
        broadcast.set_paint(3);
        all.push(broadcast);
        all.push(Packet::copy_of(b"no header").unwrap());
        all
    }

    /// The element and its parts do the same with the same packets.
    #[test]
    fn does_what_its_parts_do() {
        let sinks = "o0 :: TestOut; o1 :: TestOut; o2 :: TestOut; o3 :: TestOut; o4 :: TestOut;";
        let combo = format!(
            "{sinks} i :: TestIn -> e :: IPOutputCombo(3, 9.9.9.9, 1000) -> o0; e[1] -> o1; e[2] -> o2; e[3] -> o3;
            e[4] -> o4;"
        );
        let parts = format!(
            "{sinks} i :: TestIn -> DropBroadcasts -> p :: PaintTee(3) -> g :: IPGWOptions(9.9.9.9) -> FixIPSrc(9.9.9.9)
            -> d :: DecIPTTL -> l :: CheckLength(1000) -> o0; p[1] -> o1; g[1] -> o2; d[1] -> o3; l[1] -> o4;"
        );
        for burst in [1, 32] {
            let run = |text: &str| Rig::text(text).burst(burst).packets(packets()).run();
            let (combo, parts) = (run(&combo), run(&parts));
            let seen = |run: &crate::testing::Run, output: usize| -> Vec<_> {
                let what = |p: &Packet| (p.data().to_vec(), p.anno::<48>(0));
                run.out(&format!("o{output}")).iter().map(what).collect()
            };
            for (output, want) in [6, 7, 2, 4, 2].into_iter().enumerate() {
                let (got, theirs) = (seen(&combo, output), seen(&parts, output));
                assert_eq!((got.len(), got), (want, theirs), "output {output}, burst {burst}");
            }
            assert_eq!(combo.drops("e"), [(Reason::TooShort, 1), (Reason::Broadcast, 1)]);
        }
    }

    #[test]
    fn wants_its_arguments() {
        let text =
            "Idle -> e :: IPOutputCombo(1) -> d :: Discard; e[1] -> d; e[2] -> d; e[3] -> d; e[4] -> d;";
        assert_eq!(Rig::text(text).errors().len(), 2);
    }
}
