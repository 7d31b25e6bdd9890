// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP errors about packets that have come with MPLS labels: the message lists them behind what it quotes (RFC 4884, RFC 4950).

use packet::Packet;
use wire::mpls::{ENTRY_LEN, Entry, View};

/// Bytes that a message with an extension quotes, zeros behind a shorter packet. Readers that know no length field expect it so.
pub(crate) const QUOTED: usize = 128;
/// Headers of the extension and of its object.
const HEADERS: usize = 8;
/// The deepest stack that is listed.
const DEPTH: usize = 64;

/// The labels in front of a packet's marked IP header; empty if there are none.
pub(crate) fn stack(packet: &Packet) -> &[u8] {
    let at = packet.network_offset().and_then(|at| usize::try_from(at).ok());
    let Some(labels) = at.and_then(|at| packet.data().get(..at)) else { return &[] };
    let is_whole = View::new_checked(labels, DEPTH).is_ok_and(|view| view.payload().is_empty());
    if is_whole { labels } else { &[] }
}

/// Bytes of the quotation and the extension.
pub(crate) fn len(stack: &[u8]) -> usize {
    QUOTED + HEADERS + stack.len()
}

/// Writes the quotation of an IP packet, and the extension that lists the labels it came with.
///
/// # Panics
/// If `out` has not [`len`] bytes.
pub(crate) fn write(out: &mut [u8], packet: &[u8], stack: &[u8]) {
    let (quoted, extension) = out.split_at_mut(QUOTED);
    quoted.fill(0);
    let count = packet.len().min(QUOTED);
    quoted[..count].copy_from_slice(&packet[..count]);
    // Version 2; then an object of class 1 (MPLS label stack), type 1 (incoming).
    extension[..4].copy_from_slice(&[0x20, 0, 0, 0]);
    let object = (4 + stack.len()) as u16;
    extension[4..6].copy_from_slice(&object.to_be_bytes());
    extension[6..HEADERS].copy_from_slice(&[1, 1]);
    extension[HEADERS..].copy_from_slice(stack);
    let sum = wire::checksum::internet(extension);
    extension[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Puts a packet onto the label switched path of the packet that it answers, which leads to somebody who knows the way to the sender (RFC
/// 3032, 2.3.2); false if there is no room.
pub(crate) fn push_stack(answer: &mut Packet, stack: &[u8]) -> bool {
    let Some(place) = answer.push(stack.len()) else { return false };
    for (place, entry) in place.chunks_exact_mut(ENTRY_LEN).zip(stack.chunks_exact(ENTRY_LEN)) {
        let entry = Entry::from_bytes([entry[0], entry[1], entry[2], entry[3]]);
        place.copy_from_slice(&entry.with_ttl(255).to_bytes());
    }
    true
}

#[cfg(test)]
mod tests {
    use element::Reason;
    use packet::Packet;
    use wire::mpls::{Entry, View};

    use crate::testing::{Rig, Run};

    const LABELS: [(u32, u8); 2] = [(500, 1), (501, 30)];

    fn labelled(payload: &[u8]) -> Packet {
        let entry = |at: usize| Entry::new(LABELS[at].0, 3, at == 1, LABELS[at].1).to_bytes();
        Packet::copy_of(&[&entry(0)[..], &entry(1), payload].concat()).unwrap()
    }

    fn four(payload: usize) -> Vec<u8> {
        crate::ip::samples::datagram(9, [1, 2, 3, 4], [5, 6, 7, 8], &[], payload).data().to_vec()
    }

    fn six(payload: usize) -> Vec<u8> {
        crate::ip6::samples::bytes("2001:db8::1", "2001:db8::2", 17, 9, &vec![7; payload])
    }

    /// Packets whose label has expired, answered by this element.
    fn answer(element: &str, packet: Packet) -> Run {
        let text = format!(
            "i :: TestIn -> mpls :: LookupMPLS(500 swap 1 0, EXPIRED 1); mpls[0] -> Discard;
             mpls[1] -> e :: {element} -> o0 :: TestOut;"
        );
        Rig::text(&text).packets(vec![packet]).run()
    }

    /// The extension of a message whose ICMP header begins at `icmp`.
    fn check(message: &[u8], icmp: usize, quoted: &[u8]) {
        let quotation = &message[icmp + 8..icmp + 8 + super::QUOTED];
        let count = quoted.len().min(super::QUOTED);
        assert_eq!(quotation[..count], quoted[..count]);
        assert!(quotation[count..].iter().all(|byte| *byte == 0));
        let extension = &message[icmp + 8 + super::QUOTED..];
        assert_eq!(wire::checksum::internet(extension), 0);
        assert_eq!((extension[0], &extension[4..8]), (0x20, &[0, 12, 1, 1][..]));
        assert_eq!(extension[8..], labelled(&[]).data()[..]);
    }

    #[test]
    fn messages_list_the_labels() {
        for payload in [8, 100, 400] {
            let run = answer("ICMPError(9.9.9.9, timeexceeded, MPLS true)", labelled(&four(payload)));
            let message = &run.bytes("o0")[0];
            assert_eq!((message[20], message[25], &message[16..20]), (11, 32, &[1, 2, 3, 4][..]));
            assert_eq!(wire::checksum::internet(&message[20..]), 0);
            check(message, 20, &four(payload));
            let run = answer("ICMP6Error(2001:db8::9, timeexceeded, MPLS true)", labelled(&six(payload)));
            let message = &run.bytes("o0")[0];
            assert_eq!((message[40], message[44]), (3, 16));
            let view = wire::ipv6::View::new_checked(&message[..]).unwrap();
            let icmp = wire::icmpv6::View::new_checked(view.payload()).unwrap();
            assert!(icmp.checksum_ok(view.src(), view.dst()));
            check(message, 40, &six(payload));
        }
    }

    #[test]
    fn a_message_may_travel_by_the_path_of_its_packet() {
        let run = answer("ICMPError(9.9.9.9, timeexceeded, MPLS true, LSP true)", labelled(&four(8)));
        let message = &run.bytes("o0")[0];
        let view = View::new_checked(&message[..], 9).unwrap();
        let entries: Vec<_> = view.entries().map(|entry| (entry.label(), entry.tc(), entry.ttl())).collect();
        assert_eq!(entries, [(500, 3, 255), (501, 3, 255)]);
        check(view.payload(), 20, &four(8));
    }

    #[test]
    fn a_too_long_packet_learns_what_fits_below_its_labels() {
        let run =
            answer("ICMPError(9.9.9.9, unreachable, needfrag, PMTU 1500, MPLS true)", labelled(&four(8)));
        let message = &run.bytes("o0")[0];
        assert_eq!((message[20], message[21], &message[24..28]), (3, 4, &[0, 32, 5, 212][..]));
        let run = answer("ICMP6Error(2001:db8::9, toobig, MTU 1500, MPLS true)", labelled(&six(8)));
        let message = &run.bytes("o0")[0];
        // A message of this type has no length of what it quotes, so it lists nothing.
        assert_eq!((message[40], message.len(), &message[44..48]), (2, 40 + 8 + 48, &[0, 0, 5, 212][..]));
        let errors = Rig::new("ICMPError(9.9.9.9, timeexceeded, LSP true)").errors();
        assert_eq!(errors, ["e: LSP needs MPLS true: without labels there is no label switched path"]);
        let run = answer("ICMPError(9.9.9.9, timeexceeded, MPLS true)", labelled(&[0x45]));
        assert_eq!(run.drops("e"), [(Reason::NoIcmpError, 1)]);
    }
}
