// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which rtnetlink messages the opener sends for a router: those that this crate makes, and nothing else in them.
//!
//! | message | flags | attributes |
//! |---|---|---|
//! | RTM_SETLINK | none | IFLA_MASTER alone |
//! | RTM_NEWADDR | create, or replace | what the kernel itself reports of an address; never one in another namespace |
//! | RTM_DELADDR | none | the same |
//! | RTM_NEWRULE | create | interface, priority and table: packets of the interface are looked up in the table |
//!
//! An attribute that stands twice, is cut short or has bytes behind it makes the message a wrong one.

const REQUEST_ACK: u16 = 1 | 4;
const CREATE: u16 = REQUEST_ACK | 0x600;
const REPLACE: u16 = REQUEST_ACK | 0x100;

const RTM_SETLINK: u16 = 19;
pub(super) const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
pub(super) const RTM_NEWRULE: u16 = 32;

const IFLA_MASTER: u16 = 10;
/// Address, local address, label, broadcast address, times, flags, metric, origin.
const OF_ADDRESSES: [u16; 8] = [1, 2, 3, 4, 6, 8, 9, 11];
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
/// The priority of the kernel's own rule for VRFs.
const VRF_PRIORITY: u32 = 1000;
const TO_TABLE: u8 = 1;

/// The interface that a message changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// It gets or loses an address.
    Address(u32),
    /// It joins another one.
    Joins { index: u32, master: u32 },
    /// A rule is about it.
    Rule(&'a [u8]),
}

/// The interface that a message changes; `None` if the opener does not send such a message.
pub(super) fn target(message: &[u8]) -> Option<Target<'_>> {
    let short = |at: usize| message.get(at..at + 2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
    let (kind, flags) = (short(4)?, short(6)?);
    let body = message.get(16..)?;
    match (kind, flags) {
        (RTM_SETLINK, REQUEST_ACK) => joins(body),
        (RTM_NEWADDR, CREATE | REPLACE) | (RTM_DELADDR, REQUEST_ACK) => address(body),
        (RTM_NEWRULE, CREATE) => rule(body),
        _ => None,
    }
}

/// Family, kind, index; flags and the mask of those that change must be zero.
fn joins(body: &[u8]) -> Option<Target<'_>> {
    let (head, attributes) = body.split_at_checked(16)?;
    let attributes = all(attributes)?;
    let [(IFLA_MASTER, master)] = attributes[..] else { return None };
    let has_no_flags = head[8..].iter().all(|byte| *byte == 0);
    has_no_flags.then_some(())?;
    Some(Target::Joins { index: word(&head[4..8])?, master: word(master)? })
}

/// Family, prefix, flags, scope, index.
fn address(body: &[u8]) -> Option<Target<'_>> {
    let (head, attributes) = body.split_at_checked(8)?;
    let known = all(attributes)?.iter().all(|(kind, _)| OF_ADDRESSES.contains(kind));
    known.then_some(())?;
    Some(Target::Address(word(&head[4..8])?))
}

/// Family, then no prefix, no type of service, no table and no flags; the action is a look-up.
fn rule(body: &[u8]) -> Option<Target<'_>> {
    let (head, attributes) = body.split_at_checked(12)?;
    let is_plain = head == [head[0], 0, 0, 0, 0, 0, 0, TO_TABLE, 0, 0, 0, 0];
    is_plain.then_some(())?;
    let attributes = all(attributes)?;
    let [(FRA_IIFNAME, name), (FRA_PRIORITY, priority), (FRA_TABLE, table)] = attributes[..] else {
        return None;
    };
    (word(priority)? == VRF_PRIORITY && word(table)? != 0).then_some(Target::Rule(name))
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

/// All attributes, if each is whole and none stands twice.
fn all(mut bytes: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    let mut found: Vec<(u16, &[u8])> = Vec::new();
    while !bytes.is_empty() {
        let head = bytes.first_chunk::<4>()?;
        let (len, kind) = (u16::from_ne_bytes([head[0], head[1]]), u16::from_ne_bytes([head[2], head[3]]));
        let value = bytes.get(4..usize::from(len))?;
        let is_new = found.iter().all(|(known, _)| *known != kind);
        is_new.then(|| found.push((kind, value)))?;
        bytes = bytes.get(usize::from(len).next_multiple_of(4)..)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute;

    fn message(kind: u16, flags: u16, body: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = vec![0; 4];
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        attributes.iter().for_each(|(kind, value)| message.extend(attribute(*kind, value)));
        message
    }

    /// Index 7 at its place.
    const LINK: [u8; 16] = [0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const ADDRESS: [u8; 8] = [2, 24, 0, 0, 7, 0, 0, 0];
    const RULE: [u8; 12] = [2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    const PRIORITY: (u16, &[u8]) = (FRA_PRIORITY, &VRF_PRIORITY.to_ne_bytes());
    const TABLE: (u16, &[u8]) = (FRA_TABLE, &[1, 4, 0, 0]);
    const NAME: (u16, &[u8]) = (FRA_IIFNAME, b"t0\0");
    const NINE: &[u8] = &9u32.to_ne_bytes();

    #[test]
    fn what_this_crate_sends_is_understood() {
        let seven = u32::from_ne_bytes([7, 0, 0, 0]);
        let check = |message: &[u8], want: Target<'_>| assert_eq!(target(message), Some(want));
        let link = message(RTM_SETLINK, 5, &LINK, &[(IFLA_MASTER, NINE)]);
        check(&link, Target::Joins { index: seven, master: 9 });
        let address = message(RTM_NEWADDR, CREATE, &ADDRESS, &[(1, &[10, 0, 0, 1]), (3, b"t0\0")]);
        check(&address, Target::Address(seven));
        check(&message(RTM_NEWADDR, REPLACE, &ADDRESS, &[]), Target::Address(seven));
        check(&message(RTM_DELADDR, 5, &ADDRESS, &[]), Target::Address(seven));
        check(&message(RTM_NEWRULE, CREATE, &RULE, &[NAME, PRIORITY, TABLE]), Target::Rule(b"t0\0"));
    }

    /// Kind, flags, body, attributes, and what is wrong.
    type Case<'a> = (u16, u16, &'a [u8], &'a [(u16, &'a [u8])], &'a str);

    #[test]
    fn all_else_is_refused() {
        let mut up = LINK;
        up[8] = 1;
        let mut marked = RULE;
        marked[1] = 24;
        let master = (IFLA_MASTER, NINE);
        let cases: &[Case<'_>] = &[
            (16, CREATE, &LINK, &[master], "a new link"),
            (RTM_SETLINK, CREATE, &LINK, &[master], "a link is made"),
            (RTM_SETLINK, 5, &LINK, &[], "nothing to do"),
            (RTM_SETLINK, 5, &up, &[master], "flags of a link"),
            (RTM_SETLINK, 5, &LINK, &[(3, b"other\0"), master], "another name"),
            (RTM_SETLINK, 5, &LINK, &[(19, NINE)], "another namespace"),
            (RTM_SETLINK, 5, &LINK, &[master, master], "twice"),
            (RTM_SETLINK, 5, &LINK, &[(IFLA_MASTER, &[9])], "a short number"),
            (RTM_NEWADDR, 5, &ADDRESS, &[], "neither made nor replaced"),
            (RTM_NEWADDR, CREATE | 0x800, &ADDRESS, &[], "a flag that is not ours"),
            (RTM_NEWADDR, CREATE, &ADDRESS, &[(10, NINE)], "an address in another namespace"),
            (RTM_NEWADDR, CREATE, &ADDRESS[..7], &[], "a short head"),
            (RTM_DELADDR, CREATE, &ADDRESS, &[], "flags of another kind"),
            (RTM_NEWRULE, CREATE, &RULE, &[NAME, PRIORITY], "no table"),
            (RTM_NEWRULE, CREATE, &RULE, &[NAME, TABLE, PRIORITY], "another order"),
            (RTM_NEWRULE, CREATE, &RULE, &[NAME, (6, NINE), TABLE], "another priority"),
            (RTM_NEWRULE, CREATE, &RULE, &[NAME, PRIORITY, TABLE, (3, b"lo\0")], "a second interface"),
            (RTM_NEWRULE, CREATE, &RULE, &[PRIORITY, TABLE], "every interface"),
            (RTM_NEWRULE, CREATE, &marked, &[NAME, PRIORITY, TABLE], "a prefix"),
            (RTM_NEWRULE, REPLACE, &RULE, &[NAME, PRIORITY, TABLE], "a rule is replaced"),
            (33, 5, &RULE, &[NAME, PRIORITY, TABLE], "a rule is deleted"),
        ];
        for (kind, flags, body, attributes, what) in cases {
            assert_eq!(target(&message(*kind, *flags, body, attributes)), None, "{what}");
        }
        let whole = message(RTM_NEWADDR, CREATE, &ADDRESS, &[(1, &[10, 0, 0, 1])]);
        for cut in (0..whole.len()).filter(|cut| *cut != 24) {
            assert_eq!(target(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(target(&[&whole[..], &[0, 0, 0, 0]].concat()), None, "bytes behind the last");
    }
}
