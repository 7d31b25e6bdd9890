// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPFilter
//!
//! `IPFilter(ACTION PATTERN, ...)`
//!
//! Allows or denies IPv4 packets by rules that look like tcpdump's.
//!
//! **Ports:** 1 push input; any number of push outputs.
//!
//! **Arguments**
//! * `ACTION` what to do with packets that match: `allow` sends them to output 0, `deny` and `drop` drop them, a number
//!   sends them to that output.
//! * `PATTERN` which packets; see IPClassifier for the language. Without PATTERN, and for `all`, `any` and `-`: every packet.
//!
//! The first rule that matches counts; a packet that no rule matches is dropped. From ten rules on, packets find their rule by
//! addresses, ports and protocol in a table, whose cost hardly grows with the number of rules: a list may have 100,000.
//! Rules that ask for more than these fields are fast if the fields rule them out for most packets.
//!
//! **Metadata read:** positions of network, transport and (for `ether`) link header.
//!
//! **Drops:** `filtered`.
//!
//! **Handlers**
//! * `program` read: the decision program made of the rules, one test a line.
//! * `pattern0`, `pattern1` ... `pattern31` read/write: one of the rules.
//!
//! ```click
//! InfiniteSource(DATA \<450000140000000040060000 0a000001 0a000002>, LIMIT 5, STOP true) -> MarkIPHeader
//!     -> IPFilter(allow tcp and src net 10.0.0.0/8, deny all) -> Discard;
//! ```
//!
//! See also: IPClassifier, Classifier, CheckIPHeader

use element::args::{Args, Names};
use element::clock::Nanos;
use element::program::{Op, Version};
use element::{Class, Cx, Element, HandlerError, OwnHandlers, Reason, parse_integer};
use packet::Batch;

use super::classifier::{PATTERN_HANDLERS, Patterns};
use super::first_match::{FirstMatch, Pattern};
use super::language;
use super::program::{Expr, NOWHERE};

/// The descriptor.
pub const CLASS: Class = Class::new("IPFilter", "1/-", || Box::new(IpFilter::default()))
    .processing("h/h")
    .handlers(&PATTERN_HANDLERS)
    .pure()
    .reconfigurable()
    .own_handlers::<IpFilter>()
    .file(file!());

#[derive(Default)]
struct IpFilter {
    patterns: Patterns,
    names: Names,
    noutputs: usize,
    rules: FirstMatch,
}

/// Reads `ACTION PATTERN`.
fn rule(text: &str, names: &Names, noutputs: usize) -> Result<Pattern, Vec<String>> {
    let text = String::from_utf8_lossy(&lang::config::unquote(text)).into_owned();
    let words = language::words(&text);
    let Some((action, pattern)) = words.split_first() else { return Err(vec!["empty rule".into()]) };
    let output = match action.as_str() {
        "allow" if noutputs == 0 => return Err(vec!["there is no output to allow packets to".into()]),
        "allow" => 0,
        "deny" | "drop" => NOWHERE,
        number => match parse_integer(number).map(usize::try_from) {
            Some(Ok(output)) if output < noutputs => output as u32,
            Some(_) => return Err(vec![format!("there is no output {number}")]),
            None => return Err(vec![format!("expected allow, deny, drop or an output, not '{number}'")]),
        },
    };
    let expr = if pattern.is_empty() { Ok(Expr::Const(true)) } else { language::parse(pattern, names) };
    expr.map(|expr| (expr, output))
}

impl IpFilter {
    fn compile(&self, patterns: &[String]) -> Result<FirstMatch, Vec<String>> {
        let mut errors = Vec::new();
        let mut rules = Vec::new();
        for (n, text) in patterns.iter().enumerate() {
            match rule(text, &self.names, self.noutputs) {
                Ok(rule) => rules.push(rule),
                Err(why) => errors.extend(why.into_iter().map(|why| format!("pattern {n}: {why}"))),
            }
        }
        if errors.is_empty() { Ok(FirstMatch::new(rules)) } else { Err(errors) }
    }
}

impl Element for IpFilter {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.patterns = Patterns(args.rest());
        self.names = args.names.clone();
        self.noutputs = args.noutputs;
        match self.compile(&self.patterns.0) {
            Ok(rules) => self.rules = rules,
            Err(errors) => errors.into_iter().for_each(|e| args.error(e)),
        }
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn element::program::Program<'a>) {
        program.add(match self.noutputs {
            1 => Op::Check(Version::Four, &self.rules),
            _ => Op::Sort(Version::Four, &self.rules),
        });
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        self.rules.send(cx, batch, Reason::Filtered);
    }
}

impl OwnHandlers for IpFilter {
    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        if name == "program" { Ok(self.rules.program().text()) } else { self.patterns.read(name) }
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let patterns = self.patterns.with(name, value)?;
        self.rules = self.compile(&patterns).map_err(|why| HandlerError::failed(why.join("; ")))?;
        self.patterns = Patterns(patterns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;
    use packet::Packet;

    fn packet(proto: u8, src: u8) -> Packet {
        let mut p =
            Packet::copy_of(&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, proto, 0, 0, 10, 0, 0, src, 10, 0, 0, 9])
                .unwrap();
        p.set_network(0, 20);
        p
    }

    fn packets() -> Vec<Packet> {
        vec![packet(6, 1), packet(17, 1), packet(6, 2), packet(1, 3)]
    }

    // conformance: RFC1812-5.3.9
    #[test]
    fn rules_apply_in_order() {
        for burst in [1, 32] {
            let rig = Rig::new("IPFilter(deny src 10.0.0.2, allow tcp, 1 udp, drop all)").outputs(2);
            let run = rig.burst(burst).packets(packets()).run();
            let sources =
                |name| run.out(name).iter().map(|p| (p.data()[9], p.data()[15])).collect::<Vec<_>>();
            assert_eq!((sources("o0"), sources("o1")), (vec![(6, 1)], vec![(17, 1)]));
            assert_eq!(run.drops("e"), [(Reason::Filtered, 2)]);
        }
    }

    #[test]
    fn rules_can_be_changed() {
        let mut run = Rig::new("IPFilter(allow)").packets(packets()).run();
        assert_eq!(run.out("o0").len(), 4);
        assert!(run.write("e.pattern0", "allow foo").is_err());
        run.write("e.pattern0", "allow udp").unwrap();
        run.give("i", packets());
        assert_eq!(run.again().out("o0").len(), 1);
    }

    #[test]
    fn errors_name_the_rule() {
        let check = |args: &str, want: &str| {
            assert_eq!(Rig::new(&format!("IPFilter({args})")).errors(), [format!("e: {want}")]);
        };
        check("allow tcp, permit all", "pattern 1: expected allow, deny, drop or an output, not 'permit'");
        check("7 tcp", "pattern 0: there is no output 7");
        check("allow tcp or", "pattern 0: missing expression");
    }
}
