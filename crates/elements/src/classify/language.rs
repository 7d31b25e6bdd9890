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
//! A test is read into a [`Primitive`] and that is compiled to an [`Expr`]. Like in Click, a bare value takes the
//! qualifiers of the test before it (`src port 80 or 443`), tests on transport headers hold for first fragments of their
//! protocol only, and a test on bytes that are not there fails, also when it is `!=`.

use std::net::Ipv4Addr;

use engine::args::{FromArg, Names, Port};
use engine::parse_integer;
use wire::{AddrMask4, MacAddr};

use super::program::{Base, Expr, Test};

/// Parentheses, negations and choices that may stand inside each other.
const DEPTH_MAX: usize = 100;
/// Words in a pattern.
const WORDS_MAX: usize = 20_000;

/// "TCP or UDP".
const TCP_OR_UDP: u32 = 256;
/// Any transport protocol.
const TRANSPORT: u32 = 257;
const ICMP: u32 = 1;
const TCP: u32 = 6;
const UDP: u32 = 17;
const DCCP: u32 = 33;

/// What a test looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    None,
    Host,
    Net,
    Proto,
    Port,
    TcpOpt,
    Ether,
    Frag,
    Unfrag,
    Ect,
    Ce,
    /// Bits of the IP header, or of the header of a transport protocol.
    Field {
        proto: Option<u32>,
        bit: u32,
        bits: u32,
    },
    /// A number, whose meaning is to be found.
    Int,
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::None => "none".into(),
            Kind::Host => "ip host".into(),
            Kind::Net => "ip net".into(),
            Kind::Proto => "proto".into(),
            Kind::Port => "port".into(),
            Kind::TcpOpt => "tcp opt".into(),
            Kind::Ether => "ether host".into(),
            Kind::Frag => "ip frag".into(),
            Kind::Unfrag => "ip unfrag".into(),
            Kind::Ect => "ip ect".into(),
            Kind::Ce => "ip ce".into(),
            Kind::Int => "number".into(),
            Kind::Field { proto, bit, bits } => {
                let known = FIELDS.iter().find(|(_, k)| *k == self).map(|(n, _)| (*n).to_owned());
                let header = proto.and_then(|p| PROTOCOLS.iter().find(|q| q.1 == p)).map_or("ip", |q| q.0);
                known.unwrap_or_else(|| format!("{header}[{}:{}]", bit / 8, bits / 8))
            }
        }
    }
}

const fn field(proto: Option<u32>, bit: u32, bits: u32) -> Kind {
    Kind::Field { proto, bit, bits }
}

const FIELDS: &[(&str, Kind)] = &[
    ("vers", field(None, 0, 4)),
    ("hl", field(None, 4, 4)),
    ("tos", field(None, 8, 8)),
    ("dscp", field(None, 8, 6)),
    ("len", field(None, 16, 16)),
    ("id", field(None, 32, 16)),
    ("ttl", field(None, 64, 8)),
    ("win", field(Some(TCP), 112, 16)),
    ("type", field(Some(ICMP), 0, 8)),
];

const KINDS: &[(&str, Kind)] = &[
    ("host", Kind::Host),
    ("net", Kind::Net),
    ("proto", Kind::Proto),
    ("port", Kind::Port),
    ("opt", Kind::TcpOpt),
    ("frag", Kind::Frag),
    ("unfrag", Kind::Unfrag),
    ("ect", Kind::Ect),
    ("ce", Kind::Ce),
];

const PROTOCOLS: &[(&str, u32)] = &[
    ("icmp", ICMP),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", TCP),
    ("egp", 8),
    ("udp", UDP),
    ("dccp", DCCP),
    ("ip6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
    ("tcpudp", TCP_OR_UDP),
    ("transp", TRANSPORT),
];

const TCP_FLAGS: &[(&str, u32)] = &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32)];

const ICMP_TYPES: &[(&str, u32)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("sourcequench", 4),
    ("redirect", 5),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timeexceeded", 11),
    ("parameterproblem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
];

fn find<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

/// Which of the two addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Src,
    Dst,
    Either,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Relation {
    #[default]
    Equal,
    Greater,
    Less,
}

/// The value of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Value {
    kind: Kind,
    number: u32,
    /// For prefixes.
    mask: u32,
    mac: [u8; 6],
}

/// One test while it is read.
#[derive(Clone, Copy, Debug, Default)]
struct Primitive {
    kind: Kind,
    side: Option<Side>,
    proto: Option<u32>,
    relation: Relation,
    negated: bool,
    value: Value,
    mask: Option<Value>,
    /// The header named: `i` or `e`.
    header: Option<char>,
}

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
        let defined = self.names.get(word).iter().map(String::as_str);
        let texts = || std::iter::once(word).chain(defined.clone());
        if test.header != Some('e') {
            let host = texts().find_map(|t| t.parse::<Ipv4Addr>().ok());
            let net = texts().find_map(|t| t.parse::<AddrMask4>().ok().filter(|_| t.contains('/')));
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
        let port = Port::from_arg(word, self.names).ok().map(|Port(p)| u32::from(p));
        let known = [
            (Kind::Proto, find(PROTOCOLS, word), true),
            (Kind::Port, port, matches!(test.proto, None | Some(TCP | UDP | TCP_OR_UDP))),
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

/// The only one, or all together.
fn one_or(mut parts: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Expr {
    if parts.len() == 1 { parts.remove(0) } else { join(parts) }
}

impl Primitive {
    fn set_proto(&mut self, proto: u32) -> Result<(), String> {
        match self.proto.replace(proto) {
            Some(old) if old != proto => Err("the transport protocol was given twice".into()),
            _ => Ok(()),
        }
    }

    /// Fills in what the test before and the value imply, and checks that all agrees.
    fn complete(&mut self, before: &Primitive) -> Result<(), String> {
        let side = self.side;
        if self.kind == Kind::None {
            self.infer(before)?;
        }
        let header = self.header.unwrap_or(if self.value.kind == Kind::Ether { 'e' } else { 'i' });
        if header == 'e' && self.kind == Kind::Host {
            self.kind = Kind::Ether;
        }
        let error = |why: &str| Err(format!("'{}': {why}", self.kind.name()));
        if (header == 'e') != (self.kind == Kind::Ether) {
            return error(if header == 'e' { "belongs to IP, not to Ethernet" } else { "address missing" });
        }
        let value = self.value.kind;
        let plain = self.relation == Relation::Equal;
        match self.kind {
            Kind::Host | Kind::Net if value != self.kind => return error("address missing"),
            Kind::Ether if value != Kind::Ether => return error("address missing"),
            Kind::Host | Kind::Net | Kind::Ether if !plain => return error("this relation is not possible"),
            Kind::Frag | Kind::Unfrag | Kind::Ce if value != Kind::None || self.mask.is_some() => {
                return error("takes no value");
            }
            Kind::Proto => return self.complete_proto(),
            Kind::Port => {
                if ![Kind::Int, Kind::Port].contains(&value) {
                    return error("value missing");
                }
                let proto = *self.proto.get_or_insert(TCP_OR_UDP);
                if ![TCP, UDP, TCP_OR_UDP, DCCP].contains(&proto) {
                    return error("this protocol has no ports");
                }
                self.check_range(0xffff)?;
            }
            Kind::TcpOpt => {
                if ![Kind::Int, Kind::TcpOpt].contains(&value) {
                    return error("value missing");
                }
                if *self.proto.get_or_insert(TCP) != TCP {
                    return error("only TCP has these flags");
                }
                if !plain || self.negated || self.mask.is_some() {
                    return error("takes neither relation nor mask");
                }
                self.check_range(0xff)?;
            }
            Kind::Ect if value == Kind::None => {
                (self.kind, self.negated) = (field(None, 14, 2), true);
            }
            Kind::Ect => {
                self.kind = field(None, 14, 2);
                self.check_range(3)?;
            }
            Kind::Ce => (self.kind, self.value.number) = (field(None, 14, 2), 3),
            Kind::Field { bits, .. } => {
                if value != Kind::Int && value != self.kind {
                    return error("value missing");
                }
                self.check_range(u32::MAX >> (32 - bits))?;
            }
            _ => {}
        }
        if [Kind::Host, Kind::Net, Kind::Port, Kind::Ether].contains(&self.kind) {
            self.side.get_or_insert(Side::Either);
        } else if side.is_some() {
            return Err(format!("'{}' has neither source nor destination", self.kind.name()));
        }
        Ok(())
    }

    /// Finds the type from the value.
    fn infer(&mut self, before: &Primitive) -> Result<(), String> {
        let mut kind = self.value.kind;
        if kind == Kind::Int {
            kind = before.kind;
            if !matches!(kind, Kind::Field { .. } | Kind::Proto | Kind::Port) {
                return Err(format!("what is {}? Name a header field or 'port'", self.value.number));
            }
            self.value.kind = kind;
        }
        match kind {
            Kind::None if self.proto.is_some() => kind = Kind::Proto,
            Kind::None => return Err("the test is incomplete".into()),
            Kind::Host | Kind::Net | Kind::Ether | Kind::TcpOpt => self.side = self.side.or(before.side),
            Kind::Port => {
                self.side = self.side.or(before.side);
                self.proto = self.proto.or(before.proto);
            }
            Kind::Field { proto, .. } => self.proto = self.proto.or(proto),
            _ => {}
        }
        self.kind = kind;
        Ok(())
    }

    fn complete_proto(&mut self) -> Result<(), String> {
        let error = |why: &str| Err(format!("'proto': {why}"));
        if [Kind::Int, Kind::Proto].contains(&self.value.kind) {
            if self.proto.is_some_and(|p| p != self.value.number) {
                return error("given twice");
            }
        } else if self.value.kind == Kind::None
            && let Some(proto) = self.proto
        {
            self.value = Value { kind: Kind::Proto, number: proto, ..Value::default() };
        } else {
            return error("value missing");
        }
        if self.side.is_some() {
            return error("has neither source nor destination");
        }
        self.proto = None;
        if self.value.number > 0xff && self.value.kind == Kind::Proto {
            if self.relation != Relation::Equal || self.mask.is_some() {
                return error("this protocol takes neither relation nor mask");
            }
        } else {
            self.check_range(0xff)?;
        }
        // What a bare value after this inherits.
        if self.relation == Relation::Equal && !self.negated && self.mask.is_none() {
            self.proto = Some(self.value.number);
        }
        Ok(())
    }

    /// Checks that value and mask lie within the field.
    fn check_range(&self, full: u32) -> Result<(), String> {
        let name = self.kind.name();
        if let Some(mask) = self.mask {
            if mask.kind != Kind::Int {
                return Err(format!("'{name}': bad mask"));
            }
            if mask.number & !full != 0 {
                return Err(format!("'{name}': mask out of range, at most {full:#x}"));
            }
        }
        if self.relation == Relation::Equal && self.value.number > full {
            return Err(format!("'{name}': value out of range, at most {full}"));
        }
        Ok(())
    }

    /// The test of `bits` bits of a word, `shift` from its right.
    fn compare(&self, base: Base, offset: u32, shift: u32, full: u32) -> Expr {
        let mask = self.mask.map_or(full, |m| m.number & full);
        let value = self.value.number;
        let (low, high) = match self.relation {
            Relation::Equal => (value & mask, value & mask),
            Relation::Greater if value >= mask => return Expr::Const(false),
            Relation::Greater => (value + 1, mask),
            Relation::Less if value == 0 => return Expr::Const(false),
            Relation::Less => (0, (value - 1).min(mask)),
        };
        let test =
            Test { base, offset: offset as u16, mask: mask << shift, low: low << shift, high: high << shift };
        Expr::Test(test)
    }

    fn compile(&self) -> Expr {
        let mut parts = Vec::new();
        let transport = matches!(self.kind, Kind::Port | Kind::TcpOpt | Kind::Field { proto: Some(_), .. });
        if let Some(proto) = self.proto.filter(|_| self.kind != Kind::Proto) {
            parts.push(proto_is(proto));
        }
        if transport {
            // The fragment that has the header.
            parts.push(Expr::Test(Test::exact(Base::Network, 4, 0x1fff, 0)));
        }
        let test = match self.kind {
            Kind::Host | Kind::Net => {
                let own = if self.kind == Kind::Net { self.value.mask } else { u32::MAX };
                let mask = self.mask.map_or(own, |m| m.number);
                let at = |offset| Expr::Test(Test::exact(Base::Network, offset, mask, self.value.number));
                self.sides(at(12), at(16))
            }
            Kind::Ether => self.ether(),
            Kind::Port => {
                let at = |shift| self.compare(Base::Transport, 0, shift, 0xffff);
                self.sides(at(16), at(0))
            }
            Kind::Proto if self.value.number > 0xff => proto_is(self.value.number),
            Kind::Proto => self.compare(Base::Network, 8, 16, 0xff),
            Kind::TcpOpt => {
                let flags = self.value.number << 16;
                Expr::Test(Test::exact(Base::Transport, 12, flags, flags))
            }
            Kind::Frag | Kind::Unfrag => {
                let whole = Test::exact(Base::Network, 4, 0x3fff, 0);
                let whole_expr = Expr::Test(whole);
                return if self.kind == Kind::Unfrag {
                    whole_expr
                } else {
                    Expr::All(vec![Expr::Test(whole.present()), !whole_expr])
                };
            }
            Kind::Field { proto, bit, bits } => {
                let base = if proto.is_some() { Base::Transport } else { Base::Network };
                let (word, within) = (bit / 32 * 4, bit % 32);
                self.compare(base, word, 32 - within - bits, u32::MAX >> (32 - bits))
            }
            _ => Expr::Const(false),
        };
        parts.push(if self.negated { opposite(test) } else { test });
        one_or(parts, Expr::All)
    }

    fn sides(&self, src: Expr, dst: Expr) -> Expr {
        match self.side {
            Some(Side::Src) => src,
            Some(Side::Dst) => dst,
            Some(Side::Both) => Expr::All(vec![src, dst]),
            _ => Expr::Any(vec![src, dst]),
        }
    }

    fn ether(&self) -> Expr {
        let bits = |m: [u8; 6]| u64::from_be_bytes([0, 0, m[0], m[1], m[2], m[3], m[4], m[5]]);
        let mask = self.mask.filter(|m| m.kind == Kind::Ether).map_or(u64::MAX >> 16, |m| bits(m.mac));
        let value = bits(self.value.mac);
        let at = |offset, shift: i32| {
            let word = |v: u64| if shift >= 0 { (v >> shift) as u32 } else { (v << -shift) as u32 };
            Expr::Test(Test::exact(Base::Data, offset, word(mask), word(value)))
        };
        let src = Expr::All(vec![at(8, 0), at(4, 32)]);
        let dst = Expr::All(vec![at(0, 16), at(4, -16)]);
        self.sides(src, dst)
    }
}

/// The opposite of a test, which also fails where bytes are missing.
fn opposite(test: Expr) -> Expr {
    let mut present = Vec::new();
    gather(&test, &mut present);
    let mut parts: Vec<Expr> = present.into_iter().map(Expr::Test).collect();
    parts.push(!test);
    Expr::All(parts)
}

fn gather(expr: &Expr, present: &mut Vec<Test>) {
    match expr {
        Expr::Test(test) => present.push(test.present()),
        Expr::All(parts) | Expr::Any(parts) => parts.iter().for_each(|p| gather(p, present)),
        _ => {}
    }
}

fn proto_is(proto: u32) -> Expr {
    let is = |p: u32| Expr::Test(Test::exact(Base::Network, 8, 0x00ff_0000, p << 16));
    match proto {
        TCP_OR_UDP => Expr::Any(vec![is(TCP), is(UDP)]),
        p if p > 0xff => Expr::Const(true),
        p => is(p),
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
