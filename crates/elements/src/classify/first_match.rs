// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of patterns of which the first that matches counts: IPFilter's and IPClassifier's.
//!
//! Short ones are one decision program. In long ones, packets find their patterns by the [boxes](super::enclose) around these, so that
//! the time does not grow with the list.

use std::borrow::Cow;
use std::sync::Arc;

use element::program::{HeaderCheck, Headers, ROWS, Rows, Sort};
use element::{Cx, Reason};
use packet::{Batch, Packet};
use tables::rules::{HAS_PORT, Key, LATER_FRAGMENT, NONE, Rules};

use super::enclose::{Box4, HEADER_LEN, enclose, unknown};
use super::pool::{Listed, Pool};
use super::program::{Expr, Input, NOWHERE, Program, one_by_one};
use crate::tools::Splitter;

/// Patterns from which on boxes are asked: about so many are as fast as one program.
const LONG: usize = 10;

/// Boxes of a list, beyond one for each pattern.
const BOXES_MAX: usize = 1 << 20;

/// A pattern, and the output for packets that match; [`NOWHERE`] drops them.
pub(super) type Pattern = (Expr, u32);

/// Long lists, which instances of all workers share.
static LISTS: Pool<List> = Pool::new();

/// Which packets go where.
#[derive(Default)]
pub(super) struct FirstMatch {
    list: Arc<List>,
    splitter: Splitter,
    /// Of the batch at hand.
    keys: Vec<Key<2>>,
    outputs: Vec<u32>,
}

/// Patterns and what finds them.
#[derive(Default)]
struct List {
    patterns: Vec<Pattern>,
    form: Form,
}

impl Listed for List {
    fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }
}

enum Form {
    Short(Program),
    Long(Rules<2>),
}

impl Default for Form {
    fn default() -> Form {
        Form::Short(Program::new(&[]))
    }
}

impl FirstMatch {
    pub(super) fn new(patterns: Vec<Pattern>) -> FirstMatch {
        let long = |patterns: Vec<Pattern>| {
            let form = Form::Long(Rules::new(&boxes(&patterns)));
            Some(List { patterns, form })
        };
        let list = if patterns.len() < LONG {
            Arc::new(List { form: Form::Short(Program::new(&patterns)), patterns })
        } else {
            LISTS.share(patterns, long).unwrap_or_default()
        };
        FirstMatch { list, ..FirstMatch::default() }
    }

    /// The patterns as one program.
    pub(super) fn program(&self) -> Cow<'_, Program> {
        match &self.list.form {
            Form::Short(program) => Cow::Borrowed(program),
            Form::Long(_) => Cow::Owned(Program::new(&self.list.patterns)),
        }
    }

    /// Sends packets on their ways.
    #[inline]
    pub(super) fn send(&mut self, cx: &mut Cx<'_>, batch: Batch, reason: Reason) {
        let rules = match &self.list.form {
            Form::Short(program) => {
                if let Some(output) = program.constant() {
                    return cx.push_or_drop(output as usize, batch, reason);
                }
                return self.splitter.split_or_drop(cx, batch, reason, |p| program.run(&input(p)) as usize);
            }
            Form::Long(rules) => rules,
        };
        let inputs = |i: usize| batch.get(i).map(input).unwrap_or_default();
        self.keys.clear();
        self.keys.extend(batch.iter().map(|p| key(&input(p)).unwrap_or_default()));
        self.outputs.resize(batch.len(), 0);
        look_up(&self.list.patterns, rules, inputs, &self.keys, &mut self.outputs);
        let mut outputs = self.outputs.iter();
        // Each packet is asked about once, in order.
        self.splitter.split_or_drop(cx, batch, reason, |_| outputs.next().map_or(NOWHERE, |o| *o) as usize);
    }
}

/// The boxes around all patterns, with the patterns' numbers.
fn boxes(patterns: &[Pattern]) -> Vec<(Box4, u32)> {
    let mut boxes = Vec::with_capacity(patterns.len());
    for ((pattern, _), number) in patterns.iter().zip(0..) {
        let around = enclose(pattern);
        // Many patterns of many boxes are looked up by one box for each of them.
        let around =
            if boxes.len() + around.len() > BOXES_MAX + number as usize { vec![unknown()] } else { around };
        boxes.extend(around.into_iter().map(|one| (one, number)));
    }
    boxes
}

/// The parts of a packet that patterns look at.
#[inline]
fn input(packet: &Packet) -> Input<'_> {
    [packet.mac(), packet.network(), packet.transport()].map(Option::unwrap_or_default)
}

/// A packet's fields; `None` without a whole IP header, for which boxes say nothing.
#[inline]
fn key([_, network, transport]: &Input<'_>) -> Option<Key<2>> {
    let header = network.first_chunk::<HEADER_LEN>()?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let port = |at: usize| transport.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    let ports = [port(0), port(2)];
    let later = word(4) & 0x1fff != 0;
    let kind = u16::from(header[9])
        | if later { LATER_FRAGMENT } else { 0 }
        | if ports[0].is_some() { HAS_PORT[0] } else { 0 }
        | if ports[1].is_some() { HAS_PORT[1] } else { 0 };
    Some(Key { words: [word(12), word(16)], ports: ports.map(Option::unwrap_or_default), kind })
}

/// The outputs for packets with these keys.
fn look_up<'a>(
    patterns: &[Pattern],
    rules: &Rules<2>,
    inputs: impl Fn(usize) -> Input<'a>,
    keys: &[Key<2>],
    outputs: &mut [u32],
) {
    rules.find_all(keys, outputs, &mut |i, number| {
        patterns.get(number as usize).is_some_and(|(pattern, _)| pattern.holds(&inputs(i)))
    });
    for (i, output) in outputs.iter_mut().enumerate() {
        *output = match *output {
            NONE => NOWHERE,
            number => patterns[number as usize].1,
        };
        // A key without addresses may be none.
        if keys[i] == Key::default() && key(&inputs(i)).is_none() {
            *output = one_by_one(patterns, &inputs(i));
        }
    }
}

/// Outputs of packets in their rows.
type Outputs = [u32; ROWS];

impl FirstMatch {
    /// The outputs of packets with headers, if the list is long.
    #[inline]
    fn look_up_rows(&self, headers: &Headers<'_>, rows: Rows) -> Option<Outputs> {
        let Form::Long(rules) = &self.list.form else { return None };
        let parts = |row| headers.parts4(row).map(|(link, network, transport)| [link, network, transport]);
        let mut keys = [Key::default(); ROWS];
        let mut end = 0;
        for row in rows.iter() {
            keys[row % ROWS] = parts(row).and_then(|input| key(&input)).unwrap_or_default();
            end = row % ROWS + 1;
        }
        let mut outputs = [NOWHERE; ROWS];
        let input = |row| parts(row).unwrap_or_default();
        look_up(&self.list.patterns, rules, input, &keys[..end], &mut outputs[..end]);
        Some(outputs)
    }

    /// The output for the packet in a row, if there is a header, where those of a long list are `known`.
    #[inline]
    fn output(&self, headers: &Headers<'_>, row: usize, known: Option<&Outputs>) -> Option<usize> {
        let (link, network, transport) = headers.parts4(row)?;
        Some(match (&self.list.form, known) {
            (Form::Short(program), _) => program.run(&[link, network, transport]),
            (Form::Long(_), known) => known.map_or(NOWHERE, |outputs| outputs[row % ROWS]),
        } as usize)
    }
}

impl Sort for FirstMatch {
    fn sort(&self, headers: &Headers<'_>, outputs: usize, found: &mut [u8]) -> usize {
        let known = self.look_up_rows(headers, Rows::first(found.len()));
        let mut n = 0;
        for (row, found) in found.iter_mut().enumerate() {
            match self.output(headers, row, known.as_ref()) {
                Some(output) if output < outputs => *found = output as u8,
                _ => break,
            }
            n += 1;
        }
        n
    }
}

impl HeaderCheck for FirstMatch {
    /// Those that leave by output 0.
    fn while_ordinary(&self, headers: &Headers<'_>, rows: Rows) -> Rows {
        let known = self.look_up_rows(headers, rows);
        rows.while_all(|row| self.output(headers, row, known.as_ref()) == Some(0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::classify::language;
    use element::args::Names;

    /// Words of patterns, of which few lists of rules have all.
    const TESTS: [&str; 24] = [
        "src net 10.0.0.0/8",
        "dst net 10.1.0.0/16",
        "net 10.1.2.0/24",
        "src host 10.1.2.3",
        "host 10.1.2.4",
        "src and dst net 10.0.0.0/8",
        "src net 10.0.0.1 mask 255.0.0.255",
        "tcp",
        "udp",
        "icmp type echo",
        "ip proto 47",
        "ip proto > 16",
        "src port 80",
        "dst tcp port >= 1024",
        "udp port < 53",
        "port != 443",
        "tcp port 80 or 443 or 8080",
        "src port & 0xff00 > 0x1234",
        "tcp opt syn",
        "ip frag",
        "ip unfrag",
        "ip tos 4",
        "ip[8] < 3",
        "true",
    ];

    fn pattern() -> impl Strategy<Value = String> {
        let test = prop::sample::select(TESTS.as_slice()).prop_map(|test| format!("({test})"));
        test.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|all| format!("({})", all.join(" and "))),
                2 => prop::collection::vec(inner.clone(), 1..4).prop_map(|all| format!("({})", all.join(" or "))),
                1 => inner.clone().prop_map(|one| format!("(not {one})")),
                1 => [inner.clone(), inner.clone(), inner].prop_map(|[a, b, c]| format!("({a} ? {b} : {c})")),
            ]
        })
    }

    /// A header whose fields the patterns ask for, of any length, and what follows it.
    fn packet() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let byte = |some: &'static [u8]| prop::sample::select(some);
        let address =
            || [byte(&[10, 10, 11]), byte(&[0, 1]), byte(&[2, 0, 1]), byte(&[1, 3, 4])].prop_map(Vec::from);
        let port = || {
            prop::sample::select([0u16, 22, 52, 53, 80, 443, 1023, 1024, 4660, 4864, 8080, 65535].as_slice())
        };
        let fragment = prop::sample::select([0u16, 0, 0, 0x4000, 0x2000, 1, 0x2010].as_slice());
        let rest = (byte(&[6, 17, 1, 47, 2]), byte(&[2, 64]), byte(&[0, 4]), fragment, prop::num::u8::ANY);
        let length = prop_oneof![8 => Just(20usize), 1 => 0..20usize];
        let behind = prop_oneof![8 => Just(20usize), 1 => 0..5usize];
        (address(), address(), port(), port(), rest, length, behind).prop_map(
            |(src, dst, source, destination, (proto, ttl, tos, fragment, flags), length, behind)| {
                let mut header = vec![0x45, tos, 0, 40, 0, 0];
                header.extend(fragment.to_be_bytes());
                header.extend([ttl, proto, 0, 0]);
                header.extend(src.into_iter().chain(dst));
                let mut transport =
                    Vec::from_iter(source.to_be_bytes().into_iter().chain(destination.to_be_bytes()));
                transport.resize(13, 0);
                transport.push(flags);
                transport.resize(20, 0);
                header.truncate(length);
                transport.truncate(behind);
                (header, transport)
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]
        #[test]
        fn long_lists_are_what_they_say(
            texts in prop::collection::vec(pattern(), 1..40),
            packets in prop::collection::vec(packet(), 40),
        ) {
            let parse = |text: &String| language::parse(&language::words(text), &Names::default()).expect("a pattern");
            let patterns: Vec<Pattern> = texts.iter().zip(0..).map(|(text, n)| (parse(text), n)).collect();
            let rules = Rules::new(&boxes(&patterns));
            let inputs: Vec<Input<'_>> = packets.iter().map(|(header, rest)| [&[], &header[..], &rest[..]]).collect();
            let keys: Vec<_> = inputs.iter().map(|input| key(input).unwrap_or_default()).collect();
            let mut outputs = vec![0; keys.len()];
            look_up(&patterns, &rules, |i| inputs[i], &keys, &mut outputs);
            for (input, output) in inputs.iter().zip(outputs) {
                prop_assert_eq!(output, one_by_one(&patterns, input), "{:?} {:02x?}", texts, input);
            }
        }
    }

    #[test]
    fn workers_share_long_lists() {
        let list = |n: u16| {
            let parse =
                |port: u16| language::parse(&language::words(&format!("src port {port}")), &Names::default());
            FirstMatch::new((0..n).map(|port| (parse(port).expect("a pattern"), u32::from(port))).collect())
        };
        let [one, other, short, brief] = [list(20), list(20), list(3), list(3)];
        assert!(Arc::ptr_eq(&one.list, &other.list) && !Arc::ptr_eq(&one.list, &list(21).list));
        assert!(!Arc::ptr_eq(&short.list, &brief.list));
    }

    #[test]
    fn patterns_of_any_size_are_enclosed_at_once() {
        let parse =
            |text: &str| language::parse(&language::words(text), &Names::default()).expect("a pattern");
        let choices = (0..90).fold("tcp".to_owned(), |inner, n| format!("({inner} ? src port {n} : udp)"));
        assert!(!enclose(&parse(&choices)).is_empty());
        let ports: Vec<String> = (0..2000).map(|port| format!("not port {port}")).collect();
        for joint in [" and ", " or "] {
            let around = enclose(&parse(&ports.join(joint)));
            assert!(around.iter().any(|one| one.asks) && around.len() <= 1024, "{}", around.len());
        }
        let any_host =
            (0..5000).map(|n| format!("host 10.0.{}.{}", n / 250, n % 250)).collect::<Vec<_>>().join(" or ");
        assert_eq!(enclose(&parse(&any_host)), [unknown()]);
    }
}
