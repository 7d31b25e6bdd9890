// SPDX-License-Identifier: MIT OR Apache-2.0
//! A route as it is written: `ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE]`.

use std::net::Ipv4Addr;
use std::ops::Range;

use element::HIDDEN;
use element::args::{FromArg, Names};
use esp::click::{KEY_LEN, Material};
use lang::config::{split_words, unquote};
use wire::{AddrMask4, Prefix4};

use super::association::Agreed;

/// How a route is written, for messages.
pub(super) const FORM: &str = "ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE]";

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RouteTarget {
    /// 0.0.0.0 for none.
    pub gateway: Ipv4Addr,
    /// The output.
    pub output: u32,
    /// The association's SPI; 0 for none.
    pub spi: u32,
}

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Addresses that it is for.
    pub prefix: Prefix4,
    /// Where it leads; `None` where only a prefix is given, to be removed.
    pub way: Option<RouteTarget>,
    /// The association of packets that go there.
    pub agreed: Option<Agreed>,
}

/// Reads a route. `removing` allows a prefix alone. No error shows a key.
///
/// # Errors
/// What is wrong.
pub(super) fn read(text: &str, noutputs: usize, names: &Names, removing: bool) -> Result<Line, String> {
    let words = split_words(text);
    let [first, rest @ ..] = &words[..] else { return Err(format!("a route is {FORM}")) };
    let prefix = read_prefix(first, names)?;
    let (gateway, rest) = match rest {
        [] if removing => return Ok(Line { prefix, way: None, agreed: None }),
        ["-", rest @ ..] => (Ipv4Addr::UNSPECIFIED, rest),
        [word, rest @ ..] => match Ipv4Addr::from_arg(word, names) {
            Ok(gateway) => (gateway, rest),
            Err(_) if word.contains('.') => {
                return Err(format!("'{}' is not a gateway's address", safe(word)));
            }
            Err(_) => (Ipv4Addr::UNSPECIFIED, &words[1..]),
        },
        [] => return Err(format!("the route for {prefix} lacks an output: it is {FORM}")),
    };
    let Some((output, rest)) = rest.split_first() else {
        return Err(format!("the route for {prefix} lacks an output: it is {FORM}"));
    };
    let output = read_output(output, noutputs)?;
    let agreed = match rest {
        [] => None,
        [spi, encryption, authentication, first, window] => Some(Agreed {
            spi: number(spi, "SPI", 1, u32::MAX)?,
            material: erase::apart(|| {
                let encryption = read_key(encryption, "ENCRYPT_KEY", prefix)?;
                let authentication = read_key(authentication, "AUTH_KEY", prefix)?;
                Ok::<_, String>(Box::new(Material { encryption, authentication }))
            })?,
            first: number(first, "REPLAY", 1, u32::MAX)?,
            window: number(window, "OOSIZE", 0, u8::MAX.into())? as u8,
        }),
        _ => {
            return Err(format!(
                "the route for {prefix} needs all five of SPI, ENCRYPT_KEY, AUTH_KEY, REPLAY and OOSIZE, or none"
            ));
        }
    };
    let spi = agreed.as_ref().map_or(0, |agreed| agreed.spi);
    Ok(Line { prefix, way: Some(RouteTarget { gateway, output, spi }), agreed })
}

fn read_prefix(word: &str, names: &Names) -> Result<Prefix4, String> {
    let wrong = || format!("'{}' is not a prefix (ADDRESS/LENGTH)", safe(word));
    let named = || names.net4_or_host(word).map(|net| net.to_string());
    let given: AddrMask4 = word.parse().ok().or_else(|| named()?.parse().ok()).ok_or_else(wrong)?;
    given.prefix().ok_or_else(wrong)
}

/// A word as a message may show it: a short one, or numbers with dots. Others may be keys that stand in a wrong place.
fn safe(word: &str) -> &str {
    let is_address =
        word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || b"./".contains(&byte));
    if word.len() < 8 || is_address { word } else { HIDDEN }
}

fn read_output(word: &str, noutputs: usize) -> Result<u32, String> {
    match word.parse::<usize>() {
        Ok(output) if output < noutputs => Ok(output as u32),
        Ok(_) => Err(format!("there is no output {} ({noutputs} are connected)", safe(word))),
        Err(_) => Err(format!("'{}' is not an output number", safe(word))),
    }
}

fn number(word: &str, name: &str, least: u32, most: u32) -> Result<u32, String> {
    let value = element::parse_integer(word).and_then(|value| u32::try_from(value).ok());
    value
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| format!("{name} must be a whole number between {least} and {most}"))
}

/// A key: 16 bytes as they stand or as `\<hex>`, or 32 hexadecimal digits.
fn read_key(word: &str, name: &str, prefix: Prefix4) -> Result<[u8; KEY_LEN], String> {
    let bytes = unquote(word);
    let digits = || {
        let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() == 2 * KEY_LEN)?;
        let mut key = [0; KEY_LEN];
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
            let [high, low] = [0, 1].map(|at| (digits[at] as char).to_digit(16));
            *byte = (high? << 4 | low?) as u8;
        }
        Some(key)
    };
    <[u8; KEY_LEN]>::try_from(&bytes[..]).ok().or_else(digits).ok_or_else(|| {
        format!(
            "{name} of the route for {prefix} must be {KEY_LEN} bytes, as \\<hex> or 32 hexadecimal digits or {KEY_LEN} characters; it \
             has {} bytes",
            bytes.len()
        )
    })
}

/// The keys in a route, or in a message that shows one: the two words behind a prefix, perhaps a gateway, an output and an SPI.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let words = split_words(text);
    let is_number = |word: &&str| element::parse_integer(word).is_some();
    let is_gateway = |word: &&str| *word == "-" || word.parse::<Ipv4Addr>().is_ok();
    // Ordinary routes may have weights and further hops there.
    let is_secret = |word: &&str| {
        word.len() >= 8 && word.parse::<Ipv4Addr>().is_err() || word.starts_with(['\\', '"', '\''])
    };
    let mut found = Vec::new();
    for at in 0..words.len() {
        let behind = &words[at + 1..];
        let behind = if behind.first().is_some_and(is_gateway) { &behind[1..] } else { behind };
        let [output, spi, keys @ ..] = behind else { continue };
        let keys = &keys[..keys.len().min(2)];
        if is_number(output) && is_number(spi) && keys.iter().any(is_secret) {
            found.extend(keys.iter().map(|word| {
                let start = word.as_ptr().addr() - text.as_ptr().addr();
                start..start + word.len()
            }));
        }
    }
    found.sort_by_key(|place| place.start);
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "ABCDEFFF001DEFD2354550FE40CD708E 112233EE556677888877665544332211";

    fn ours(text: &str) -> Result<Line, String> {
        read(text, 5, &Names::default(), false)
    }

    fn agreed(text: &str) -> Agreed {
        ours(text).unwrap().agreed.expect("an association")
    }

    #[test]
    fn routes_are_read_as_click_writes_them() {
        let line = ours("18.26.7.1/24 4").unwrap();
        assert_eq!((line.prefix.to_string().as_str(), line.agreed), ("18.26.7.0/24", None));
        let way = RouteTarget { gateway: Ipv4Addr::UNSPECIFIED, output: 4, spi: 0 };
        assert_eq!(line.way, Some(way));
        assert_eq!(ours("18.26.7.1 - 4").unwrap().way, Some(way));
        let text = format!("18.26.8.0/24 18.26.4.1 1 234 {KEYS} 300 64");
        let (line, secret) = (ours(&text).unwrap(), agreed(&text));
        assert_eq!(line.way, Some(RouteTarget { gateway: [18, 26, 4, 1].into(), output: 1, spi: 234 }));
        assert_eq!((secret.spi, secret.first, secret.window), (234, 300, 64));
        assert_eq!(secret.material.encryption[..3], [0xab, 0xcd, 0xef]);
        assert_eq!(secret.material.authentication[13..], [0x33, 0x22, 0x11]);
        // The same keys as bytes; and keys of sixteen characters.
        let [a, b] = [&KEYS[..32], &KEYS[33..]];
        assert_eq!(agreed(&format!("1/8 0 234 \\<{a}> \\<{} {}> 300 64", &b[..8], &b[8..])), secret);
        assert_eq!(
            agreed("1/8 0 1 1111111111111111 \"1111111111111111\" 1 0").material.encryption,
            [b'1'; 16]
        );
        let alone = read("1.0.0.0/8", 5, &Names::default(), true).unwrap();
        assert_eq!(alone.way, None);
    }

    #[test]
    fn what_is_wrong_is_said_without_keys() {
        let check = |text: &str, want: &str| {
            let why = ours(text).unwrap_err();
            assert!(why.starts_with(want), "{text}: {why}");
            assert!(!why.contains("ABCDEF") && !why.contains("11223"), "{why}");
        };
        check("", "a route is ADDR/MASK");
        check("1.0.0.0/8", "the route for 1.0.0.0/8 lacks an output");
        check("1.0.0.0/8 1.1.1.1", "the route for 1.0.0.0/8 lacks an output");
        check("x 0", "'x' is not a prefix");
        check("1.0.0.0/33 0", "'1.0.0.0/33' is not a prefix");
        check("1.0.0.0/8 5", "there is no output 5 (5 are connected)");
        check("1.0.0.0/8 -1", "'-1' is not an output number");
        check("1.0.0.0/8 1.1.1 0", "'1.1.1' is not a gateway's address");
        check("1.0.0.0/8 1 234", "the route for 1.0.0.0/8 needs all five");
        check(&format!("1.0.0.0/8 1 234 {KEYS} 300"), "the route for 1.0.0.0/8 needs all five");
        check(&format!("1.0.0.0/8 1 0 {KEYS} 300 64"), "SPI must be a whole number between 1 and");
        check(&format!("1.0.0.0/8 1 234 {KEYS} 0 64"), "REPLAY must be a whole number between 1 and");
        check(&format!("1.0.0.0/8 1 234 {KEYS} 300 256"), "OOSIZE must be a whole number between 0 and 255");
        check(
            "1.0.0.0/8 1 234 ABCDEF 11223 300 64",
            "ENCRYPT_KEY of the route for 1.0.0.0/8 must be 16 bytes",
        );
        let odd = format!("1.0.0.0/8 1 234 {}x {} 300 64", &KEYS[..31], &KEYS[33..]);
        check(&odd, "ENCRYPT_KEY of the route for 1.0.0.0/8 must be 16 bytes");
    }

    #[test]
    fn no_place_makes_a_message_show_a_key() {
        let (key, raw) = ("aBCDEFFF001DEFD2354550FE40CD708E", "a.raw-key/16byte");
        let words = ["18.26.8.0/24", "18.26.4.1", "1", "234", raw, key, "300", "64"];
        for (at, secret) in (0..=words.len()).flat_map(|at| [key, raw].map(|secret| (at, secret))) {
            for kept in [at, (at + 1).min(words.len())] {
                let text = [&words[..at], &[secret], &words[kept..]].concat().join(" ");
                let Err(why) = ours(&text) else { continue };
                assert!(!why.contains("aBCDEF") && !why.contains("raw-key"), "{text}: {why}");
            }
        }
    }

    #[test]
    fn keys_are_found_in_arguments_and_messages() {
        let check = |text: &str, want: &[&str]| {
            let found: Vec<&str> = secrets(text).into_iter().map(|at| &text[at]).collect();
            assert_eq!(found, want, "{text}");
        };
        let keys: Vec<&str> = KEYS.split(' ').collect();
        check(&format!("18.26.8.0/24 18.26.4.1 1 234 {KEYS} 300 64"), &keys);
        check(&format!("set 3.3.3.3/32 0 234 {KEYS} 300 64"), &keys);
        check("1/8 0 234 \\<11 22> \\<33> 3 4", &["\\<11 22>", "\\<33>"]);
        check("1/8 0 234 1111111111111111", &["1111111111111111"]);
        check(&format!("b :: R(1/8 0, 2/8 1 2 {} 1122... more", keys[0]), &[keys[0], "1122..."]);
        check("9/8 1.1.1.1 0, 2.0.0.0/8 0, 10.0.0.0/16 1", &[]);
        check("172.16.0.0/12 10.0.0.2 0 3 | 10.1.0.2 1 1", &[]);
        check("10.0.0.0/8 1", &[]);
        check("18.26.4.24/32 0", &[]);
    }
}
