// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP messages in the form of the other family (RFC 7915, sections 4.2, 4.3, 5.2 and 5.3), for packets that are translated.

use element::Reason;

use super::siit::{Addresses, Header};

/// Bytes by which the headers of the families differ.
const DIFFERENCE: u32 = 20;
const MTU_LEAST: u32 = 1280;

/// A message's first bytes: type, code, and the four bytes behind the checksum. `quotes`: a packet follows.
struct Message {
    kind: u8,
    code: u8,
    rest: [u8; 4],
    quotes: bool,
}

/// Appends the message in the other family to `out`, with no checksum.
pub(super) fn translate(
    message: &[u8],
    to_ip6: bool,
    addresses: &impl Addresses,
    out: &mut Vec<u8>,
) -> Result<(), Reason> {
    let head: &[u8; 8] = message.first_chunk().ok_or(Reason::BadLength)?;
    let Message { kind, code, rest, quotes } =
        if to_ip6 { message6(head) } else { message4(head) }.ok_or(Reason::BadProtocol)?;
    out.extend([kind, code, 0, 0]);
    out.extend(rest);
    if quotes {
        return quotation(&message[8..], to_ip6, addresses, out);
    }
    out.extend(&message[8..]);
    Ok(())
}

fn message6(head: &[u8; 8]) -> Option<Message> {
    let rest = [head[4], head[5], head[6], head[7]];
    let error = |kind, code, rest: u32| Some(Message { kind, code, rest: rest.to_be_bytes(), quotes: true });
    match (head[0], head[1]) {
        (8, _) => Some(Message { kind: 128, code: 0, rest, quotes: false }),
        (0, _) => Some(Message { kind: 129, code: 0, rest, quotes: false }),
        (3, 2) => error(4, 1, 6),
        (3, 4) => {
            let mtu = u32::from(u16::from_be_bytes([head[6], head[7]]));
            error(2, 0, (mtu + DIFFERENCE).max(MTU_LEAST))
        }
        (3, 3) => error(1, 4, 0),
        (3, 0 | 1 | 5..=8 | 11 | 12) => error(1, 0, 0),
        (3, 9 | 10 | 13 | 15) => error(1, 1, 0),
        (11, code) => error(3, code, 0),
        (12, 0 | 2) => {
            let place = match head[4] {
                place @ (0 | 1) => place.into(),
                2 | 3 => 4,
                8 => 7,
                9 => 6,
                12..=15 => 8,
                16..=19 => 24,
                _ => return None,
            };
            error(4, 0, place)
        }
        _ => None,
    }
}

fn message4(head: &[u8; 8]) -> Option<Message> {
    let rest = [head[4], head[5], head[6], head[7]];
    let error = |kind, code, rest| Some(Message { kind, code, rest, quotes: true });
    let number = u32::from_be_bytes(rest);
    match (head[0], head[1]) {
        (128, _) => Some(Message { kind: 8, code: 0, rest, quotes: false }),
        (129, _) => Some(Message { kind: 0, code: 0, rest, quotes: false }),
        (1, 1) => error(3, 10, [0; 4]),
        (1, 4) => error(3, 3, [0; 4]),
        (1, _) => error(3, 1, [0; 4]),
        (2, _) => error(3, 4, number.saturating_sub(DIFFERENCE).min(65535).to_be_bytes()),
        (3, code) => error(11, code, [0; 4]),
        (4, 1) => error(3, 2, [0; 4]),
        (4, 0) => {
            let place = match number {
                0 => 0,
                1 => 1,
                4 | 5 => 2,
                6 => 9,
                7 => 8,
                8..=23 => 12,
                24..=39 => 16,
                _ => return None,
            };
            error(12, 0, [place, 0, 0, 0])
        }
        _ => None,
    }
}

/// Appends a quoted packet in the other family. Its end may be missing.
fn quotation(
    quoted: &[u8],
    to_ip6: bool,
    addresses: &impl Addresses,
    out: &mut Vec<u8>,
) -> Result<(), Reason> {
    let header = if to_ip6 { Header::ip4(quoted, addresses) } else { Header::ip6(quoted, addresses) }?;
    let (head, length) =
        header.emit(to_ip6, header.total.checked_sub(header.length).ok_or(Reason::BadLength)?)?;
    out.extend(&head[..length]);
    let at = out.len();
    out.extend(&quoted[header.length..]);
    let bytes = &mut out[at..];
    header.transport(bytes, to_ip6, false)?;
    if header.protocol == 1
        && let Some(kind) = bytes.first_mut()
    {
        // Of the messages that errors quote only pings have a counterpart.
        *kind = match (*kind, to_ip6) {
            (8, true) => 128,
            (0, true) => 129,
            (128, false) => 8,
            (129, false) => 0,
            _ => return Err(Reason::BadProtocol),
        };
    }
    Ok(())
}
