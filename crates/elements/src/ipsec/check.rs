// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecCheck
//!
//! `IPsecCheck(DATABASE)`
//!
//! Drops packets that came without the protection that a policy demands.
//!
//! A gateway has it in front of its routing table, on the way of packets that came as they are. Packets of IPsecDecrypt have been checked there.
//!
//! **Ports:** one input, one output.
//!
//! **Arguments**
//! * `DATABASE` the IPsecDatabase.
//!
//! The best policy with `dir in` or `dir fwd` counts. Without one, and with one that allows packets without a template, the packet passes. ESP packets of the database's
//! associations pass, and so do messages of IKE (UDP ports 500 and 4500) between the hosts that the template's associations are between.
//!
//! **Metadata:** packets begin with their IP header.
//!
//! **Drops:** `unprotected` for packets that should have been protected, `policy-discard` for those of a policy with `action block`, `bad-length` for what is no
//! whole IP header.
//!
//! ```click
//! db :: IPsecDatabase(POLICY src 10.2.0.0/16 dst 10.1.0.0/16 dir fwd tmpl src 192.0.2.2 dst 192.0.2.1 mode tunnel);
//! Idle -> CheckIPHeader -> IPsecCheck(db) -> Discard;
//! ```
//!
//! See also: IPsecDatabase, IPsecDecrypt, IPsecEncrypt. RFC 4301 (5.2)

use std::sync::Arc;

use engine::args::Args;
use engine::{Class, Cx, Element, InitCx, Reason};
use ipsec::{Action, Database, Flow};
use packet::{Batch, Packet};
use sync::rcu::Reader;

use super::database;
use super::exempt::is_exempt;
use super::outbound::{AT_ONCE, Fate, Others, dispatch, sort};

/// The descriptor.
pub const CLASS: Class =
    Class::new("IPsecCheck", "1/1", || Box::new(IpsecCheck::default())).pure().file(file!());

#[derive(Clone, Default)]
struct IpsecCheck {
    name: String,
    database: Option<Arc<Database>>,
}

impl Element for IpsecCheck {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.name = args.required("DATABASE");
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.database = Some(database::find(cx, &self.name)?);
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, mut batch: Batch) -> Batch {
        let Some(database) = &self.database else { return batch };
        let mut passed = Batch::new();
        while !batch.is_empty() {
            let mut some = batch.split_front(AT_ONCE);
            let mut others = Others::new();
            let reader = cx.rcu();
            sort(&mut some, &mut others, |packet| check(database, reader, packet).map_err(Fate::Drop));
            dispatch(cx, others);
            passed.append(&mut some);
        }
        passed
    }
}

fn check(database: &Database, reader: &Reader, packet: &Packet) -> Result<(), Reason> {
    let flow = Flow::read(packet.data()).ok_or(Reason::BadLength)?;
    let Some(rule) = database.arriving(&flow, reader) else { return Ok(()) };
    let refusal = match &rule.policy.action {
        Action::Bypass => return Ok(()),
        Action::Protect(template) if template.is_optional => return Ok(()),
        Action::Protect(_) => Reason::Unprotected,
        Action::Discard => Reason::PolicyDiscard,
    };
    if is_exempt(packet.data(), &flow, Some(rule), database, reader) { Ok(()) } else { Err(refusal) }
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::{POLICIES, packet};
    use crate::testing::Rig;
    use engine::Reason;

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
}
