// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filter language of IPFilter and IPClassifier, which looks like tcpdump's.
//!
//! ```text
//! expr   = or [ "?" expr ":" expr ]
//! or     = term { ("or" | "||") term }
//! term   = factor { ["and" | "&&"] factor }
//! factor = ("not" | "!") factor | "(" expr ")" | test
//! test   = "true" | "false" | { qualifier } ["[" POS [":" LEN] "]"] ["&" MASK] [relation] value
//! ```
//!
//! A test is read into a [`Primitive`] and that is compiled to an [`Expr`]. Like in Click, a bare value takes the qualifiers of the test before it
//! (`src port 80 or 443`). Tests on transport headers hold for first fragments of their protocol only. A test on bytes that are not there fails, also
//! when it is `!=`.

use std::net::Ipv4Addr;

use element::args::{FromArg, Names};
use element::parse_integer;
use wire::{AddrMask4, MacAddr};

use super::primitive::*;
use super::program::Expr;
use super::vocabulary::*;

/// Parentheses, negations and choices that may stand inside each other.
const DEPTH_MAX: usize = 100;
/// Words in a pattern.
const WORDS_MAX: usize = 20_000;

/// Splits a pattern into words and signs.
pub fn words(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        let next = chars.get(at + 1);
        let len = match c {
            c if c.is_whitespace() => {
                at += 1;
                continue;
            }
            '&' | '|' => 1 + usize::from(next == Some(c)),
            '<' | '>' | '!' | '=' => 1 + usize::from(next == Some(&'=')),
            '(' | ')' | '[' | ']' | ',' | ';' | '?' => 1,
            _ => {
                let inside = |c: &char| c.is_alphanumeric() || "-./@_:".contains(*c);
                chars[at..].iter().take_while(|c| inside(c)).count().max(1)
            }
        };
        words.push(chars[at..at + len].iter().collect());
        at += len;
    }
    words
}

/// Reads the pattern in `words`; one error for each thing that is wrong.
///
/// # Errors
/// What is wrong, for the user.
pub fn parse(words: &[String], names: &Names) -> Result<Expr, Vec<String>> {
    if words.is_empty() {
        return Err(vec!["empty pattern".into()]);
    }
    if let [word] = words
        && ["-", "any", "all"].contains(&word.as_str())
    {
        return Ok(Expr::Const(true));
    }
    if words.len() > WORDS_MAX {
        return Err(vec![format!("a pattern may have {WORDS_MAX} words, this one has {}", words.len())]);
    }
    let mut parser =
        Parser { words, at: 0, names, before: Primitive::default(), depth: 0, errors: Vec::new() };
    let expr = parser.expr();
    if let Some(word) = parser.word()
        && parser.errors.is_empty()
    {
        parser.errors.push(format!("garbage after the expression at '{word}'"));
    }
    if parser.errors.is_empty() { Ok(expr) } else { Err(parser.errors) }
}

struct Parser<'a> {
    words: &'a [String],
    at: usize,
    names: &'a Names,
    /// The last test, whose qualifiers a bare value takes.
    before: Primitive,
    depth: usize,
    errors: Vec<String>,
}

impl<'a> Parser<'a> {
    fn word(&self) -> Option<&'a str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn peek(&self, ahead: usize) -> Option<&'a str> {
        self.words.get(self.at + ahead).map(String::as_str)
    }

    fn accept(&mut self, any_of: &[&str]) -> bool {
        let found = self.word().is_some_and(|w| any_of.contains(&w));
        self.at += usize::from(found);
        found
    }

    fn error(&mut self, message: impl Into<String>) -> Expr {
        self.errors.push(message.into());
        Expr::Const(false)
    }

    /// Goes one level down, unless that is too deep.
    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Expr) -> Expr {
        if self.depth >= DEPTH_MAX {
            self.at = self.words.len();
            return self.error("the pattern is nested too deeply");
        }
        self.depth += 1;
        let expr = read(self);
        self.depth -= 1;
        expr
    }

    fn expr(&mut self) -> Expr {
        let condition = self.or();
        if !self.accept(&["?"]) {
            return condition;
        }
        let then = self.deeper(Self::expr);
        if !self.accept(&[":"]) {
            return self.error("missing ':' after '?'");
        }
        let otherwise = self.deeper(Self::expr);
        Expr::If(Box::new([condition, then, otherwise]))
    }

    fn or(&mut self) -> Expr {
        let mut terms = vec![self.term()];
        while self.accept(&["or", "||"]) {
            terms.push(self.term());
        }
        one_or(terms, Expr::Any)
    }

    fn term(&mut self) -> Expr {
        let mut factors = Vec::new();
        let mut wanted = true;
        loop {
            let start = self.at;
            let factor = self.factor();
            if self.at == start {
                if wanted {
                    let near = self.word().map_or(String::new(), |w| format!(" near '{w}'"));
                    return self.error(format!("missing expression{near}"));
                }
                return one_or(factors, Expr::All);
            }
            factors.push(factor);
            wanted = self.accept(&["and", "&&"]);
        }
    }

    fn factor(&mut self) -> Expr {
        if self.accept(&["not", "!"]) {
            let start = self.at;
            let inner = self.deeper(Self::factor);
            return if self.at == start { self.error("missing expression after 'not'") } else { !inner };
        }
        if self.accept(&["("]) {
            let inner = self.deeper(Self::expr);
            if !self.accept(&[")"]) && self.errors.is_empty() {
                return self.error("missing ')'");
            }
            return inner;
        }
        match self.word() {
            None | Some(")" | "||" | "or" | "?" | ":" | "and" | "&&") => Expr::Const(false),
            Some(truth @ ("true" | "false")) => {
                self.at += 1;
                Expr::Const(truth == "true")
            }
            Some(_) => self.test(),
        }
    }

    fn test(&mut self) -> Expr {
        let start = self.at;
        let mut test = Primitive::default();
        let negated = match self.qualifiers(&mut test) {
            Ok(negated) => negated,
            Err(why) => return self.error(why),
        };
        if self.at > start {
            self.before = Primitive::default();
        }
        if self.before.value.kind == Kind::Ether {
            test.header = Some('e');
        }
        let result = self
            .brackets(&mut test, start)
            .and_then(|()| self.mask(&mut test))
            .and_then(|()| self.relation_and_value(&mut test));
        if let Err(why) = result {
            self.at = self.at.max(start + 1);
            return self.error(why);
        }
        if self.at == start {
            self.at += 1;
            return self.error(format!("cannot make sense of '{}'", self.words[start]));
        }
        match test.complete(&self.before) {
            Ok(()) => {
                self.before = test;
                if negated { !test.compile() } else { test.compile() }
            }
            Err(why) => self.error(why),
        }
    }

    /// Reads what comes before the value; returns whether `not` was among it.
    fn qualifiers(&mut self, test: &mut Primitive) -> Result<bool, String> {
        let mut negated = false;
        while let Some(word) = self.word() {
            if let Some(kind) = find(KINDS, word).or(find(FIELDS, word)) {
                if test.kind != Kind::None {
                    return Err(format!("'{word}': the type was given already"));
                }
                test.kind = kind;
                if let Kind::Field { proto: Some(proto), .. } = kind {
                    test.set_proto(proto)?;
                }
            } else if let Some(proto) = find(PROTOCOLS, word) {
                // A name that is the value: `ip proto tcp`.
                if test.kind == Kind::Proto {
                    return Ok(negated);
                }
                test.set_proto(proto)?;
            } else {
                let side = match word {
                    "src" => match (self.peek(1), self.peek(2)) {
                        (Some(joint @ ("and" | "&&" | "or" | "||")), Some("dst" | "dest")) => {
                            self.at += 2;
                            if ["and", "&&"].contains(&joint) { Side::Both } else { Side::Either }
                        }
                        _ => Side::Src,
                    },
                    "dst" | "dest" => Side::Dst,
                    "ip" | "ether" if test.header.is_none() => {
                        test.header = word.chars().next();
                        self.at += 1;
                        continue;
                    }
                    "not" | "!" => {
                        negated = !negated;
                        self.at += 1;
                        continue;
                    }
                    _ => return Ok(negated),
                };
                if test.side.replace(side).is_some() {
                    return Err("'src' or 'dst' was given twice".into());
                }
            }
            self.at += 1;
        }
        Ok(negated)
    }

    /// Reads `[POS]`, `[POS:LEN]` or `[POS,LAST]`.
    fn brackets(&mut self, test: &mut Primitive, start: usize) -> Result<(), String> {
        if self.word() != Some("[") || self.at == start || test.kind != Kind::None {
            return Ok(());
        }
        let rest = &self.words[self.at + 1..];
        let end = rest.iter().position(|w| w == "]").ok_or("missing ']'")?;
        let inside = rest[..end].concat();
        self.at += end + 2;
        let number = |t: &str| parse_integer(t).and_then(|n| u32::try_from(n).ok()).filter(|n| *n < 65536);
        let parsed = if let Some((position, len)) = inside.split_once(':') {
            number(position).zip(number(len))
        } else if let Some((position, last)) = inside.split_once(',') {
            number(position).zip(number(last)).and_then(|(p, l)| Some((p, (l + 1).checked_sub(p)?)))
        } else {
            number(&inside).map(|position| (position, 1))
        };
        let (position, len) = parsed.ok_or_else(|| format!("expected [POS] or [POS:LEN], not [{inside}]"))?;
        if !(1..=4).contains(&len) {
            return Err(format!("LEN in [POS:LEN] must be from 1 to 4 bytes, not {len}"));
        }
        if position / 4 != (position + len - 1) / 4 {
            return Err(format!("field [{inside}] does not fit in a single word"));
        }
        test.kind = field(test.proto, position * 8, len * 8);
        Ok(())
    }

    fn mask(&mut self, test: &mut Primitive) -> Result<(), String> {
        if self.word() != Some("&") {
            return Ok(());
        }
        let Some(word) = self.peek(1) else { return Ok(()) };
        let mask = self.literal(word, test).ok_or_else(|| format!("bad mask '{word}'"))?;
        if mask.kind != Kind::Ether && mask.number == 0 {
            return Err("the mask is zero".into());
        }
        test.mask = Some(mask);
        self.at += 2;
        Ok(())
    }

    /// A number or an address.
    fn literal(&self, word: &str, test: &Primitive) -> Option<Value> {
        if let Some(number) = parse_integer(word) {
            return u32::try_from(number).ok().map(|number| Value {
                kind: Kind::Int,
                number,
                ..Value::default()
            });
        }
        if test.header != Some('e') {
            let host = self.names.ip4(word).filter(|_| !word.contains('/'));
            let net = self.names.net4(word);
            let wants_net = test.kind == Kind::Net;
            if let Some(AddrMask4 { addr, mask }) = net.filter(|_| wants_net || host.is_none()) {
                let number = addr.to_bits() & mask.to_bits();
                return Some(Value { kind: Kind::Net, number, mask: mask.to_bits(), ..Value::default() });
            }
            if let Some(addr) = host {
                return Some(Value { kind: Kind::Host, number: addr.to_bits(), ..Value::default() });
            }
        }
        if test.header != Some('i') {
            let mac = MacAddr::from_arg(word, self.names).ok()?;
            return Some(Value { kind: Kind::Ether, mac: mac.0, ..Value::default() });
        }
        None
    }

    fn relation_and_value(&mut self, test: &mut Primitive) -> Result<(), String> {
        let sign = self.word().filter(|_| self.peek(1).is_some()).unwrap_or_default();
        let related = match sign {
            "=" | "==" => Some((Relation::Equal, false)),
            "!=" => Some((Relation::Equal, true)),
            ">" => Some((Relation::Greater, false)),
            "<" => Some((Relation::Less, false)),
            ">=" => Some((Relation::Less, true)),
            "<=" => Some((Relation::Greater, true)),
            _ => None,
        };
        if let Some((relation, negated)) = related {
            (test.relation, test.negated) = (relation, negated);
            self.at += 1;
        }
        let Some(word) = self.word() else { return Ok(()) };
        let value = match self.named(word, test)? {
            Some(value) => Some(value),
            None => self.literal(word, test),
        };
        match value {
            Some(value) => {
                test.value = value;
                self.at += 1;
                if value.kind == Kind::Host
                    && self.word() == Some("mask")
                    && let Some(mask) = self.peek(1).and_then(|m| Ipv4Addr::from_arg(m, self.names).ok())
                {
                    let mask = mask.to_bits();
                    test.value = Value { kind: Kind::Net, number: value.number & mask, mask, ..value };
                    self.at += 2;
                }
                Ok(())
            }
            None if related.is_some() => Err(format!("dangling '{sign}' near '{word}'")),
            None => Ok(()),
        }
    }

    /// The value that a name stands for: a protocol, port, TCP flag or ICMP type.
    fn named(&self, word: &str, test: &Primitive) -> Result<Option<Value>, String> {
        if parse_integer(word).is_some() {
            return Ok(None);
        }
        let icmp_type = field(Some(ICMP), 0, 8);
        let tcp = self.names.port(word, element::args::TCP).map(u32::from);
        let udp = self
            .names
            .port(word, element::args::UDP)
            .map(u32::from)
            .filter(|p| Some(*p) != tcp || test.proto == Some(UDP));
        let known = [
            (Kind::Proto, find(PROTOCOLS, word), true),
            (Kind::Port, tcp, matches!(test.proto, None | Some(TCP | TCP_OR_UDP))),
            (Kind::Port, udp, matches!(test.proto, None | Some(UDP | TCP_OR_UDP))),
            (Kind::TcpOpt, find(TCP_FLAGS, word), matches!(test.proto, None | Some(TCP | TCP_OR_UDP))),
            (icmp_type, find(ICMP_TYPES, word), matches!(test.proto, None | Some(ICMP))),
        ];
        let known: Vec<_> = known.into_iter().filter(|k| k.1.is_some()).collect();
        let fits: Vec<_> =
            known.iter().filter(|k| k.2 && (test.kind == Kind::None || test.kind == k.0)).collect();
        match &fits[..] {
            [(kind, Some(number), _)] => Ok(Some(Value { kind: *kind, number: *number, ..Value::default() })),
            [] if known.is_empty() => Ok(None),
            _ => {
                let what = if fits.is_empty() { "meaningless here" } else { "ambiguous" };
                let all: Vec<String> = known.iter().map(|k| format!("'{} {word}'", k.0.name())).collect();
                Err(format!("'{word}' is {what}; try {}", all.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::program::Program;
    use proptest::prelude::*;

    /// An IPv4 packet of 20 bytes of header and this payload.
    fn packet(src: [u8; 4], dst: [u8; 4], proto: u8, frag: u16, payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0x45, 0xb8, 0, 20 + payload.len() as u8, 0x12, 0x34, 0, 0, 64, proto, 0, 0];
        p[6..8].copy_from_slice(&frag.to_be_bytes());
        p.extend([src, dst].concat());
        p.extend(payload);
        p
    }

    fn holds(text: &str, packet: &[u8]) -> bool {
        let expr = parse(&words(text), &Names::default()).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let ether = *b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0";
        let input = [&ether[..], packet, packet.get(20..).unwrap_or(&[])];
        let program = Program::new(&[(expr.clone(), 1)]);
        assert_eq!(program.run(&input) == 1, expr.holds(&input), "{text}: {}", program.text());
        expr.holds(&input)
    }

    const A: [u8; 4] = [10, 0, 0, 1];
    const B: [u8; 4] = [192, 168, 1, 2];
    /// From port 1025 to port 80: SYN and ACK.
    const SEGMENT: [u8; 20] = [4, 1, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 1, 0, 0, 0, 0, 0];

    fn check(packet: &[u8], yes: &[&str], no: &[&str]) {
        for text in yes {
            assert!(holds(text, packet), "{text}");
        }
        for text in no {
            assert!(!holds(text, packet), "{text}");
        }
    }

    #[test]
    fn addresses_and_ports() {
        let yes = [
            "tcp",
            "ip proto 6",
            "src 10.0.0.1",
            "src host 10.0.0.1",
            "host 192.168.1.2",
            "net 10.0.0.0/8",
            "src net 10.0.0.0 mask 255.0.0.0",
            "dst net 192.168.0.0/16 and src net 10/8",
            "port 80",
            "src port 1025",
            "tcp dst port http",
            "src port > 1024",
            "dst port < 81 && dst port >= 80",
            "src and dst port < 1026",
            "src port 5 or 1025",
            "dst port 443 or 80",
            "port != 81",
            "host != 1.2.3.4",
            "http",
            "not udp",
            "10.0.0.1",
            "src or dst 192.168.1.2",
            "tcpudp",
            "not (udp or icmp)",
            "ether host 2:0:0:0:0:1",
            "ether dst 2:0:0:0:0:1 and ether src 2:0:0:0:0:2",
            "src host & 255.0.0.1 = 10.0.0.7",
        ];
        let no = [
            "udp",
            "src 192.168.1.2",
            "src and dst host 10.0.0.1",
            "dst port 1025",
            "udp port 80",
            "port 81",
            "src port <= 1024",
            "port != 80",
            "host != 10.0.0.1",
            "dst port 80 and src port 80",
            "ip proto != 6",
            "ether src 2:0:0:0:0:1",
            "tcp src port > 65535",
        ];
        check(
            &packet(A, B, 6, 0, &SEGMENT),
            &yes.map(|t| t.replace("10/8", "10.0.0.0/8")).each_ref().map(|t| &**t),
            &no,
        );
    }

    #[test]
    fn fields() {
        let yes = [
            "ip vers 4",
            "ip hl 5",
            "ip tos 0xb8",
            "ip dscp 46",
            "ip len 40",
            "ip id 0x1234",
            "ip ttl 64",
            "ip ttl > 63",
            "ip unfrag",
            "tcp opt syn",
            "syn",
            "tcp opt syn and ack",
            "not tcp opt rst",
            "tcp win 256",
            "ip[8] = 64",
            "ip[8:2] = 0x4006",
            "ip[0] & 0xf0 = 0x40",
            "tcp[13] & 2 != 0",
            "tcp[0:2] > 1024",
            "ip[6:2] & 0x1fff = 0",
            "true",
            "false or true",
            "tcp ? syn : false",
            "udp ? false : port 80",
            "ip[8,9] == 0x4006",
            "transp[2:2] 80",
        ];
        let no = [
            "ip frag",
            "ip ttl < 64",
            "ip ttl != 64",
            "tcp opt fin",
            "ip ce",
            "ip ect",
            "false",
            "tcp ? rst : true",
        ];
        check(&packet(A, B, 6, 0, &SEGMENT), &yes, &no);
    }

    #[test]
    fn fragments_and_short_packets() {
        let rest = packet(A, B, 6, 5, &SEGMENT);
        check(
            &rest,
            &["tcp", "ip frag", "not tcp port 80"],
            &["tcp port 80", "ip unfrag", "tcp opt syn", "port != 81"],
        );
        let short = packet(A, B, 6, 0, &SEGMENT[..3]);
        check(
            &short,
            &["src port 1025", "not port 80", "not dst port 1"],
            &["dst port 80", "dst port != 81", "tcp win 256"],
        );
        check(&[], &["not ip ttl 64"], &["tcp", "ip ttl != 64", "ip frag", "ip unfrag"]);
    }

    #[test]
    fn icmp() {
        let echo = packet(A, B, 1, 0, &[8, 0, 0, 0, 0, 1, 0, 1]);
        check(
            &echo,
            &["icmp", "icmp type echo", "icmp echo", "icmp type 8", "icmp type 0 or 8"],
            &["icmp type 0", "tcp"],
        );
    }

    #[test]
    fn errors() {
        let check = |text: &str, want: &str| {
            let errors = parse(&words(text), &Names::default()).expect_err(text);
            assert!(errors.iter().any(|e| e.contains(want)), "{text}: {errors:?}");
        };
        check("", "empty pattern");
        check("tcp and", "missing expression");
        check("(tcp", "missing ')'");
        check("tcp )", "garbage after the expression at ')'");
        check("tcp ? udp", "missing ':'");
        check("80", "what is 80?");
        check("tcp udp", "given twice");
        check("echo", "'echo' is ambiguous; try 'port echo', 'type echo'");
        check("icmp port 5", "no ports");
        check("ip ttl 256", "'ttl': value out of range, at most 255");
        check("ip[3:2] = 5", "does not fit in a single word");
        check("ip[1:5] = 5", "LEN in [POS:LEN] must be from 1 to 4 bytes, not 5");
        check("ip[ 1", "missing ']'");
        check("src src 1.2.3.4", "given twice");
        check("zzz", "cannot make sense of 'zzz'");
        check("port > zzz", "dangling '>'");
        check("src host", "address missing");
        check(&"(".repeat(5000), "nested too deeply");
        check(&"not ".repeat(5000), "nested too deeply");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]
        #[test]
        fn never_panics(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "tcp", "udp", "icmp", "ip", "ether", "src", "dst", "and", "or", "not", "!", "(", ")", "[", "]", ":", "?",
                "port", "host", "net", "proto", "opt", "type", "ttl", "frag", "unfrag", "ect", "ce", "win", "echo", "syn",
                "80", "0", "4294967295", "-1", "1.2.3.4", "10.0.0.0/8", "mask", "&", "0xff", "=", "!=", ">", "<=", "2:0:0:0:0:1",
                "transp", "tcpudp", "true", "-", "1:2", ",", "\u{e9}",
            ]), 0..12),
            packet in prop::collection::vec(any::<u8>(), 0..48),
        ) {
            let text = pieces.join(" ");
            if let Ok(expr) = parse(&words(&text), &Names::default()) {
                let input = [&packet[..], &packet, packet.get(20..).unwrap_or(&[])];
                let program = Program::new(&[(expr.clone(), 1)]);
                prop_assert_eq!(program.run(&input) == 1, expr.holds(&input), "{}", text);
            }
        }
    }
}
