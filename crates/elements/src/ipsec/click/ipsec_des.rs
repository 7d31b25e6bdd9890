// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecDES
//!
//! `IPsecDES(ENCRYPT [, KEY, IGNORE])` or `IPsecDES(ENCRYPT, IV, KEY)`
//!
//! Encrypts or decrypts ESP packets with DES in CBC mode (RFC 2405), or with triple DES (RFC 2451). The initialisation vector is that of the ESP header.
//!
//! **Obsolete.** DES was broken in 1998: its key has 56 bits. Triple DES has blocks of 64 bits, which leak after some gigabytes (RFC 8221, 5). It is here for
//! configurations of Click.
//!
//! **Ports:** 1 input, 1 output, agnostic.
//!
//! **Arguments**
//! * `ENCRYPT` 0 decrypts, 1 and 2 encrypt.
//! * `KEY` for all packets, instead of the first 8 bytes of the association's ENCRYPT_KEY: 16 hexadecimal digits, or 48 for triple DES. Or the 8 or 24 bytes themselves, in
//!   quotation marks or as `\\<hex>`.
//! * `IGNORE` bytes at the end to leave as they are, default 12: the digest, if that is appended before this element encrypts.
//! * `IV` is read and not used: old versions of Click began the first packet with it. With it, IGNORE is 0, and bytes at the end that fill no block stay
//!   as they are.
//!
//! **Metadata:** the association's number read, which RadixIPsecLookup sets, unless KEY is given.
//!
//! **Drops:** `no-sa`; `too-short`; `bad-esp`, packets that are no whole blocks.
//!
//! # Differences from Click
//! * Packets of odd lengths are dropped. Click reads and writes behind them.
//! * Each packet has an initialisation vector of its own, with any arguments.
//! * Keys as bytes need quotation marks, so that no message or handler shows them.
//!
//! ```click
//! Idle -> IPsecESPEncap(1) -> IPsecAuthSHA1(0)
//!   -> IPsecDES(1, 0123456789abcdef) -> IPsecDES(0, 0123456789abcdef)
//!   -> IPsecAuthSHA1(1) -> IPsecESPUnencap(false) -> Discard;
//! ```
//!
//! See also: RadixIPsecLookup, IPsecAES. RFC 2405, RFC 2451, RFC 8221

use std::borrow::Cow;
use std::ops::Range;

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, HIDDEN, InitCx, Reason};
use esp::click::{DIGEST_LEN, DesKey, Direction};
use lang::config::unquote;
use packet::{Batch, Packet};

use super::association::Association;
use super::finder::Finder;
use super::ipsec_esp_encap::ESP_LEN;

/// The descriptor.
pub const CLASS: Class =
    Class::new("IPsecDES", "1/1", || Box::<IpsecDes>::default()).secrets(secrets).pure().file(file!());

/// Where the text begins.
const TEXT_AT: usize = ESP_LEN + DesKey::BLOCK_LEN;

struct IpsecDes {
    direction: Direction,
    /// Instead of the association's.
    key: Option<DesKey>,
    ignore: usize,
    /// Whether bytes at the end may fill no block.
    has_rest: bool,
    finder: Finder,
}

impl Default for IpsecDes {
    fn default() -> IpsecDes {
        IpsecDes {
            direction: Direction::Decrypt,
            key: None,
            ignore: DIGEST_LEN,
            has_rest: false,
            finder: Finder::default(),
        }
    }
}

/// What bytes that are no digits begin with.
const MARKS: [char; 3] = ['\\', '"', '\''];

/// A key, or an initialisation vector.
struct Key(DesKey);

impl FromArg for Key {
    const EXPECTED: &'static str = "16 or 48 hexadecimal digits, or 8 or 24 bytes in quotation marks";

    fn shown(_: &str) -> Cow<'_, str> {
        HIDDEN.into()
    }

    fn from_arg(text: &str, _: &Names) -> Result<Key, String> {
        let bytes = unquote(text);
        let digits: Option<Vec<u32>> = bytes.iter().map(|digit| (*digit as char).to_digit(16)).collect();
        let from_digits = |digits: Vec<u32>| {
            let pairs = digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8);
            DesKey::new(&pairs.collect::<Vec<u8>>()).filter(|_| digits.len().is_multiple_of(2))
        };
        let raw = text.trim_start().starts_with(MARKS).then(|| DesKey::new(&bytes)).flatten();
        raw.or_else(|| digits.and_then(from_digits)).map(Key).ok_or_else(String::new)
    }
}

/// The third argument: a key in front of which a vector was, or how much to ignore.
enum Third {
    Key(Box<Key>),
    Ignore(usize),
}

impl FromArg for Third {
    const EXPECTED: &'static str = "a number of bytes between 0 and 65535, or a key";

    fn shown(_: &str) -> Cow<'_, str> {
        HIDDEN.into()
    }

    fn from_arg(text: &str, names: &Names) -> Result<Third, String> {
        let key = Key::from_arg(text, names).map(|key| Third::Key(Box::new(key)));
        key.or_else(|_| {
            u16::from_arg(text, names).map(|bytes| Third::Ignore(bytes.into())).map_err(|_| String::new())
        })
    }
}

/// The keys in an argument, or in a message that shows some: what looks like one, and in this element's parentheses all that is not a short number.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let named = text.strip_prefix("KEY ").map(str::trim);
    let is_word = |text: &&str| text.starts_with(MARKS) && !text.contains(char::is_whitespace);
    let whole = named.or_else(|| Some(text.trim()).filter(is_word));
    let is_key = |word: &&str| word.len() >= 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_key).filter(|_| whole.is_none());
    let in_parentheses = text.match_indices("IPsecDES(").flat_map(|(at, name)| {
        let behind = &text[at + name.len()..];
        behind.split(')').next().unwrap_or_default().split([',', '\n']).map(str::trim)
    });
    let is_long = |word: &&str| word.len() > 5 || !word.bytes().all(|byte| byte.is_ascii_digit());
    let mut found: Vec<Range<usize>> = words
        .chain(in_parentheses.filter(is_long))
        .chain(whole)
        .map(|word| {
            let start = word.as_ptr().addr() - text.as_ptr().addr();
            start..start + word.len()
        })
        .collect();
    found.sort_by_key(|place| (place.start, std::cmp::Reverse(place.end)));
    // One may lie within the one before it.
    let mut end = 0;
    found.retain(|place| {
        place.start >= end && {
            end = place.end.max(end);
            true
        }
    });
    found
}

impl Element for IpsecDes {
    fn configure(&mut self, args: &mut Args<'_>) {
        let what: u8 = args.required_in("ENCRYPT", 0..=2);
        self.direction = if what == 0 { Direction::Decrypt } else { Direction::Encrypt };
        let key: Option<Key> = args.positional_opt("KEY");
        self.key = key.map(|key| key.0);
        match args.positional_opt("IGNORE") {
            Some(Third::Key(key)) => (self.key, self.ignore, self.has_rest) = (Some(key.0), 0, true),
            Some(Third::Ignore(bytes)) => self.ignore = bytes,
            None => {}
        }
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.finder.find(cx);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Batch {
        let IpsecDes { direction, key, ignore, has_rest, finder } = self;
        let work = |found: Option<&Association>, packet: &mut Packet| {
            let association = || found.map(|association| &association.des);
            let key = key.as_ref().or_else(association).ok_or(Reason::NoAssociation)?;
            let behind = packet.len().checked_sub(TEXT_AT + *ignore).filter(|len| *len > 0);
            let len = behind.ok_or(Reason::TooShort)?;
            if !len.is_multiple_of(DesKey::BLOCK_LEN) && !*has_rest {
                return Err(Reason::BadEsp);
            }
            let (before, text) = packet.data_mut().split_at_mut(TEXT_AT);
            let iv = before.last_chunk().ok_or(Reason::TooShort)?;
            key.run(*direction, iv, &mut text[..len]);
            Ok(())
        };
        finder.each(cx, batch, key.is_none(), work, |cx, why, packet| cx.drop(why, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    const KEY: &str = "0123456789abcdef";

    #[test]
    fn published_blocks() {
        // FIPS 81, table C1, behind SPI, number and initialisation vector.
        let head = [0, 0, 0, 1, 0, 0, 0, 1, 0x12, 0x34, 0x56, 0x78, 0x90, 0xab, 0xcd, 0xef];
        let clear = [&head[..], b"Now is the time for all "].concat();
        for burst in [1, 32] {
            let run =
                Rig::new(&format!("IPsecDES(1, {KEY}, 0)")).burst(burst).inputs(&[&clear, &clear]).run();
            let out = run.bytes("o0");
            assert_eq!(out[0][..24], [&head[..], &[0xe5, 0xc7, 0xcd, 0xde, 0x87, 0x2b, 0xf2, 0x7c]].concat());
            assert_eq!(out[0], out[1]);
            // Three times the same key is single DES.
            let triple = KEY.repeat(3);
            for arguments in [format!("0, KEY {triple}, IGNORE 0"), format!("0, FFFFFFFFFFFFFFFF, {KEY}")] {
                let run = Rig::new(&format!("IPsecDES({arguments})")).burst(burst).inputs(&[&out[0]]).run();
                assert_eq!(run.bytes("o0"), [&clear[..]], "{arguments}");
            }
        }
    }

    #[test]
    fn each_fault_has_its_reason() {
        let check = |arguments: &str, len: usize, want: Reason| {
            let run = Rig::new(&format!("IPsecDES({arguments})")).inputs(&[&vec![7; len]]).run();
            assert_eq!((run.bytes("o0"), run.drops("e")), (vec![], vec![(want, 1)]), "{arguments} {len}");
        };
        check(&format!("1, {KEY}"), 28, Reason::TooShort);
        check(&format!("1, {KEY}"), 35, Reason::BadEsp);
        check(&format!("2, {KEY}, 65535"), 60, Reason::TooShort);
        check("0", 60, Reason::NoAssociation);
        let run = Rig::new(&format!("IPsecDES(2, {KEY}, {KEY})")).inputs(&[&[7; 27]]).run();
        assert_eq!(run.bytes("o0")[0][24..], [7; 3], "a rest that fills no block");
    }

    #[test]
    fn keys_are_hidden() {
        assert_eq!(
            Rig::new("IPsecDES(3, 0123456789abcde, secret)").errors(),
            [
                "e: ENCRYPT must lie between 0 and 2, not 3",
                "e: argument KEY should be 16 or 48 hexadecimal digits, or 8 or 24 bytes in quotation marks, not '***'",
                "e: argument IGNORE should be a number of bytes between 0 and 65535, or a key, not '***'",
            ]
        );
        let shown = |text: &str| secrets(text).into_iter().map(|at| text[at].to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(KEY), [KEY]);
        assert_eq!(shown("KEY  abc"), ["abc"]);
        assert_eq!(shown("\\<0123456789abcdef>"), ["\\<0123456789abcdef>"]);
        assert!(
            shown("1").is_empty()
                && shown("IGNORE 12").is_empty()
                && shown("a message of some words").is_empty()
        );
        assert_eq!(shown("5 | -> IPsecDES(1, zyxwvuts, 7) -> IPsecDES"), ["zyxwvuts"]);
        assert_eq!(shown("IPsecDES(\n6 |  hush,\n"), ["6 |  hush"]);
        assert_eq!(shown("IPsecDES(1, hush1234) -> IPsecDES(0, 0123456789abcdef)"), ["hush1234", KEY]);
        assert_eq!(shown("not '0123456789abcdef' (it"), [KEY]);
        let why = Rig::new(&format!("IPsecDES({KEY}, 1, {KEY}, {KEY})")).errors().join(" ");
        assert!(why.contains("ENCRYPT should be a whole number, not '***'") && !why.contains(KEY), "{why}");
        // Bytes without marks could not be distinguished from words.
        assert_eq!(Rig::new("IPsecDES(1, zyxwvuts)").errors().len(), 1);
        Rig::new("IPsecDES(1, \"zyxwvuts\")").run();
        let mut run = Rig::new(&format!("IPsecDES(1, KEY {KEY})")).run();
        assert_eq!(run.read("e.config"), "1, KEY ***");
    }
}
