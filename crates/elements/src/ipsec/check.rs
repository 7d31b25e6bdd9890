// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecCheck
//!
//! `IPsecCheck(DATABASE [, keywords LOCAL, ADDRESSES])`
//!
//! Drops packets that came without the protection that a policy demands.
//!
//! A gateway has it in front of its routing table, on the way of packets that came as they are. Packets of IPsecDecrypt have been checked there.
//!
//! **Ports:** one input. Output 0 for packets that pass. Output 1, if connected, for fragments to LOCAL, unchecked: an IPReassembler makes them whole, and a second IPsecCheck
//! checks the whole.
//!
//! **Arguments**
//! * `DATABASE` the IPsecDatabase.
//! * `LOCAL` the router's own addresses, separated by spaces. `ADDRESSES` elements with devices, as FromHost and ToHost, separated by spaces: the addresses that the kernel has there
//!   at the moment, but for link-local ones, take the place of LOCAL.
//!
//! The best policy with `dir in` or `dir fwd` counts. Without one, and with one that allows packets without a template, the packet passes. ESP packets of the database's
//! associations pass, and so do messages of IKE (UDP ports 500 and 4500) between the hosts that the template's associations are between.
//!
//! Only the first fragment of a packet has ports. A later one to somebody else is dropped if a policy for ports, which is better than that of the fragment and does something else,
//! could be about it, unless that lets packets pass as they are.
//!
//! **Metadata:** packets begin with their IP header.
//!
//! **Drops:** `ambiguous-fragment`, `unprotected` for packets that should have been protected, `policy-discard` for those of a policy with `action block`, `bad-length` for what is no
//! whole IP header.
//!
//! ```click
//! db :: IPsecDatabase(POLICY src 10.2.0.0/16 dst 10.1.0.0/16 dir fwd tmpl src 192.0.2.2 dst 192.0.2.1 mode tunnel);
//! Idle -> CheckIPHeader -> IPsecCheck(db) -> Discard;
//! ```
//!
//! See also: IPsecDatabase, IPsecDecrypt, IPsecEncrypt. RFC 4301 (5.2)

use std::net::IpAddr;
use std::sync::Arc;

use element::args::{Args, FromArg, Names};
use element::{Class, Cx, Element, InitCx, Reason};
use ipsec::{Action, Database, Direction, Flow, Rule};
use packet::{Batch, Packet};
use sync::rcu::Reader;
use wire::ip::addresses;
use wire::{Protocol, ipv4, ipv6};

use super::database;
use super::exempt::is_exempt;
use super::outbound::{AT_ONCE, Others, Verdict, dispatch, sort};
use crate::io::addresses::LinkAddresses;

/// The descriptor.
pub const CLASS: Class = Class::new("IPsecCheck", "1/1-2", || Box::new(IpsecCheck::default()))
    .processing("a/ah")
    .pure()
    .file(file!());

/// The timer for looks at addresses.
const LOOK: u32 = 0;
/// The output for fragments that are to become whole.
const TO_JOIN: usize = 1;

/// Own addresses, sorted.
#[derive(Clone, Default)]
struct Local(Vec<IpAddr>);

impl FromArg for Local {
    const EXPECTED: &'static str = "IPv4 or IPv6 addresses, separated by spaces";

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        let mut own = text
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| String::new())?;
        own.sort_unstable();
        Ok(Local(own))
    }
}

#[derive(Clone, Default)]
struct IpsecCheck {
    name: String,
    database: Option<Arc<Database>>,
    local: Local,
    addresses: LinkAddresses,
}

impl IpsecCheck {
    /// Whether a packet is a fragment for this router.
    #[inline]
    fn is_to_join(&self, packet: &[u8]) -> bool {
        is_fragment(packet)
            && addresses(packet).is_some_and(|(_, to)| self.local.0.binary_search(&to).is_ok())
    }
}

/// Whether a packet is a fragment that reassemblers take.
#[inline]
fn is_fragment(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.first_chunk().is_some_and(|header| ipv4::Header::from_chunk(header).is_fragment()),
        Some(6) => packet
            .first_chunk()
            .is_some_and(|header| ipv6::Header::from_chunk(header).next_header() == Protocol::IPV6_FRAGMENT),
        _ => false,
    }
}

impl Element for IpsecCheck {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.name = args.required("DATABASE");
        self.local = args.keyword("LOCAL", Local::default());
        self.addresses.configure(args);
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.database = Some(database::find(cx, &self.name)?);
        self.addresses.initialize(cx, LOOK)
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, timer: u32) {
        let Some(all) = self.addresses.look(cx, timer) else { return };
        let Local(own) = &mut self.local;
        own.retain(|own| matches!(own, IpAddr::V6(six) if six.is_unicast_link_local()));
        own.extend(all.four().map(|four| IpAddr::V4(four.addr)).chain(all.six().map(IpAddr::V6)));
        own.sort_unstable();
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let Some(database) = &self.database else { return batch };
        let joins = cx.connected(TO_JOIN);
        let mut passed = Batch::new();
        while !batch.is_empty() {
            let mut some = batch.split_front(AT_ONCE);
            let mut others = Others::new();
            let reader = cx.rcu();
            sort(&mut some, &mut others, |packet| {
                if joins && self.is_to_join(packet.data()) {
                    return Err(Verdict::Leave(TO_JOIN, Reason::NoOutput));
                }
                check(database, reader, packet).map_err(Verdict::Drop)
            });
            dispatch(cx, others);
            passed.append(&mut some);
        }
        passed
    }
}

fn check(database: &Database, reader: &Reader, packet: &Packet) -> Result<(), Reason> {
    let flow = Flow::read(packet.data()).ok_or(Reason::BadLength)?;
    let rule = database.arriving(&flow, reader).map(Arc::as_ref);
    if let Some(rule) = rule
        && let Err(why) = may_come(rule)
        && !is_exempt(packet.data(), &flow, Some(rule), database, reader)
    {
        return Err(why);
    }
    let refuses = |rival: &Rule| may_come(rival).is_err();
    if database.is_ambiguous((&flow, Direction::In), rule, reader, refuses) {
        return Err(Reason::AmbiguousFragment);
    }
    Ok(())
}

/// Whether packets of a policy may come as they are.
fn may_come(rule: &Rule) -> Result<(), Reason> {
    match &rule.policy.action {
        Action::Bypass => Ok(()),
        Action::Protect(template) if template.is_optional => Ok(()),
        Action::Protect(_) => Err(Reason::Unprotected),
        Action::Discard => Err(Reason::PolicyDiscard),
    }
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::{POLICIES, packet};
    use crate::testing::Rig;
    use element::Reason;

    #[test]
    fn what_should_be_protected_does_not_pass() {
        let text =
            format!("d :: IPsecDatabase({POLICIES}); i :: TestIn -> e :: IPsecCheck(d) -> o0 :: TestOut;");
        let passed = packet([10, 9, 0, 1], [10, 1, 0, 1], 40);
        let inputs: [&[u8]; 4] = [
            &packet([10, 2, 0, 1], [10, 1, 0, 1], 40),
            &passed,
            &packet([10, 66, 0, 1], [10, 1, 0, 1], 40),
            &[0x45, 0, 0],
        ];
        let run = Rig::text(&text).inputs(&inputs).run();
        assert_eq!(run.bytes("o0"), [passed]);
        assert_eq!(
            run.drops("e"),
            [Reason::BadLength, Reason::PolicyDiscard, Reason::Unprotected].map(|r| (r, 1))
        );
    }

    #[test]
    fn fragments_for_own_addresses_leave_apart() {
        let of = |dst, fragment: u8| {
            let mut bytes = packet([10, 2, 0, 1], dst, 40);
            bytes[6] = fragment;
            bytes
        };
        let (own, other) = ([10, 1, 0, 1], [10, 3, 0, 1]);
        let mut six = vec![0; 60];
        let dst = "2001:db8::1".parse().unwrap();
        let repr =
            wire::ipv6::Repr { dst, next_header: wire::Protocol(44), payload_len: 20, ..Default::default() };
        repr.emit(&mut six).unwrap();
        (six[40], six[43]) = (59, 1);
        let inputs: [&[u8]; 5] = [&of(own, 0), &of(own, 0x20), &of(other, 0x20), &of(own, 0x40), &six];
        let check = |arguments: &str, outputs| {
            let text = format!(
                "d :: IPsecDatabase(); i :: TestIn -> e :: IPsecCheck(d{arguments}) -> o0 :: TestOut;"
            );
            Rig::text(&text).outputs(outputs).inputs(&inputs).run()
        };
        let local = ", LOCAL 192.0.2.1 10.1.0.1 2001:db8::1";
        assert!(check(local, 2).bytes("o1").iter().eq([inputs[1], inputs[4]]));
        for run in [check(local, 1), check("", 2)] {
            assert!(run.bytes("o0").iter().eq(inputs));
        }
        let errors =
            Rig::text("d :: IPsecDatabase(); Idle -> IPsecCheck(d, LOCAL 10.1) -> Discard;").errors();
        assert!(errors[0].contains("LOCAL should be IPv4 or IPv6 addresses"), "{errors:?}");
    }
}
