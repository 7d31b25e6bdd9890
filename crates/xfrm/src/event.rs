// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as the messages that listeners get.

use std::net::IpAddr;

use ipsec::{AssociationConfig, Event, Flow, Id, IpsecMode, Policy, Reached, Selector, Template};
use wire::Prefix;

use crate::association::put_sa;
use crate::kernel::{Carried, Found};
use crate::layout::{self, Acquire, Expire, Mapping, Port, Spi, attribute, group, message};
use crate::netlink::{Builder, Bytes};
use crate::policy::{only, put_info, put_selector, put_template};

/// The message of an event, and the group of those who get it. `found` is the association that it is about, if that is there still.
pub fn message_of(event: &Event, found: Option<&Found<AssociationConfig>>) -> (u32, Bytes) {
    match event {
        Event::Acquire { flow, policy, template } => (group::ACQUIRE, acquire(flow, policy, template)),
        Event::Expire { id, reqid, reached } => (group::EXPIRE, expire(*id, *reqid, *reached, found)),
        Event::Mapping { id, reqid, before, after } => {
            (group::MAPPING, mapping(*id, *reqid, *before, *after))
        }
    }
}

/// The packets that are like one.
fn selector_of(flow: &Flow) -> Selector {
    let (sports, dports) = (only(flow.ports.map(|(src, _)| src)), only(flow.ports.map(|(_, dst)| dst)));
    let (src, dst) = (Prefix::host(flow.src), Prefix::host(flow.dst));
    Selector { src, dst, protocol: Some(flow.protocol), sports, dports }
}

fn acquire(flow: &Flow, policy: &Policy, template: &Template) -> Bytes {
    let (src, dst) = match template.kind {
        IpsecMode::Tunnel { from, to } => (from, to),
        IpsecMode::Transport => (flow.src, flow.dst),
    };
    let acquire = Acquire {
        id: layout::Id { daddr: dst.into(), spi: Spi(0), proto: layout::ESP },
        saddr: src.into(),
        sel: put_selector(&selector_of(flow)),
        policy: put_info(&Found { what: policy.clone(), carried: Carried::default() }),
        aalgos: u32::MAX,
        ealgos: u32::MAX,
        calgos: u32::MAX,
        seq: 0,
    };
    let mut message = Builder::new(message::ACQUIRE, 0, 0, 0);
    message.put(&acquire.bytes());
    put_template(&mut message, template, flow.is_six());
    message.attribute(attribute::POLICY_TYPE, &[0; 6]);
    message.finish()
}

fn expire(id: Id, reqid: u32, reached: Reached, found: Option<&Found<AssociationConfig>>) -> Bytes {
    let bare = layout::Sa {
        id: layout::Id { daddr: id.dst.into(), spi: Spi(id.spi), proto: layout::ESP },
        family: layout::family_of(id.dst),
        reqid,
        ..layout::Sa::default()
    };
    let expire = Expire { state: found.map_or(bare, put_sa), hard: (reached == Reached::Hard).into() };
    let mut message = Builder::new(message::EXPIRE, 0, 0, 0);
    message.put(&expire.bytes());
    message.finish()
}

fn mapping(id: Id, reqid: u32, before: (IpAddr, u16), after: (IpAddr, u16)) -> Bytes {
    let mapping = Mapping {
        id: layout::SaId {
            daddr: id.dst.into(),
            spi: Spi(id.spi),
            family: layout::family_of(id.dst),
            proto: layout::ESP,
        },
        reqid,
        old_saddr: before.0.into(),
        new_saddr: after.0.into(),
        old_sport: Port(before.1),
        new_sport: Port(after.1),
    };
    let mut message = Builder::new(message::MAPPING, 0, 0, 0);
    message.put(&mapping.bytes());
    message.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Attributes, Messages};
    use wire::Protocol;

    #[test]
    fn acquire_tells_packet_policy_and_template() {
        let policy = ipsec::text::parse_policy(
            "src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 5 index 9 tmpl src 192.0.2.1 dst 198.51.100.1 reqid 7 mode tunnel",
        );
        let policy = policy.unwrap();
        let ipsec::Action::Protect(template) = policy.action.clone() else { panic!("protects") };
        let flow = Flow {
            src: [10, 1, 0, 9].into(),
            dst: [10, 2, 0, 9].into(),
            protocol: Protocol::UDP,
            ports: Some((1000, 53)),
        };
        let (group, bytes) = message_of(&Event::Acquire { flow, policy, template }, None);
        let message = Messages(&bytes).next().unwrap();
        let acquire = Acquire::parse(message.body).unwrap();
        assert_eq!((group, message.kind), (group::ACQUIRE, message::ACQUIRE));
        assert_eq!(acquire.id.daddr.of_family(2), Some([198, 51, 100, 1].into()));
        assert_eq!(
            (acquire.sel.prefixlen_s, acquire.sel.dport, acquire.sel.dport_mask),
            (32, Port(53), Port(0xffff))
        );
        assert_eq!((acquire.policy.priority, acquire.policy.index), (5, 9));
        let template = Attributes(Acquire::rest(message.body)).find(attribute::TMPL).unwrap();
        assert_eq!(layout::Template::parse(template).unwrap().reqid, 7);
    }

    #[test]
    fn limits_and_moves_name_the_association() {
        let id = Id { dst: "2001:db8::1".parse().unwrap(), spi: 0x1234 };
        let event = Event::Expire { id, reqid: 3, reached: Reached::Hard };
        let (group, bytes) = message_of(&event, None);
        let expire = Expire::parse(Messages(&bytes).next().unwrap().body).unwrap();
        assert_eq!((group, expire.hard, expire.state.reqid), (group::EXPIRE, 1, 3));
        assert_eq!((expire.state.id.spi, expire.state.family), (Spi(0x1234), layout::family::SIX));
        let (before, after) = (([192, 0, 2, 1].into(), 4500), ([192, 0, 2, 9].into(), 61000));
        let id = Id { dst: [192, 0, 2, 2].into(), spi: 0x1234 };
        let (group, bytes) = message_of(&Event::Mapping { id, reqid: 3, before, after }, None);
        let mapping = Mapping::parse(Messages(&bytes).next().unwrap().body).unwrap();
        assert_eq!((group, mapping.old_sport, mapping.new_sport), (group::MAPPING, Port(4500), Port(61000)));
        assert_eq!(mapping.new_saddr.of_family(2), Some([192, 0, 2, 9].into()));
    }
}
