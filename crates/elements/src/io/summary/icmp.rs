// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of ICMP types and codes (RFC 792, 950, 1122, 1256, 1812).

use crate::classify::vocabulary::ICMP_TYPES;

/// The names of a type's codes; code `i` is the `i`th.
fn codes(kind: u8) -> &'static [&'static str] {
    match kind {
        3 => &[
            "net",
            "host",
            "protocol",
            "port",
            "needfrag",
            "srcroutefail",
            "netunknown",
            "hostunknown",
            "isolated",
            "netprohibited",
            "hostprohibited",
            "tosnet",
            "toshost",
            "filterprohibited",
            "hostprecedence",
            "precedencecutoff",
        ],
        5 => &["net", "host", "tosnet", "toshost"],
        11 => &["transit", "reassembly"],
        12 => &["erroratptr", "missingopt", "length"],
        _ => &[],
    }
}

fn number(text: &str) -> Option<u8> {
    element::parse_integer(text).and_then(|n| u8::try_from(n).ok())
}

/// A type by name or number.
pub fn parse_type(text: &str) -> Option<u8> {
    let named = ICMP_TYPES.iter().find(|(name, _)| *name == text);
    named.map(|(_, n)| *n as u8).or_else(|| number(text))
}

/// A code of type `kind` by name or number.
pub fn parse_code(kind: Option<u8>, text: &str) -> Option<u8> {
    let named = codes(kind.unwrap_or(255)).iter().position(|name| *name == text);
    named.map(|n| n as u8).or_else(|| number(text))
}

/// The name of a type.
pub fn type_name(kind: u8) -> Option<&'static str> {
    ICMP_TYPES.iter().find(|(_, n)| *n == u32::from(kind)).map(|(name, _)| *name)
}

/// The name of a code of type `kind`.
pub fn code_name(kind: u8, code: u8) -> Option<&'static str> {
    codes(kind).get(usize::from(code)).copied()
}

/// Whether messages of this type carry an identifier and a sequence number.
pub fn has_flow(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13..=16)
}

/// Bytes of a message's header.
pub fn header_len(kind: u8) -> usize {
    if matches!(kind, 13 | 14) { 20 } else { 8 }
}
