// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that pass a policy's demand for protection, since they are the protection: ESP of the database's own associations, and the messages of IKE that negotiate them
//! (RFC 4301, 4.4.1).

use esp::inbound::{Found, find};
use ipsec::{Action, Database, Direction, Flow, IpsecMode, Policy, Rule};
use sync::rcu::Reader;
use wire::Protocol;

/// UDP ports of IKE (RFC 7296, 2).
const IKE_PORTS: [u16; 2] = [500, 4500];

/// Whether a packet passes in spite of this policy, or of none.
#[inline]
pub(super) fn is_exempt(
    packet: &[u8],
    flow: &Flow,
    rule: Option<&Rule>,
    database: &Database,
    reader: &Reader,
) -> bool {
    match flow.protocol {
        Protocol::ESP => is_protected(packet, flow, database, reader),
        Protocol::UDP => {
            rule.is_some_and(|rule| is_ike(flow, &rule.policy))
                || database.goes_by_udp() && is_protected(packet, flow, database, reader)
        }
        _ => false,
    }
}

/// Whether it is a message of IKE between the hosts that the policy's associations are between, and our end of it is a key daemon.
fn is_ike(flow: &Flow, policy: &Policy) -> bool {
    // First what most packets lack, and what is at hand.
    let is_ikes = |port: &u16| IKE_PORTS.contains(port);
    let Some((src, dst)) = flow.ports.filter(|(src, dst)| is_ikes(src) || is_ikes(dst)) else { return false };
    let Action::Protect(template) = &policy.action else { return false };
    let is_out = policy.direction == Direction::Out;
    let is_between = match template.kind {
        IpsecMode::Tunnel { from, to } => (from, to) == (flow.src, flow.dst),
        IpsecMode::Transport if is_out => policy.selector.src.as_host() == Some(flow.src),
        IpsecMode::Transport => policy.selector.dst.as_host() == Some(flow.dst),
    };
    is_between && is_ikes(if is_out { &src } else { &dst })
}

/// Whether it is ESP of an association of the database. Any host may send by some, and by UDP a translator may have moved the sender: what comes is authenticated anyway.
fn is_protected(packet: &[u8], flow: &Flow, database: &Database, reader: &Reader) -> bool {
    let Ok(Found::Esp(arrived)) = find(packet) else { return false };
    database.inbound(flow.dst, arrived.spi, reader).is_some_and(|association| {
        let src = association.config.src;
        let is_by = match (association.sa.udp(), arrived.udp) {
            (None, None) => true,
            (Some(ports), Some((_, to))) => ports.to == to,
            _ => false,
        };
        is_by && (src == flow.src || src.is_unspecified() || arrived.udp.is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::{KEY, packet};
    use crate::testing::Rig;
    use element::Reason;

    /// Two hosts that protect all between them, in a tunnel or not.
    fn hosts(mode: &str, tmpl: &str) -> String {
        let sa =
            |src, dst, spi| format!("SA src {src} dst {dst} spi {spi} mode {mode} aead aes-gcm {KEY} 128");
        format!(
            "{}, {}, POLICY dir out src 192.0.2.1 dst 192.0.2.2 tmpl {}mode {mode}, POLICY dir in src 192.0.2.2 dst 192.0.2.1 tmpl {}mode {mode}",
            sa("192.0.2.1", "192.0.2.2", "0x100"),
            sa("192.0.2.2", "192.0.2.1", "0x200"),
            if tmpl.is_empty() { "" } else { "src 192.0.2.1 dst 192.0.2.2 " },
            if tmpl.is_empty() { "" } else { "src 192.0.2.2 dst 192.0.2.1 " },
        )
    }

    #[test]
    fn what_is_protected_is_not_protected_again_and_ike_passes() {
        let data = packet([192, 0, 2, 1], [192, 0, 2, 2], 60);
        let mut ike = data.clone();
        ike[20..24].copy_from_slice(&[1, 0xf4, 1, 0xf4]);
        for (mode, tmpl) in [("tunnel", "ends"), ("transport", "")] {
            let text = format!(
                "d :: IPsecDatabase({}); i :: TestIn -> e :: IPsecEncrypt(d) -> f :: IPsecEncrypt(d) -> o0 :: TestOut; e[1] -> o1 :: TestOut;",
                hosts(mode, tmpl)
            );
            let run = Rig::text(&text).inputs(&[&data, &ike]).run();
            assert!(run.bytes("o1").iter().eq([&ike]), "{mode}");
            let out = run.out("o0");
            assert_eq!((out.len(), out[0].data()[9], run.drops("f")), (1, 50, vec![]), "{mode}");
            let protected = u32::from_be_bytes(out[0].data()[24..28].try_into().unwrap());
            assert_eq!(protected, 1, "{mode}: once");
        }
    }

    /// Associations whose sender may be any host, and senders whose translator has moved them, so that the key daemon hears of it.
    #[test]
    fn esp_comes_from_other_addresses_where_it_may() {
        let all = format!(
            "SA src 0.0.0.0 dst 192.0.2.1 spi 0x200 mode transport aead aes-gcm {KEY} 128,
            SA src 192.0.2.2 dst 192.0.2.1 spi 0x300 mode tunnel encap espinudp 4500 4500 aead aes-gcm {KEY} 128,
            SA src 192.0.2.2 dst 192.0.2.1 spi 0x400 mode tunnel aead aes-gcm {KEY} 128,
            POLICY dir in tmpl src 192.0.2.2 dst 192.0.2.1 mode tunnel"
        );
        let from = |host: u8, protocol: u8, payload: &[u8]| {
            let mut bytes = packet([192, 0, 2, host], [192, 0, 2, 1], 60);
            bytes[9] = protocol;
            bytes[20..20 + payload.len()].copy_from_slice(payload);
            bytes
        };
        let udp = |port: u8, spi: u8| [&[9, 9, 0x11, port, 0, 40, 0, 0][..], &[0, 0, spi, 0]].concat();
        let any = from(7, 50, &[0, 0, 2, 0]);
        let moved = from(7, 17, &udp(0x94, 3));
        let inputs: [&[u8]; 5] = [
            &any,
            &moved,
            &from(7, 50, &[0, 0, 4, 0]),
            &from(7, 17, &udp(0x95, 3)),
            &from(7, 17, &udp(0x94, 4)),
        ];
        let text = format!("d :: IPsecDatabase({all}); i :: TestIn -> e :: IPsecCheck(d) -> o0 :: TestOut;");
        let run = Rig::text(&text).inputs(&inputs).run();
        assert_eq!(run.bytes("o0"), [any, moved]);
        assert_eq!(run.drops("e"), [(Reason::Unprotected, 3)]);
    }

    #[test]
    fn esp_and_ike_come_unprotected_and_forged_esp_does_not() {
        let back = |protocol: u8, ports: [u8; 4]| {
            let mut bytes = packet([192, 0, 2, 2], [192, 0, 2, 1], 60);
            bytes[9] = protocol;
            bytes[20..24].copy_from_slice(&ports);
            bytes
        };
        let (esp, stranger) = (back(50, [0, 0, 2, 0]), back(50, [0, 0, 3, 0]));
        let (ike, data) = (back(17, [9, 9, 0x11, 0x94]), back(17, [0x11, 0x94, 0, 161]));
        let text = format!(
            "d :: IPsecDatabase({}); i :: TestIn -> e :: IPsecCheck(d) -> o0 :: TestOut;",
            hosts("transport", "")
        );
        let inputs: [&[u8]; 4] = [&esp, &stranger, &ike, &data];
        let run = Rig::text(&text).inputs(&inputs).run();
        assert_eq!(run.bytes("o0"), [esp, ike]);
        assert_eq!(run.drops("e"), [(Reason::Unprotected, 2)]);
    }
}
