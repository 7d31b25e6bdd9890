// SPDX-License-Identifier: MIT OR Apache-2.0
//! IP and TCP options as text: `rr{10.0.0.1}+3;ts{1,2}` and `mss1460;wscale7`.
//!
//! Padding is read but not written. A field with an option that cannot be is `?`, one without options `.`.

use std::fmt::Write as _;

/// Bytes that the options of a header may have.
const MOST: usize = 40;

const RR: u8 = 7;
const TS: u8 = 68;
const LSRR: u8 = 131;
const SSRR: u8 = 137;

/// Which TCP options a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpSet {
    /// All.
    All,
    /// All but timestamps.
    NoTimestamp,
    /// Selective acknowledgements alone.
    Sack,
}

impl TcpSet {
    fn holds(self, kind: u8) -> bool {
        match self {
            TcpSet::All => true,
            TcpSet::NoTimestamp => kind > 1 && kind != 8,
            TcpSet::Sack => matches!(kind, 4 | 5),
        }
    }
}

/// The options of a header one by one: kind and all bytes, padding left out; `Err` for one that cannot be.
fn each(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], ()>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        while let [1, more @ ..] = rest {
            rest = more;
        }
        let kind = *rest.first()?;
        if kind == 0 {
            return None;
        }
        let len = usize::from(rest.get(1).copied().unwrap_or(0));
        if len < 2 || len > rest.len() {
            rest = &[];
            return Some(Err(()));
        }
        let (option, more) = rest.split_at(len);
        rest = more;
        Some(Ok(option))
    })
}

fn write_all(out: &mut String, bytes: &[u8], mut one: impl FnMut(&mut String, &[u8]) -> Option<()>) {
    let start = out.len();
    for option in each(bytes) {
        let before = out.len();
        if before > start {
            out.push(';');
        }
        let length = out.len();
        if option.ok().and_then(|o| one(out, o)).is_none() {
            out.truncate(start);
            out.push('?');
            return;
        }
        if out.len() == length {
            // Not one of those that were asked for.
            out.truncate(before);
        }
    }
    if out.len() == start {
        out.push('.');
    }
}

fn unknown(out: &mut String, option: &[u8]) {
    let _ = write!(out, "{}", option[0]);
    for (i, byte) in option[2..].iter().enumerate() {
        let _ = write!(out, "{}{byte}", if i == 0 { '=' } else { ':' });
    }
}

fn push_address(out: &mut String, address: &[u8]) {
    for (i, byte) in address.iter().enumerate() {
        let _ = write!(out, "{}{byte}", if i == 0 { "" } else { "." });
    }
}

/// Writes the options of an IP header.
pub fn write_ip(out: &mut String, bytes: &[u8]) {
    write_all(out, bytes, |out, option| {
        match option[0] {
            RR | LSRR | SSRR if option.len() < 3 || option[2] < 4 => return None,
            RR | LSRR | SSRR => write_route(out, option),
            TS if option.len() < 4 || option[2] < 5 => return None,
            TS => write_timestamps(out, option),
            _ => unknown(out, option),
        }
        Some(())
    });
}

fn write_route(out: &mut String, option: &[u8]) {
    let record = option[0] == RR;
    out.push_str(match option[0] {
        RR => "rr{",
        LSRR => "lsrr{",
        _ => "ssrr{",
    });
    let pointer = usize::from(option[2]) - 1;
    let (mut at, mut separator) = (3, "");
    while at + 4 <= option.len() {
        if at == pointer {
            if record {
                break;
            }
            separator = "^";
        }
        out.push_str(separator);
        push_address(out, &option[at..at + 4]);
        separator = ",";
        at += 4;
    }
    if at == option.len() && at == pointer && !record {
        out.push('^');
    }
    out.push('}');
    if record && at + 4 <= option.len() && at == pointer {
        let _ = write!(out, "+{}", (option.len() - at) / 4);
    }
}

fn write_timestamps(out: &mut String, option: &[u8]) {
    let flag = option[3] & 15;
    let size = if (1..=3).contains(&flag) { 8 } else { 4 };
    let _ = match flag {
        0 => write!(out, "ts{{"),
        1 => write!(out, "ts.ip{{"),
        3 => write!(out, "ts.preip{{"),
        _ => write!(out, "ts.{flag}{{"),
    };
    let pointer = usize::from(option[2]) - 1;
    let (mut at, mut separator) = (4, "");
    while at + size <= option.len() {
        if at == pointer {
            if flag != 3 {
                break;
            }
            separator = "^";
        }
        out.push_str(separator);
        separator = ",";
        let filled = flag != 3 || at < pointer;
        if size == 8 {
            push_address(out, &option[at..at + 4]);
            if filled {
                out.push('=');
            }
        }
        if filled {
            let value = &option[at + size - 4..at + size];
            let value = value.iter().fold(0u32, |v, b| v << 8 | u32::from(*b));
            let mark = if value >> 31 == 1 { "!" } else { "" };
            let _ = write!(out, "{mark}{}", value & 0x7fff_ffff);
        }
        at += size;
    }
    if at == option.len() && at == pointer {
        out.push('^');
    }
    out.push('}');
    if at + size <= option.len() && at == pointer {
        let _ = write!(out, "+{}", (option.len() - at) / size);
    }
    if option[3] >> 4 > 0 {
        let _ = write!(out, "++{}", option[3] >> 4);
    }
}

/// Writes those options of a TCP header that are in `set`.
pub fn write_tcp(out: &mut String, bytes: &[u8], set: TcpSet) {
    let word = |o: &[u8], at: usize| o[at..at + 4].iter().fold(0u32, |v, b| v << 8 | u32::from(*b));
    write_all(out, bytes, |out, option| {
        let right = match option[0] {
            2 => option.len() == 4,
            3 => option.len() == 3,
            4 => option.len() == 2,
            5 => option.len() % 8 == 2,
            8 => option.len() == 10,
            _ => true,
        };
        if !right {
            return None;
        }
        if !set.holds(option[0]) {
            return Some(());
        }
        let _ = match option[0] {
            2 => write!(out, "mss{}", u16::from_be_bytes([option[2], option[3]])),
            3 => write!(out, "wscale{}", option[2]),
            4 => write!(out, "sackok"),
            5 => {
                for (i, block) in option[2..].chunks(8).enumerate() {
                    let separator = if i == 0 { "" } else { ";" };
                    let _ = write!(out, "{separator}sack{}-{}", word(block, 0), word(block, 4));
                }
                Ok(())
            }
            8 => write!(out, "ts{}:{}", word(option, 2), word(option, 6)),
            _ => {
                unknown(out, option);
                Ok(())
            }
        };
        Some(())
    });
}

/// Appends those options of a TCP header that are in `set`, as they stand; for [`TcpSet::All`] with the padding.
pub fn copy_tcp(out: &mut Vec<u8>, bytes: &[u8], set: TcpSet) {
    if set == TcpSet::All {
        out.extend_from_slice(bytes);
        return;
    }
    for option in each(bytes).map_while(Result::ok).filter(|o| set.holds(o[0])) {
        out.extend_from_slice(option);
    }
}

/// What is left of a text.
#[derive(Clone, Copy)]
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn peek(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn digit(&self, at: usize) -> bool {
        self.peek(at).is_ascii_digit()
    }

    fn eat(&mut self, what: &str) -> bool {
        match self.0.strip_prefix(what.as_bytes()) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// A number without sign: decimal, or hexadecimal after `0x`.
    fn number(&mut self) -> Option<u32> {
        let hex = self.peek(0) == b'0' && matches!(self.peek(1), b'x' | b'X');
        let (skip, radix) = if hex { (2, 16) } else { (0, 10) };
        let digits = self.0[skip..].iter().take_while(|b| char::from(**b).is_digit(radix)).count();
        let text = std::str::from_utf8(&self.0[skip..skip + digits]).ok()?;
        let value = u32::from_str_radix(text, radix).ok()?;
        self.0 = &self.0[skip + digits..];
        Some(value)
    }

    fn byte(&mut self) -> Option<u8> {
        u8::try_from(self.number()?).ok()
    }

    fn address(&mut self, out: &mut Vec<u8>) -> Option<()> {
        for i in 0..4 {
            if i > 0 && !self.eat(".") {
                return None;
            }
            out.push(self.byte()?);
        }
        Some(())
    }
}

/// Reads options that `one` knows, separated by `;` or `,`; `.` and nothing mean none.
fn read_all(text: &str, mut one: impl FnMut(&mut Cursor<'_>, &mut Vec<u8>) -> Option<()>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    if text.is_empty() || text == "." {
        return Some(out);
    }
    let mut s = Cursor(text.as_bytes());
    loop {
        one(&mut s, &mut out)?;
        if s.0.is_empty() {
            break;
        }
        if !s.eat(";") && !s.eat(",") {
            return None;
        }
    }
    // Alignment by no-operations at the front may give way.
    while out.len() > MOST && out[0] == 1 {
        out.remove(0);
    }
    (out.len() <= MOST).then_some(out)
}

fn read_unknown(s: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    if !s.digit(0) {
        return None;
    }
    out.push(s.byte()?);
    let start = out.len();
    if s.peek(0) != b'=' || !s.digit(1) {
        return Some(());
    }
    out.push(0);
    s.eat("=");
    out.push(s.byte()?);
    while s.peek(0) == b':' && s.digit(1) {
        s.eat(":");
        out.push(s.byte()?);
    }
    out[start] = u8::try_from(out.len() - start + 1).ok()?;
    Some(())
}

fn read_padding(s: &mut Cursor<'_>, out: &mut Vec<u8>) -> bool {
    if s.eat("nop") {
        out.push(1);
        return true;
    }
    if s.0.starts_with(b"eol") && s.peek(3) != b',' {
        out.push(0);
        return s.eat("eol");
    }
    false
}

/// Reads the options of an IP header.
pub fn read_ip(text: &str) -> Option<Vec<u8>> {
    read_all(text, |s, out| {
        for (name, kind) in [("rr{", RR), ("ssrr{", SSRR), ("lsrr{", LSRR)] {
            if s.eat(name) {
                return read_route(s, out, kind);
            }
        }
        if s.0.starts_with(b"ts{") || s.0.starts_with(b"ts.") {
            return read_timestamps(s, out);
        }
        if read_padding(s, out) { Some(()) } else { read_unknown(s, out) }
    })
}

fn read_route(s: &mut Cursor<'_>, out: &mut Vec<u8>, kind: u8) -> Option<()> {
    let start = out.len();
    out.extend([kind, 0, 0]);
    let mut pointer = None;
    loop {
        if pointer.is_none() && s.eat("^") {
            pointer = Some(out.len() - start + 1);
        }
        if !s.digit(0) {
            break;
        }
        s.address(out)?;
        s.eat(",");
    }
    if !s.eat("}") {
        return None;
    }
    out[start + 2] = u8::try_from(pointer.unwrap_or(out.len() - start + 1)).ok()?;
    room(s, out, 4);
    out[start + 1] = u8::try_from(out.len() - start).ok()?;
    Some(())
}

/// Room for so many more entries: `+3`.
fn room(s: &mut Cursor<'_>, out: &mut Vec<u8>, size: usize) {
    if s.peek(0) == b'+' && s.digit(1) {
        s.eat("+");
        let entries = s.number().filter(|n| *n < 64).unwrap_or(0) as usize;
        out.resize(out.len() + entries * size, 0);
    }
}

fn read_timestamps(s: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend([TS, 0, 0, 0]);
    // What the option's name says, or else its first entry.
    let mut flag = if s.eat("ts.ip{") {
        Some(1)
    } else if s.eat("ts.preip{") {
        Some(3)
    } else if s.eat("ts.") {
        let flag = s.byte().filter(|f| *f <= 15)?;
        if !s.eat("{") {
            return None;
        }
        Some(flag)
    } else {
        s.eat("ts{");
        None
    };
    let mut guessed = false;
    let mut pointer = None;
    loop {
        if pointer.is_none() && s.eat("^") {
            pointer = Some(out.len() - start + 1);
        }
        if !s.digit(0) && s.peek(0) != b'!' {
            break;
        }
        if flag.is_none() {
            let mut ahead = *s;
            ahead.eat("!");
            ahead.number()?;
            (flag, guessed) = (Some(u8::from(ahead.peek(0) == b'.')), true);
        }
        if guessed && flag == Some(1) && pointer.is_some() {
            flag = Some(3);
        }
        read_entry(s, out, matches!(flag, Some(1 | 3)), pointer.is_some())?;
        s.eat(",");
    }
    if !s.eat("}") {
        return None;
    }
    let flag = flag.unwrap_or(0);
    out[start + 2] = u8::try_from(pointer.unwrap_or(out.len() - start + 1)).ok()?;
    room(s, out, if matches!(flag, 1 | 3) { 8 } else { 4 });
    let mut overflow = 0;
    if s.0.starts_with(b"++") && s.digit(2) {
        s.eat("++");
        overflow = s.number().filter(|n| *n < 16).unwrap_or(0) as u8;
    }
    out[start + 3] = overflow << 4 | flag;
    out[start + 1] = u8::try_from(out.len() - start).ok()?;
    Some(())
}

/// One entry of a timestamp option: `ADDRESS=VALUE`, or `VALUE` alone.
fn read_entry(s: &mut Cursor<'_>, out: &mut Vec<u8>, addressed: bool, open: bool) -> Option<()> {
    if addressed {
        s.address(out)?;
        if s.eat("=?") || s.peek(0) != b'=' {
            // Only entries from the pointer on may lack their time.
            out.extend([0; 4]);
            return open.then_some(());
        }
        s.eat("=");
    }
    let mark = if s.eat("!") { 1 << 31 } else { 0 };
    out.extend((s.number()? | mark).to_be_bytes());
    Some(())
}

/// Reads those options of a TCP header that may be in `set`.
pub fn read_tcp(text: &str, set: TcpSet) -> Option<Vec<u8>> {
    read_all(text, |s, out| {
        if set.holds(2) && s.eat("mss") {
            out.extend([2, 4]);
            out.extend(u16::try_from(s.number()?).ok()?.to_be_bytes());
        } else if set.holds(3) && s.eat("wscale") {
            out.extend([3, 3, s.byte()?]);
        } else if set.holds(4) && s.eat("sackok") {
            out.extend([4, 2]);
        } else if set.holds(5) && s.eat("sack") {
            read_sack(s, out)?;
        } else if set.holds(8) && s.eat("ts") {
            if out.is_empty() {
                out.extend([1, 1]);
            }
            out.extend([8, 10]);
            out.extend(s.number()?.to_be_bytes());
            if !s.eat(":") {
                return None;
            }
            out.extend(s.number()?.to_be_bytes());
        } else if !(set.holds(1) && read_padding(s, out)) {
            if !set.holds(255) {
                return None;
            }
            read_unknown(s, out)?;
        }
        Some(())
    })
}

/// Blocks of a selective acknowledgement; those joined by commas are one option.
fn read_sack(s: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend([5, 0]);
    loop {
        out.extend(s.number()?.to_be_bytes());
        if !s.eat(":") && !s.eat("-") {
            return None;
        }
        out.extend(s.number()?.to_be_bytes());
        if !s.0.starts_with(b",sack") || !s.digit(5) {
            break;
        }
        s.eat(",sack");
    }
    out[start + 1] = u8::try_from(out.len() - start).ok()?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ip_options_read_and_written() {
        for (text, want) in [
            (".", "."),
            ("nop;nop;eol", "."),
            ("ssrr{1.1.1.1,2.2.2.2^3.3.3.3,4.4.4.4}", "ssrr{1.1.1.1,2.2.2.2^3.3.3.3,4.4.4.4}"),
            ("lsrr{1.1.1.1,^3.3.3.3}", "lsrr{1.1.1.1^3.3.3.3}"),
            ("ssrr{1.2.3.4^}", "ssrr{1.2.3.4^}"),
            ("rr{2.3.4.5}+3", "rr{2.3.4.5}+3"),
            ("rr{}+1", "rr{}+1"),
            ("ts{1.0.0.1=!8320,1.0.0.2=8321}++5", "ts.ip{1.0.0.1=!8320,1.0.0.2=8321^}++5"),
            ("ts.3{1.0.0.1=1,^1.0.0.3,1.0.0.4=?}+1", "ts.preip{1.0.0.1=1^1.0.0.3,1.0.0.4,0.0.0.0}"),
            ("ts{1.0.0.1=1^1.0.0.3}", "ts.preip{1.0.0.1=1^1.0.0.3}"),
            ("ts{1,10000,!45}+2", "ts{1,10000,!45}+2"),
            ("ts{1,10000,!45^0,0};rr{}+1", "ts{1,10000,!45}+2;rr{}+1"),
            ("99=0:5:10", "99=0:5:10"),
        ] {
            let bytes = read_ip(text).unwrap_or_else(|| panic!("{text}"));
            let mut out = String::new();
            write_ip(&mut out, &bytes);
            assert_eq!(out, want, "{text}: {bytes:?}");
        }
        for text in ["rr{1.2.3}", "rr{1.2.3.4", "ts{}x", "what", "256", "rr{}+12"] {
            assert_eq!(read_ip(text), None, "{text}");
        }
    }

    #[test]
    fn tcp_options_read_and_written() {
        for (text, set, want) in [
            ("mss1400;wscale10;sackok", TcpSet::All, "mss1400;wscale10;sackok"),
            ("sack95-98,sack100-101;nop", TcpSet::All, "sack95-98;sack100-101"),
            ("ts669063908:38382731", TcpSet::All, "ts669063908:38382731"),
            ("99=1:2", TcpSet::NoTimestamp, "99=1:2"),
            (".", TcpSet::All, "."),
        ] {
            let bytes = read_tcp(text, set).unwrap_or_else(|| panic!("{text}"));
            let mut out = String::new();
            write_tcp(&mut out, &bytes, set);
            assert_eq!(out, want, "{text}: {bytes:?}");
        }
        let all = read_tcp("mss5;ts1:2;sackok", TcpSet::All).unwrap();
        for (set, want) in [(TcpSet::NoTimestamp, "mss5;sackok"), (TcpSet::Sack, "sackok")] {
            let mut out = String::new();
            write_tcp(&mut out, &all, set);
            assert_eq!(out, want);
        }
        for (text, set) in [("mss65536", TcpSet::All), ("mss1", TcpSet::Sack), ("ts1", TcpSet::All)] {
            assert_eq!(read_tcp(text, set), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_written_and_any_text_read(bytes: Vec<u8>, text in "[a-z0-9.{};,^=!+:-]{0,30}") {
            let mut out = String::new();
            write_ip(&mut out, &bytes);
            write_tcp(&mut out, &bytes, TcpSet::All);
            copy_tcp(&mut Vec::new(), &bytes, TcpSet::Sack);
            let _ = (read_ip(&text), read_tcp(&text, TcpSet::All));
        }
    }
}
