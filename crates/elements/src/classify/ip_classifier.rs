// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPClassifier
//!
//! `IPClassifier(PATTERN, ...)`
//!
//! Sends each IPv4 packet to the output of the first pattern it matches; patterns look like tcpdump's.
//!
//! **Ports:** 1 push input; as many push outputs as there are patterns.
//!
//! **Arguments**
//! * `PATTERN` tests, joined by `and` (`&&`, or nothing), `or` (`||`), `not` (`!`), `A ? B : C` and parentheses. `-`, `any`
//!   and `all` match every packet, so does `true`; `false` matches none. Tests:
//!   * `[src | dst | src and dst | src or dst] [ip] [host] ADDRESS`, `... net ADDRESS/LENGTH`, `... net ADDRESS mask MASK`
//!   * `[src | dst ...] [tcp | udp] port [RELATION] PORT`: number or name
//!   * `[ip] proto PROTOCOL`, or only its name: `tcp`, `udp`, `icmp`, `tcpudp` ...
//!   * `ip vers`, `hl`, `tos`, `dscp`, `len`, `id`, `ttl` with `[RELATION] VALUE`; `ip frag`, `unfrag`, `ect`, `ce`
//!   * `tcp opt FLAG` (`syn`, `fin`, `ack`, `rst`, `psh`, `urg`), `tcp win VALUE`, `icmp type TYPE`
//!   * `ip[POS:LEN]`, `tcp[...]`, `udp[...]`, `icmp[...]`, `transp[...]` with `[& MASK] RELATION VALUE`: 1 to 4 bytes
//!     of the header
//!   * `ether [src | dst] [host] ADDRESS`
//!
//!   Relations are `=` (or `==`, or nothing), `!=`, `<`, `>`, `<=`, `>=`. Values after `or` and `and` take the qualifiers
//!   before them: `src port 80 or 443`. Tests on transport headers hold for first fragments only.
//!
//! From ten patterns on, packets find their pattern in a table, as IPFilter's do.
//!
//! **Metadata read:** positions of network, transport and (for `ether`) link header.
//!
//! **Drops:** `not-matched`, packets that match no pattern.
//!
//! **Handlers**
//! * `program` read: the decision program made of the patterns, one test a line.
//! * `pattern0`, `pattern1` ... `pattern31` read/write: one of the patterns.
//!
//! ```click
//! InfiniteSource(DATA \<450000140000000040060000 0a000001 0a000002>, LIMIT 5, STOP true) -> MarkIPHeader
//!     -> c :: IPClassifier(udp port 53, tcp or icmp type echo, -);
//! c[0] -> Discard; c[1] -> Discard; c[2] -> Discard;
//! ```
//!
//! See also: IPFilter, Classifier, CheckIPHeader

use element::args::{Args, Names};
use element::clock::Nanos;
use element::program::{Op, Version};
use element::{Class, Cx, Element, HandlerError, OwnHandlers, Reason};
use packet::Batch;

use super::classifier::{PATTERN_HANDLERS, Patterns};
use super::first_match::FirstMatch;
use super::language;

/// The descriptor.
pub const CLASS: Class = Class::new("IPClassifier", "1/-", || Box::new(IpClassifier::default()))
    .processing("h/h")
    .handlers(&PATTERN_HANDLERS)
    .pure()
    .reconfigurable()
    .own_handlers::<IpClassifier>()
    .file(file!());

#[derive(Default)]
struct IpClassifier {
    patterns: Patterns,
    names: Names,
    rules: FirstMatch,
}

fn compile(patterns: &[String], names: &Names) -> Result<FirstMatch, Vec<String>> {
    let mut errors = Vec::new();
    let mut rules = Vec::new();
    for (n, text) in patterns.iter().enumerate() {
        let text = String::from_utf8_lossy(&lang::config::unquote(text)).into_owned();
        match language::parse(&language::words(&text), names) {
            Ok(expr) => rules.push((expr, n as u32)),
            Err(why) => errors.extend(why.into_iter().map(|why| format!("pattern {n}: {why}"))),
        }
    }
    if errors.is_empty() { Ok(FirstMatch::new(rules)) } else { Err(errors) }
}

impl Element for IpClassifier {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.patterns = Patterns(args.rest());
        self.names = args.names.clone();
        match compile(&self.patterns.0, &self.names) {
            Ok(rules) => self.rules = rules,
            Err(errors) => return errors.into_iter().for_each(|e| args.error(e)),
        }
        self.patterns.check(args, &self.rules.program());
    }

    fn program<'a>(&'a self, _: Nanos, program: &mut dyn element::program::Program<'a>) {
        program.add(Op::Sort(Version::Four, &self.rules));
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        self.rules.send(cx, batch, Reason::NotMatched);
    }
}

impl OwnHandlers for IpClassifier {
    fn read(&mut self, _: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        if name == "program" { Ok(self.rules.program().text()) } else { self.patterns.read(name) }
    }

    fn write(&mut self, _: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        let patterns = self.patterns.with(name, value)?;
        self.rules = compile(&patterns, &self.names).map_err(|why| HandlerError::failed(why.join("; ")))?;
        self.patterns = Patterns(patterns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;
    use packet::Packet;

    fn packet(proto: u8, ports: [u8; 4]) -> Packet {
        let header = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9];
        let mut p = Packet::copy_of(&[&header[..], &ports].concat()).unwrap();
        p.set_network(0, 20);
        p
    }

    #[test]
    fn the_first_pattern_counts() {
        for burst in [1, 32] {
            let packets =
                vec![packet(17, [0, 5, 0, 53]), packet(6, [0, 5, 0, 53]), packet(17, [0, 5, 0, 54])];
            let rig = Rig::new("IPClassifier(udp port 53, tcp, src port 5)").outputs(3);
            let run = rig.burst(burst).packets(packets).run();
            let ports = |name| run.out(name).iter().map(|p| (p.data()[9], p.data()[23])).collect::<Vec<_>>();
            assert_eq!(
                (ports("o0"), ports("o1"), ports("o2")),
                (vec![(17, 53)], vec![(6, 53)], vec![(17, 54)])
            );
        }
    }

    #[test]
    fn packets_without_header_position_match_nothing() {
        let run = Rig::new("IPClassifier(tcp)").inputs(&[&[0x45; 40]]).run();
        assert_eq!(run.drops("e"), [(Reason::NotMatched, 1)]);
    }

    #[test]
    fn names_and_errors() {
        let text = "AddressInfo(us 10.0.0.1, them 10.9.0.0/16); i :: TestIn -> e :: IPClassifier(src us, src net them); \
                    e[0] -> o0 :: TestOut; e[1] -> o1 :: TestOut;";
        let run = Rig::text(text).packets(vec![packet(6, [0; 4])]).run();
        assert_eq!((run.out("o0").len(), run.out("o1").len()), (1, 0));
        let check = |args: &str, want: &str| {
            assert_eq!(Rig::new(&format!("IPClassifier({args})")).errors(), [format!("e: {want}")]);
        };
        check("tcp zzz", "pattern 0: cannot make sense of 'zzz'");
        check("tcp, udp", "needs as many patterns as outputs: 1, not 2");
    }
}
