// SPDX-License-Identifier: MIT OR Apache-2.0
//! Later fragments, whose ports nobody knows. The oracle tries all ports, and searches a list of the policies for each.

use junctor_ipsec::text::parse_policy;
use junctor_ipsec::{Action, Database, Direction, Flow, Policy, Rule};
use proptest::prelude::*;
use sync::rcu::Domain;
use wire::Protocol;

/// Ports that policies and packets have.
const PORTS: std::ops::Range<u16> = 1..4;

/// Policies whose prefixes, ports and actions overlap. Each has a priority of its own, so that the order in which they come says nothing.
fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let ports = prop_oneof![Just(String::new()), PORTS.prop_map(|port| format!("dport {port}"))];
    let protocol = prop_oneof![
        Just("proto udp".to_owned()),
        Just("proto tcp".to_owned()),
        Just(String::new()),
        ports.prop_map(|ports| format!("proto udp {ports}")),
    ];
    let action = prop_oneof![
        Just("action block"),
        Just("action allow"),
        Just("tmpl src 192.0.2.1 dst 192.0.2.2 mode tunnel"),
        Just("tmpl src 192.0.2.1 dst 192.0.2.3 mode tunnel"),
    ];
    let one = (prop_oneof![Just(8), Just(16)], prop_oneof![Just(8), Just(16)], protocol, action);
    let all = prop::collection::vec(one, 0..7).prop_shuffle();
    all.prop_map(|all| {
        let text = |(priority, (src, dst, protocol, action)): (usize, (u8, u8, String, &str))| {
            format!("src 10.0.0.0/{src} dst 10.0.0.0/{dst} {protocol} dir out priority {priority} {action}")
        };
        all.into_iter().enumerate().map(text).map(|text| parse_policy(&text).unwrap()).collect()
    })
}

fn udp(ports: Option<(u16, u16)>) -> Flow {
    Flow { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), protocol: Protocol::UDP, ports }
}

/// What becomes of a packet.
fn action(policies: &[Policy], flow: &Flow) -> Action {
    let best =
        policies.iter().filter(|policy| policy.selector.contains(flow)).min_by_key(|policy| policy.priority);
    best.map_or(Action::Bypass, |policy| policy.action.clone())
}

proptest! {
    /// A fragment that is let through ends in no other way than it would with its ports, but for those that would pass as they are.
    #[test]
    fn no_fragment_goes_around_a_policy_for_ports(policies in policies()) {
        let mut kept: Vec<Policy> = Vec::new();
        let domain = Domain::default();
        let database = Database::new(&domain, 1);
        for policy in policies {
            // Of two with one selector, the first stays.
            if database.set_policy(policy.clone(), false).is_ok() {
                kept.push(policy);
            }
        }
        let reader = domain.register("worker");
        let fragment = udp(None);
        prop_assert!(fragment.lacks_ports());
        let found = database.outbound(&fragment, &reader).map(|rule| &**rule);
        let as_it_is = found.map_or(Action::Bypass, |rule| rule.policy.action.clone());
        prop_assert_eq!(&as_it_is, &action(&kept, &fragment));
        let verdicts: Vec<Action> = PORTS.map(|port| action(&kept, &udp(Some((9, port))))).collect();
        let wants = |rule: &Rule| rule.policy.action != Action::Bypass && rule.policy.action != as_it_is;
        let is_ambiguous = database.is_ambiguous((&fragment, Direction::Out), found, &reader, wants);
        let differs = verdicts.iter().any(|verdict| *verdict != Action::Bypass && *verdict != as_it_is);
        prop_assert!(is_ambiguous || !differs, "{:?} passes", kept);
        let has_ports = kept.iter().any(|policy| policy.selector.dports != (0..=u16::MAX));
        prop_assert!(has_ports || !is_ambiguous, "{:?} is for no ports", kept);
    }
}

/// A packet with ports, or of a protocol that has none, meets one policy for sure.
#[test]
fn only_later_fragments_are_ambiguous() {
    let domain = Domain::default();
    let database = Database::new(&domain, 1);
    let policy = "src 10.0.0.0/8 dst 10.0.0.0/8 proto udp dport 7 dir in action block";
    database.set_policy(parse_policy(policy).unwrap(), false).unwrap();
    let reader = domain.register("worker");
    let is_ambiguous = |flow: Flow| database.is_ambiguous((&flow, Direction::In), None, &reader, |_| true);
    assert!(is_ambiguous(udp(None)));
    assert!(!is_ambiguous(udp(Some((9, 7)))));
    for protocol in [Protocol::TCP, Protocol::ESP, Protocol::ICMP] {
        assert!(!is_ambiguous(Flow { protocol, ..udp(None) }), "the policy is for another protocol");
    }
    assert!(!is_ambiguous(Flow { src: [11, 0, 0, 1].into(), ..udp(None) }), "the policy is for other hosts");
}
