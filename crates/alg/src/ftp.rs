// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses and ports in the text of FTP control connections (RFC 959, RFC 2428).
//!
//! A client says where it waits for data (`PORT`, `EPRT`), or a server answers where it does (227, 229). Each stands in one line.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

/// Who sends a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// It sends commands.
    Client,
    /// It sends answers.
    Server,
}

/// How an address and a port are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Six numbers: `PORT 10,0,0,7,3,9`.
    Port,
    /// Fields between two of this byte each: `EPRT |1|10.0.0.7|777|`.
    Eprt(u8),
    /// Six numbers: `227 Entering Passive Mode (10,0,0,7,3,9)`.
    Pasv,
    /// A port alone: `229 Entering Extended Passive Mode (|||777|)`.
    Epsv,
}

/// An address and a port in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// How they are written.
    pub form: Form,
    /// Where their line begins.
    pub line: usize,
    /// What another address and port would stand in place of.
    pub argument: Range<usize>,
    /// The address; none where a port stands alone.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
}

/// How much longer an argument can become: from `|2|::|1|` to fields of IPv4 with all their digits.
pub const MOST_GROWTH: usize = 17;

/// Where servers wait.
pub const SERVER: u16 = 21;

const PORT: &[u8] = b"PORT ";
const EPRT: &[u8] = b"EPRT ";
const PASV: &[u8] = b"227 ";
const EPSV: &[u8] = b"229 ";

impl Speaker {
    /// How lines begin that have an address or a port.
    fn verbs(self) -> [&'static [u8]; 2] {
        match self {
            Speaker::Client => [PORT, EPRT],
            Speaker::Server => [PASV, EPSV],
        }
    }
}

impl Form {
    /// An argument in this form.
    pub fn text(self, address: Ipv4Addr, port: u16) -> Vec<u8> {
        match self {
            Form::Port | Form::Pasv => {
                let ([a, b, c, d], [high, low]) = (address.octets(), port.to_be_bytes());
                format!("{a},{b},{c},{d},{high},{low}").into_bytes()
            }
            Form::Eprt(byte) => {
                let mark = char::from(byte);
                format!("{mark}1{mark}{address}{mark}{port}{mark}").into_bytes()
            }
            Form::Epsv => port.to_string().into_bytes(),
        }
    }
}

/// A number of up to 255 in up to three digits at the start of `text`, and how many.
fn number(text: &[u8]) -> Option<(u8, usize)> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let value = text[..digits].iter().try_fold(0u8, |n, b| n.checked_mul(10)?.checked_add(b - b'0'))?;
    (1..=3).contains(&digits).then_some((value, digits))
}

/// Six numbers at the start of `text`: address, port, and their length.
fn six_numbers(text: &[u8]) -> Option<(Ipv4Addr, u16, usize)> {
    let (mut numbers, mut at) = ([0; 6], 0);
    for (n, value) in numbers.iter_mut().enumerate() {
        at += usize::from(n > 0 && text.get(at) == Some(&b','));
        let (number, digits) = number(text.get(at..)?)?;
        (*value, at) = (number, at + digits);
    }
    let [a, b, c, d, high, low] = numbers;
    Some((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]), at))
}

/// Family, address and port at the start of `text`, as EPRT has them (RFC 2428, 2), and their length.
fn three_fields(text: &[u8]) -> Option<(u8, IpAddr, u16, usize)> {
    let mark = *text.first().filter(|b| (33..=126).contains(*b) && !b.is_ascii_digit())?;
    let mut fields = text[1..].split(|b| *b == mark).take(4);
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let (family, address, port) = (field()?, field()?, field()?);
    let length = 4 + family.len() + address.len() + port.len();
    let (parsed, port) = (address.parse::<IpAddr>().ok()?, decimal_port(port.as_bytes())?);
    let is_of_family = family == if parsed.is_ipv4() { "1" } else { "2" };
    (is_of_family && text.get(length - 1) == Some(&mark)).then_some((mark, parsed, port, length))
}

/// A port in digits.
fn decimal_port(text: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok().filter(|port| *port > 0)
}

/// The first six numbers with commas between them in an answer, and where they stand. Not all servers write parentheses (RFC 1123, 4.1.2.6).
fn six_numbers_within(text: &[u8]) -> Option<(Ipv4Addr, u16, Range<usize>)> {
    let goes_on = |b: &u8| b.is_ascii_digit() || *b == b',';
    let begins = |at: usize| text[at].is_ascii_digit() && (at == 0 || !goes_on(&text[at - 1]));
    (0..text.len()).filter(|at| begins(*at)).find_map(|at| {
        let (address, port, length) = six_numbers(&text[at..])?;
        let numbers = at..at + length;
        let commas = text[numbers.clone()].iter().filter(|b| **b == b',').count();
        (commas == 5 && !text.get(numbers.end).is_some_and(goes_on)).then_some((address, port, numbers))
    })
}

/// The port of an answer as 229 has it, behind three equal marks, and where it stands.
fn port_within(text: &[u8]) -> Option<(u16, Range<usize>)> {
    let marks = text.iter().position(|b| *b == b'(')? + 1;
    let mark = *text.get(marks).filter(|b| (33..=126).contains(*b) && !b.is_ascii_digit())?;
    if text.get(marks..marks + 3)? != [mark; 3] {
        return None;
    }
    let first = marks + 3;
    let digits = text[first..].iter().take_while(|b| b.is_ascii_digit()).count();
    let argument = first..first + digits;
    let port = decimal_port(&text[argument.clone()])?;
    text[argument.end..].starts_with(&[mark, b')']).then_some((port, argument))
}

/// The address and port in the whole line that begins at `line`.
fn command(payload: &[u8], line: usize, speaker: Speaker) -> Option<Command> {
    let rest = payload.get(line..)?;
    let [first, second] = speaker.verbs();
    let verb = rest.get(..first.len())?;
    let is_first = verb.eq_ignore_ascii_case(first);
    if !is_first && !verb.eq_ignore_ascii_case(second) {
        return None;
    }
    let spaces = rest[verb.len()..].iter().take_while(|b| **b == b' ').count();
    let begin = line + verb.len() + spaces;
    let text = &payload[begin..];
    let moved = |within: Range<usize>| begin + within.start..begin + within.end;
    let (form, address, port, argument) = match (speaker, is_first) {
        (Speaker::Client, true) => {
            let (address, port, length) = six_numbers(text)?;
            (Form::Port, Some(address.into()), port, moved(0..length))
        }
        (Speaker::Client, false) => {
            let (mark, address, port, length) = three_fields(text)?;
            (Form::Eprt(mark), Some(address), port, moved(0..length))
        }
        (Speaker::Server, is_first) => {
            // Of an answer the whole line must be there.
            let text = &text[..text.iter().position(|b| *b == b'\n')?];
            if is_first {
                let (address, port, within) = six_numbers_within(text)?;
                (Form::Pasv, Some(address.into()), port, moved(within))
            } else {
                let (port, within) = port_within(text)?;
                (Form::Epsv, None, port, moved(within))
            }
        }
    };
    let ends = speaker == Speaker::Server || matches!(payload.get(argument.end), Some(b'\r' | b'\n'));
    ends.then_some(Command { form, line, argument, address, port })
}

/// Whether a line of a client asks the server to wait for a data connection: `PASV`, or `EPSV` with or without a family.
pub fn asks_to_wait(line: &[u8]) -> bool {
    let Some((verb, rest)) = line.split_at_checked(4) else { return false };
    let is_asked = verb.eq_ignore_ascii_case(b"PASV") || verb.eq_ignore_ascii_case(b"EPSV");
    is_asked && rest.first().is_none_or(|next| matches!(next, b' ' | b'\r' | b'\n'))
}

/// The addresses and ports in a payload, and whether it ends within a line with one, or what may become such a line.
pub fn commands(payload: &[u8], speaker: Speaker) -> (Vec<Command>, bool) {
    let (mut found, mut line) = (Vec::new(), 0);
    loop {
        let rest = &payload[line..];
        let whole = command(payload, line, speaker);
        let next = rest.iter().position(|b| *b == b'\n');
        if next.is_none() && whole.is_none() {
            let begins = |verb: &&[u8]| {
                let n = rest.len().min(verb.len());
                rest[..n].eq_ignore_ascii_case(&verb[..n])
            };
            return (found, !rest.is_empty() && speaker.verbs().iter().any(begins));
        }
        found.extend(whole);
        match next {
            Some(end) => line += end + 1,
            None => return (found, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(speaker: Speaker, payload: &str, want: &[(usize, &str, &str, u16)], split: bool) {
        let (found, ends_within) = commands(payload.as_bytes(), speaker);
        let shown = |c: &Command| c.address.map_or_else(|| "-".to_owned(), |address| address.to_string());
        let found: Vec<_> =
            found.iter().map(|c| (c.line, &payload[c.argument.clone()], shown(c), c.port)).collect();
        let want: Vec<_> = want.iter().map(|(l, text, a, p)| (*l, *text, (*a).to_owned(), *p)).collect();
        assert_eq!((found, ends_within), (want, split), "{payload:?}");
    }

    #[test]
    fn clients_say_where_they_wait() {
        let client = |payload: &str, want: &[_], split| check(Speaker::Client, payload, want, split);
        let one = "1.2.3.4";
        client("PORT 1,2,3,4,5,6\r\n", &[(0, "1,2,3,4,5,6", one, 0x506)], false);
        client("port   001,2,3,4,5,255\nx", &[(0, "001,2,3,4,5,255", one, 0x5ff)], false);
        client("NOOP\r\nPoRt 1,2,3,4,5,6\r", &[(6, "1,2,3,4,5,6", one, 0x506)], false);
        client("PORT 1,2,3,4,5,6", &[], true);
        client("NOOP\nPORT 1,2,3,4", &[], true);
        client("EPRT |1|1.2.3.4|5|\r\n", &[(0, "|1|1.2.3.4|5|", one, 5)], false);
        client("eprt   !1!1.2.3.4!65535!\nx", &[(0, "!1!1.2.3.4!65535!", one, 65535)], false);
        client("EPRT |2|2001:db8::7|5|\r\n", &[(0, "|2|2001:db8::7|5|", "2001:db8::7", 5)], false);
        for (payload, split) in [
            ("NOOP\nEPRT |1|1.2.3", true),
            ("EP", true),
            ("NOOP\nPO", true),
            ("NOOP\nPASV", false),
            ("", false),
        ] {
            client(payload, &[], split);
        }
        for bad in [
            "PORT 1,2,3,4,5,256",
            "PORT 1,2,3,4,5",
            "PORT 1,2,3,4,5,6,7",
            "PORT 1,2,,4,5,6",
            "PORT\t1,2,3,4,5,6",
            "SPORT 1,2,3,4,5,6",
            "PORT 1,2,3,4,5,6 ",
            "PORT 1,2,3,4,5,0006",
            "EPRT |1|1.2.3.4|0|",
            "EPRT |1|1.2.3.4|65536|",
            "EPRT |1|1.2.3.4|+5|",
            "EPRT |2|1.2.3.4|5|",
            "EPRT |1|2001:db8::7|5|",
            "EPRT |1|1.2.3|5|",
            "EPRT |1|1.2.3.4|5",
            "EPRT |1|1.2.3.4!5|",
            "EPRT 111.2.3.4151",
            "EPRT",
            "227 Entering Passive Mode (1,2,3,4,5,6)",
        ] {
            client(&format!("{bad}\r\n"), &[], false);
        }
    }

    #[test]
    fn clients_ask_servers_to_wait() {
        for (line, asks) in [
            ("PASV\r\n", true),
            ("epsv\n", true),
            ("EPSV 2\r\n", true),
            ("EPSV ALL\r\n", true),
            ("PASVX\r\n", false),
            ("PAS", false),
            ("NOOP\r\n", false),
        ] {
            assert_eq!(asks_to_wait(line.as_bytes()), asks, "{line}");
        }
    }

    #[test]
    fn servers_answer_where_they_wait() {
        let server = |payload: &str, want: &[_], split| check(Speaker::Server, payload, want, split);
        let one = "1.2.3.4";
        let numbers = "1,2,3,4,5,6";
        server("227 Entering Passive Mode (1,2,3,4,5,6).\r\n", &[(0, numbers, one, 0x506)], false);
        server("227 Entering Passive Mode. 1,2,3,4,5,6\r\n", &[(0, numbers, one, 0x506)], false);
        server("227 =1,2,3,4,5,6\r\n", &[(0, numbers, one, 0x506)], false);
        server("227 in 10 s (1,2,3,4,5,6)\r\n", &[(0, numbers, one, 0x506)], false);
        server("200 ok\r\n227 (1,2,3,4,5,6)\r\n", &[(8, numbers, one, 0x506)], false);
        server("229 Entering Extended Passive Mode (|||6446|)\r\n", &[(0, "6446", "-", 6446)], false);
        server("229 ok (!!!7!)\r\n", &[(0, "7", "-", 7)], false);
        server("227 Entering Passive Mode (1,2,3,4,5,6)", &[], true);
        server("229 Entering", &[], true);
        server("22", &[], true);
        for bad in [
            "227 (1,2,3,4,5)",
            "227 (1,2,3,4,5,6,7)",
            "227 (1,2,3,4,5,256)",
            "227-(1,2,3,4,5,6)",
            "229 (|||0|)",
            "229 (|||65536|)",
            "229 (||1.2.3.4|6446|)",
            "229 (|||6446)",
            "229 |||6446|",
            "229 (11164461)",
            "PORT 1,2,3,4,5,6",
        ] {
            server(&format!("{bad}\r\n"), &[], false);
        }
    }

    proptest! {
        #[test]
        fn any_text_has_sound_places(text in "(PORT |EPRT |227 |229 |[0-9,|.():\r\n ]){0,40}", of_server in any::<bool>()) {
            let speaker = if of_server { Speaker::Server } else { Speaker::Client };
            let (found, _) = commands(text.as_bytes(), speaker);
            for one in found {
                let argument = &text[one.argument.clone()];
                prop_assert!(!argument.is_empty() && one.line <= one.argument.start, "{:?}", one);
                // What is written in the same form is found again, and is no longer than may be.
                let IpAddr::V4(four) = one.address.unwrap_or(Ipv4Addr::new(255, 255, 255, 255).into()) else { continue };
                let new = String::from_utf8(one.form.text(four, one.port)).unwrap();
                prop_assert!(new.len() <= argument.len() + MOST_GROWTH);
                let rewritten = format!("{}{new}{}", &text[..one.argument.start], &text[one.argument.end..]);
                let again = commands(rewritten.as_bytes(), speaker).0;
                let is_same = |c: &Command| (c.line, c.port, c.address) == (one.line, one.port, one.address);
                prop_assert!(again.iter().any(is_same), "{:?} in {:?}", again, rewritten);
            }
        }
    }
}
