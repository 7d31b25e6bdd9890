// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words, one after the other, and what single words mean.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use wire::{Prefix, Protocol};

use crate::association::Id;
use crate::selector::{ANY_PORT, Selector};

/// What may stand around a word.
const QUOTES: [char; 2] = ['\'', '"'];

/// What is wrong with a text, and what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mistake(pub String);

pub(super) fn mistake<T>(text: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake(text.into()))
}

/// Words that are still to be read.
pub(super) struct Words<'a> {
    rest: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    pub fn new(text: &'a str) -> Words<'a> {
        Words { rest: text.split_whitespace().peekable() }
    }

    /// The next word, without quotation marks around it.
    pub fn next(&mut self) -> Option<&'a str> {
        self.rest.next().map(|word| word.trim_matches(QUOTES))
    }

    pub fn peek(&mut self) -> Option<&'a str> {
        self.rest.peek().copied()
    }

    /// The word that must follow `keyword`.
    pub fn after(&mut self, keyword: &str, expected: &str) -> Result<&'a str, Mistake> {
        self.next().ok_or_else(|| Mistake(format!("'{keyword}' needs {expected}")))
    }

    /// What must follow `keyword`, read.
    pub fn read<T: FromStr>(&mut self, keyword: &str, expected: &str) -> Result<T, Mistake> {
        let word = self.after(keyword, expected)?;
        word.parse().map_err(|_| Mistake(format!("'{keyword} {}': expected {expected}", safe(word))))
    }

    pub fn addr(&mut self, keyword: &str) -> Result<IpAddr, Mistake> {
        self.read(keyword, "an address, as 192.0.2.1 or 2001:db8::1")
    }

    pub fn prefix(&mut self, keyword: &str) -> Result<Prefix, Mistake> {
        self.read(keyword, "a prefix, as 10.0.0.0/8")
    }

    /// A number, decimal or hexadecimal.
    pub fn number(&mut self, keyword: &str) -> Result<u32, Mistake> {
        let word = self.after(keyword, "a number")?;
        number(word).ok_or_else(|| {
            Mistake(format!("'{keyword} {}': expected a number of 32 bits, as 256 or 0x100", safe(word)))
        })
    }

    /// One word of a choice.
    pub fn one_of<T: Copy>(&mut self, keyword: &str, choice: &[(&str, T)]) -> Result<T, Mistake> {
        let all = choice.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let word = self.after(keyword, &format!("one of {all}"))?;
        let found = choice.iter().find(|(name, _)| *name == word);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| Mistake(format!("'{keyword} {}': expected one of {all}", safe(word))))
    }

    /// Bytes in hexadecimal, as 0x0011.
    pub fn key(&mut self, keyword: &str) -> Result<Vec<u8>, Mistake> {
        let word = self.after(keyword, "a key in hexadecimal, as 0x0011")?;
        // The message must not show the key.
        bytes(word).ok_or_else(|| Mistake(format!("'{keyword}': expected a key in hexadecimal, as 0x0011")))
    }
}

/// Hexadecimal digits in a row that no message shows: those of a key of eight bytes. No number has so many.
const DIGITS_OF_A_KEY: usize = 16;

/// A word as a message may show it: not if it may be a key that stands in a wrong place.
pub(super) fn safe(word: &str) -> &str {
    let lower = word.to_ascii_lowercase();
    let is_long = lower.split_once("0x").is_some_and(|(_, rest)| rest.len() > DIGITS_OF_A_NUMBER);
    let mut runs = lower.split(|c: char| !c.is_ascii_hexdigit());
    if is_long || runs.any(|run| run.len() >= DIGITS_OF_A_KEY) { "***" } else { word }
}

pub(super) fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Reads bytes in hexadecimal. Nothing at all stands for an empty key, as that of a null cipher.
pub(super) fn bytes(word: &str) -> Option<Vec<u8>> {
    if word.is_empty() {
        return Some(Vec::new());
    }
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"))?.as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = digits.as_chunks::<2>();
    let both = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    // Room for all, so that no copy of a key is left elsewhere.
    let mut bytes = Vec::with_capacity(pairs.len());
    for pair in pairs.iter().filter(|_| rest.is_empty()) {
        bytes.push(both(pair)?);
    }
    rest.is_empty().then_some(bytes)
}

/// Adds bytes in hexadecimal.
pub(super) fn put_hex(text: &mut String, bytes: &[u8]) {
    text.push_str("0x");
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

const PROTOCOLS: &[(&str, Protocol)] = &[
    ("icmp", Protocol::ICMP),
    ("tcp", Protocol::TCP),
    ("udp", Protocol::UDP),
    ("ipv6-icmp", Protocol::ICMPV6),
    ("icmpv6", Protocol::ICMPV6),
    ("esp", Protocol::ESP),
    ("gre", Protocol::GRE),
    ("sctp", Protocol::SCTP),
    ("ipip", Protocol::IPIP),
    ("ipv6", Protocol::IPV6),
];

/// Words of a selector, in any order, until a word that is none.
#[derive(Default)]
pub(super) struct SelectorWords {
    pub src: Option<Prefix>,
    pub dst: Option<Prefix>,
    protocol: Option<Protocol>,
    sports: Option<RangeInclusive<u16>>,
    dports: Option<RangeInclusive<u16>>,
}

impl SelectorWords {
    /// Takes what `keyword` begins, if it is one of a selector's.
    pub fn take(&mut self, keyword: &str, words: &mut Words<'_>) -> Result<bool, Mistake> {
        match keyword {
            "src" => self.src = Some(words.prefix(keyword)?),
            "dst" => self.dst = Some(words.prefix(keyword)?),
            "proto" | "upspec" => {
                self.protocol = protocol(words.after(keyword, "a protocol, as udp or 17")?)?
            }
            "sport" | "type" => self.sports = Some(ports(keyword, words)?),
            "dport" | "code" => self.dports = Some(ports(keyword, words)?),
            "dev" => return mistake("'dev': a router's policies are not bound to a device"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub fn finish(self) -> Result<Selector, Mistake> {
        let is_six = self.src.or(self.dst).is_some_and(Prefix::is_six);
        let (src, dst) = (self.src.unwrap_or(Prefix::all(is_six)), self.dst.unwrap_or(Prefix::all(is_six)));
        if src.is_six() != dst.is_six() {
            return mistake(format!("src {src} and dst {dst} are of two families"));
        }
        let has_ports =
            self.protocol.is_some_and(|p| p.has_ports() || matches!(p, Protocol::ICMP | Protocol::ICMPV6));
        if (self.sports.is_some() || self.dports.is_some()) && !has_ports {
            return mistake(
                "ports need a protocol that has them: say 'proto tcp', 'proto udp' or 'proto sctp' before",
            );
        }
        let (sports, dports) = (self.sports.unwrap_or(ANY_PORT), self.dports.unwrap_or(ANY_PORT));
        Ok(Selector { src, dst, protocol: self.protocol, sports, dports })
    }
}

fn protocol(word: &str) -> Result<Option<Protocol>, Mistake> {
    if word == "any" {
        return Ok(None);
    }
    let named = PROTOCOLS.iter().find(|(name, _)| *name == word).map(|(_, protocol)| *protocol);
    let known = named.or_else(|| word.parse().ok().map(Protocol));
    match known {
        // Linux' number for any protocol.
        Some(Protocol(0)) => Ok(None),
        Some(protocol) => Ok(Some(protocol)),
        None => {
            let names = PROTOCOLS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            mistake(format!("'proto {}': expected a number or one of {names}, any", safe(word)))
        }
    }
}

/// A protocol by its name, or else its number.
pub(super) fn show_protocol(protocol: Protocol) -> String {
    let named = PROTOCOLS.iter().find(|(_, known)| *known == protocol).map(|(name, _)| (*name).to_owned());
    named.unwrap_or_else(|| protocol.0.to_string())
}

fn ports(keyword: &str, words: &mut Words<'_>) -> Result<RangeInclusive<u16>, Mistake> {
    let word = words.after(keyword, "a port or a range, as 1024-65535")?;
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => mistake(format!("'{keyword} {}': expected a port or a range, as 1024-65535", safe(word))),
    }
}

/// A selector in the words of `ip xfrm`.
pub(super) fn show_selector(selector: &Selector) -> String {
    use std::fmt::Write as _;
    let Selector { src, dst, protocol, sports, dports } = selector;
    let mut text = format!("src {src} dst {dst}");
    if let Some(protocol) = protocol {
        let _ = write!(text, " proto {}", show_protocol(*protocol));
    }
    for (keyword, range) in [("sport", sports), ("dport", dports)] {
        if *range == ANY_PORT {
            continue;
        }
        let _ = match range.start() == range.end() {
            true => write!(text, " {keyword} {}", range.start()),
            false => write!(text, " {keyword} {}-{}", range.start(), range.end()),
        };
    }
    text
}

/// Reads which association is meant: `dst 192.0.2.1 spi 0x100`. Other words of `ip xfrm state delete` may stand there, too.
///
/// # Errors
/// What is missing.
pub fn parse_id(text: &str) -> Result<Id, Mistake> {
    let mut words = Words::new(text);
    let (mut dst, mut spi) = (None, None);
    while let Some(keyword) = words.next() {
        match keyword {
            "dst" => dst = Some(words.addr(keyword)?),
            "spi" => spi = Some(words.number(keyword)?),
            "src" => drop(words.addr(keyword)?),
            "proto" => words.one_of(keyword, &[("esp", ())])?,
            _ => {
                return mistake(format!(
                    "unknown word '{}'; an association is named by 'dst ADDRESS spi NUMBER'",
                    safe(keyword)
                ));
            }
        }
    }
    match (dst, spi) {
        (Some(dst), Some(spi)) => Ok(Id { dst, spi }),
        _ => mistake("an association is named by 'dst ADDRESS spi NUMBER'"),
    }
}

/// Numbers from which one is to be promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The receiver.
    pub dst: IpAddr,
    /// The numbers.
    pub range: RangeInclusive<u32>,
}

/// Reads `dst ADDRESS [min N] [max N]`.
///
/// # Errors
/// What is wrong, and what is expected.
pub fn parse_reservation(text: &str) -> Result<Reservation, Mistake> {
    let mut words = Words::new(text);
    let (mut dst, mut min, mut max) = (None, 0x100, u32::MAX);
    while let Some(keyword) = words.next() {
        match keyword {
            "dst" => dst = Some(words.addr(keyword)?),
            "src" => drop(words.addr(keyword)?),
            "proto" => words.one_of(keyword, &[("esp", ())])?,
            "min" => min = words.number(keyword)?,
            "max" => max = words.number(keyword)?,
            _ => {
                let word = safe(keyword);
                return mistake(format!("unknown word '{word}'; expected 'dst ADDRESS [min N] [max N]'"));
            }
        }
    }
    let dst = dst.ok_or_else(|| Mistake("expected 'dst ADDRESS [min N] [max N]'".into()))?;
    Ok(Reservation { dst, range: min..=max })
}

/// Digits of a hexadecimal word that may be a number. A longer one is a key.
const DIGITS_OF_A_NUMBER: usize = 8;
/// Digits of a decimal word that may be a number of 64 bits.
const DIGITS_OF_A_LONG_NUMBER: usize = 20;

/// Where the secrets of an association's text stand: the word behind an algorithm, and all words that no message shows.
pub fn secrets(text: &str) -> Vec<std::ops::Range<usize>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_decimal = |word: &str| {
        let digits = word.trim_matches(|c: char| c.is_ascii_punctuation());
        digits.len() <= DIGITS_OF_A_LONG_NUMBER && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_key = |at: &usize| {
        let follows = at
            .checked_sub(2)
            .is_some_and(|before| ["aead", "enc", "auth", "auth-trunc", "comp"].contains(&words[before]));
        (follows && words[*at] != "auth-trunc" && words[*at] != "''")
            || safe(words[*at]) != words[*at] && !is_decimal(words[*at])
    };
    let place = |at: usize| {
        let key = words[at].trim_matches(QUOTES);
        let start = key.as_ptr().addr() - text.as_ptr().addr();
        start..start + key.len()
    };
    (0..words.len()).filter(is_key).map(place).collect()
}
