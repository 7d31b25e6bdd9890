// SPDX-License-Identifier: MIT OR Apache-2.0
//! # CheckARPHeader
//!
//! `CheckARPHeader([OFFSET, keywords VERBOSE, DETAILS])`
//!
//! Lets only ARP packets of a reasonable form pass and marks their header: they are as long as their addresses need,
//! Ethernet addresses have 6 bytes, IPv4 addresses 4 and IPv6 addresses 16.
//!
//! **Ports:** 1 input; 1 or 2 outputs. Output 0 agnostic; output 1, push, gets the other packets.
//!
//! **Arguments**
//! * `OFFSET` bytes before the ARP header, default 0.
//! * `VERBOSE` boolean, default false: print every bad packet's fault, not only the first.
//! * `DETAILS` boolean, default false: the handler `drop_details` counts by fault.
//!
//! **Metadata set:** network header position.
//!
//! **Drops** (when output 1 is not connected): `too-short`, `bad-length` (too short for its addresses), `bad-arp`.
//!
//! **Handlers**
//! * `drops` read: bad packets. `drop_details` read: the same by fault, with DETAILS.
//!
//! ```click
//! InfiniteSource(DATA \<0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002>, LIMIT 1, STOP true)
//!     -> CheckARPHeader -> ARPPrint -> Discard;
//! ```
//!
//! See also: ARPPrint, ARPQuerier, ARPResponder; RFC 826

use std::cell::Cell;

use element::args::Args;
use element::swap::Count;
use element::{Class, Cx, Element, HandlerError, Reason, Rehearsal, carries, handlers};
use packet::{Batch, Packet};

/// The descriptor.
pub const CLASS: Class = Class::new("CheckARPHeader", "1/1-2", || Box::new(CheckArpHeader::default()))
    .processing("a/ah")
    .handlers(handlers! { CheckArpHeader:
        sum "drops" => |check| check.bad.iter().sum::<u64>();
        tally "drop_details" => |check| check.drop_details()?;
    })
    .hot_swap::<CheckArpHeader>()
    .rehearsal::<CheckArpHeader>()
    .file(file!());

/// What can be wrong, in the order in which it is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Tiny,
    TooSmall,
    Hardware,
    Protocol,
}

/// Messages, as Click words them, and reasons of the faults.
const FAULTS: [(&str, Reason); 4] = [
    ("tiny packet", Reason::TooShort),
    ("too small for addresses", Reason::BadLength),
    ("bad hardware type/length", Reason::BadArp),
    ("bad protocol type/length", Reason::BadArp),
];

#[derive(Clone, Default)]
struct CheckArpHeader {
    offset: usize,
    verbose: bool,
    details: bool,
    bad: [Count; FAULTS.len()],
}

/// The length of the ARP header at the front of `arp`, if it is a sound one.
fn check(arp: &[u8]) -> Result<usize, Fault> {
    let [h0, h1, p0, p1, hardware_len, protocol_len, _, _] = *arp.first_chunk::<8>().ok_or(Fault::Tiny)?;
    let len = 8 + 2 * (usize::from(hardware_len) + usize::from(protocol_len));
    if arp.len() < len {
        return Err(Fault::TooSmall);
    }
    if [h0, h1] == [0, 1] && hardware_len != 6 {
        return Err(Fault::Hardware);
    }
    match ([p0, p1], protocol_len) {
        ([0x08, 0x00], 4) | ([0x86, 0xdd], 16) => Ok(len),
        ([0x08, 0x00] | [0x86, 0xdd], _) => Err(Fault::Protocol),
        _ => Ok(len),
    }
}

impl CheckArpHeader {
    #[cold]
    fn reject(&mut self, cx: &mut Cx<'_>, packet: Packet, fault: Fault) {
        let (text, reason) = FAULTS[fault as usize];
        let told = || format!("{}: ARP header check failed: {text}", cx.name());
        match self.verbose {
            true => cx.print(&told()),
            false if self.bad == [0; FAULTS.len()] => cx.print_once(&told()),
            false => {}
        }
        self.bad[fault as usize] += 1;
        cx.push_one_or_drop(1, packet, reason);
    }
}

impl CheckArpHeader {
    fn drop_details(&self) -> Result<String, HandlerError> {
        if !self.details {
            return Err(HandlerError::failed("drop_details needs DETAILS true"));
        }
        Ok(self.bad.iter().zip(FAULTS).map(|(n, (text, _))| format!("{n}\t{text}\n")).collect())
    }
}

impl Element for CheckArpHeader {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.offset = args.positional::<u16>("OFFSET", 0).into();
        self.verbose = args.keyword("VERBOSE", false);
        self.details = args.keyword("DETAILS", false);
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let (offset, found) = (self.offset, Cell::new(Fault::Tiny));
        let good = |p: &mut Packet| match check(p.data().get(offset..).unwrap_or(&[])) {
            Ok(len) => {
                p.set_network(offset, len);
                true
            }
            Err(fault) => {
                found.set(fault);
                false
            }
        };
        batch.partition(good, |p| self.reject(cx, p, found.get()));
        batch
    }
}

impl Rehearsal for CheckArpHeader {
    fn copy(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

carries!(CheckArpHeader: bad; anew offset, verbose, details);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    const GOOD: [u8; 28] = *b"\0\x01\x08\0\x06\x04\0\x01\x02\0\0\0\0\x01\x0a\0\0\x01\0\0\0\0\0\0\x0a\0\0\x02";

    fn with(at: usize, value: u8) -> Vec<u8> {
        let mut arp = GOOD.to_vec();
        arp[at] = value;
        arp
    }

    #[test]
    fn sorts_out_what_no_arp_packet_is() {
        let (hardware, protocol, ipv6) = (with(4, 5), with(5, 2), [with(2, 0x86), vec![0; 30]].concat());
        let inputs: [&[u8]; 6] = [&GOOD, &GOOD[..27], &GOOD[..7], &hardware, &protocol, b""];
        for burst in [1, 32] {
            let mut run =
                Rig::new("CheckARPHeader(DETAILS true, VERBOSE true)").burst(burst).inputs(&inputs).run();
            let out = run.out("o0");
            assert_eq!(
                (out.len(), out[0].network_offset(), out[0].transport_offset()),
                (1, Some(0), Some(28))
            );
            let drops = [(Reason::TooShort, 2), (Reason::BadLength, 1), (Reason::BadArp, 2)];
            assert_eq!((run.drops("e"), run.read("e.drops")), (drops.to_vec(), "5".into()));
            let details = "2\ttiny packet\n1\ttoo small for addresses\n1\tbad hardware type/length\n\
                1\tbad protocol type/length\n";
            assert_eq!(run.read("e.drop_details"), details);
            assert_eq!(run.printed().lines().count(), 5);
            assert!(run.printed().starts_with("e: ARP header check failed: too small for addresses\n"));
        }
        // IPv6's number is 0x86dd; 0x8600 is nobody's, and passes.
        assert_eq!(check(&ipv6), Ok(28));
        assert_eq!(check(&with(1, 9)), Ok(28));
    }

    #[test]
    fn offset_output_1_and_one_message() {
        let framed = [&[0; 14][..], &GOOD].concat();
        let rig = Rig::new("CheckARPHeader(14)").outputs(2);
        let mut run = rig.inputs(&[&framed, &GOOD[..20], b"short"]).run();
        assert_eq!(run.out("o0")[0].network_offset(), Some(14));
        assert_eq!((run.bytes("o1"), run.drops("e")), (vec![GOOD[..20].to_vec(), b"short".to_vec()], vec![]));
        assert_eq!((run.read("e.drops").as_str(), run.printed().lines().count()), ("2", 1));
    }
}
