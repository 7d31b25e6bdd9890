// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecDecrypt
//!
//! `IPsecDecrypt(DATABASE)`
//!
//! Opens ESP packets by the associations of an IPsecDatabase, and checks that policies let what was in them come so.
//!
//! **Ports:** one push input, for packets to the router's own addresses: protocol 50, and UDP to the port of UDP encapsulation, 4500. Output 0 for the packets that were
//! protected. Output 1, if connected, for messages of IKE that came by that port: to the key daemon.
//!
//! **Arguments**
//! * `DATABASE` the IPsecDatabase.
//!
//! A packet that came by a tunnel needs a policy with `dir in` or `dir fwd` whose template fits the association. In transport mode it needs none, but if there is one, its
//! template must fit, and its source must be the association's, unless that is 0.0.0.0 or `::`, or the packet came by UDP (Linux compares
//! sources only with `sel`). If the association has a selector (`sel`), the packet must be one of its own. Fragments of ESP packets must be put together before, by IPReassembler or
//! IP6Reassembler. An ICMP error that no policy is about may come by the tunnel of the packets that it reports. Later fragments that were in a tunnel drop if a better policy, one with ports, could refuse them.
//!
//! **Metadata:** packets begin with their IP header. Sets the destination annotation to the destination of what was protected.
//!
//! **Drops:** `no-sa`, `replayed`, `outside-window`, `bad-icv`, `bad-esp`, `esp-fragment`. `wrong-sa` for packets whose association is not for them, `no-policy`, `ambiguous-fragment`,
//! `policy-discard`. `esp-dummy` for packets that carry nothing, `discarded` for keep-alives (RFC 3948). `ecn-lost` for congestion that the sender would not
//! understand. `no-output` for messages of IKE without output 1.
//!
//! **Cores:** all workers may use an association. Where packets are steered by SPI, each stays with one worker, and nothing is shared.
//!
//! ```click
//! db :: IPsecDatabase();
//! Idle -> CheckIPHeader -> c :: IPClassifier(ip proto 50 or dst udp port 4500, -);
//! c[0] -> dec :: IPsecDecrypt(db) -> Discard; dec[1] -> Discard; c[1] -> Discard;
//! ```
//!
//! See also: IPsecDatabase, IPsecEncrypt, IPsecCheck, ESPTunnel, IPReassembler. RFC 4301 (5.2), RFC 4303, RFC 3948

use std::sync::Arc;

use element::args::Args;
use element::{Class, Cx, Element, InitCx, Reason};
use ipsec::{Action, Association, Database, Direction, Flow, IpsecMode, Rule};
use packet::{Batch, Packet};
use sync::rcu::Reader;

use super::database;
use super::inbound::{Here, accept, named};
use super::outbound::in_parts;
use super::quoted::reversed;

/// The descriptor.
pub const CLASS: Class =
    Class::new("IPsecDecrypt", "1/1-2", || Box::new(IpsecDecrypt::default())).processing("h/h").file(file!());

/// The output for messages of IKE.
const IKE: usize = 1;

#[derive(Clone, Default)]
struct IpsecDecrypt {
    name: String,
    database: Option<Arc<Database>>,
}

/// Whether an opened packet may come by its association.
fn admit(
    database: &Database,
    (reader, now_ns): (&Reader, u64),
    packet: &Packet,
    association: &Association,
) -> Result<(), Reason> {
    let flow = Flow::read(packet.data()).ok_or(Reason::BadLength)?;
    let came = may_flow(database, (reader, now_ns), &flow, association);
    // An ICMP error may come by the tunnel of the packets that it reports.
    let is_elsewhere = matches!(came, Err(Reason::NoPolicy | Reason::WrongAssociation));
    if is_elsewhere
        && association.kind() != IpsecMode::Transport
        && database.arriving(&flow, reader).is_none()
        && let Some(reversed) = reversed(packet.data(), &flow)
    {
        return may_flow(database, (reader, now_ns), &reversed, association);
    }
    came
}

/// Whether packets of a flow may come by this association.
fn may_flow(
    database: &Database,
    (reader, now_ns): (&Reader, u64),
    flow: &Flow,
    association: &Association,
) -> Result<(), Reason> {
    // ESP does not protect the outer header. In transport mode, that is the packet's own: its hosts are the association's, but behind a translator, and where any host may send.
    let is_anybodys = association.sa.by_udp || association.config.src.is_unspecified();
    let is_its = if is_anybodys { association.selects(flow) } else { association.carries(flow) };
    if !is_its {
        return Err(Reason::WrongAssociation);
    }
    let Some(rule) = database.arriving(flow, reader).map(Arc::as_ref) else {
        return if association.kind() == IpsecMode::Transport { Ok(()) } else { Err(Reason::NoPolicy) };
    };
    rule.note_use(now_ns);
    may_come(rule, association)?;
    let refuses = |rival: &Rule| may_come(rival, association).is_err();
    if database.is_ambiguous((flow, Direction::In), Some(rule), reader, refuses) {
        return Err(Reason::AmbiguousFragment);
    }
    Ok(())
}

/// Whether packets of a policy may come by this association.
fn may_come(rule: &Rule, association: &Association) -> Result<(), Reason> {
    match rule.policy.action {
        Action::Discard => Err(Reason::PolicyDiscard),
        // Transport mode does not change where a packet comes from.
        Action::Bypass if association.kind() == IpsecMode::Transport => Ok(()),
        _ if Database::admits(rule, association) => Ok(()),
        _ => Err(Reason::WrongAssociation),
    }
}

impl Element for IpsecDecrypt {
    fn configure(&mut self, args: &mut Args<'_>) {
        self.name = args.required("DATABASE");
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        self.database = Some(database::find(cx, &self.name)?);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _: usize, batch: Batch) {
        let Some(database) = &self.database else { return };
        let here = Here { worker: cx.worker(), now_ns: cx.now(), ike: IKE };
        in_parts(cx, batch, 0, |part, reader| {
            database.fetch_inbound(part.iter().filter_map(named), reader);
            accept(
                part,
                (database, reader),
                here,
                |to, spi| database.inbound(to, spi, reader).map(Arc::as_ref),
                |packet, association| admit(database, (reader, here.now_ns), packet, association),
            )
        });
        database.tidy();
    }
}

#[cfg(test)]
mod tests {
    use super::super::database::tests::{KEY, POLICIES, associations, packet};
    use super::*;
    use crate::testing::Rig;

    /// What a peer's gateway makes of packets from 10.2.0.0/16.
    fn protected(inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let peer = "POLICY src 10.0.0.0/8 dst 10.0.0.0/8 dir out tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel";
        let text = format!(
            "d :: IPsecDatabase({}, {peer}); i :: TestIn -> e :: IPsecEncrypt(d) -> o0 :: TestOut;",
            associations()
        );
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        Rig::text(&text).inputs(&inputs).run().bytes("o0")
    }

    fn open(database: &str, inputs: &[Vec<u8>]) -> crate::testing::Run {
        let text =
            format!("d :: IPsecDatabase({database}); i :: TestIn -> e :: IPsecDecrypt(d) -> o0 :: TestOut;");
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        Rig::text(&text).outputs(2).inputs(&inputs).run()
    }

    #[test]
    fn what_was_protected_comes_out_once() {
        let clear: Vec<_> = [60, 1000, 28].map(|len| packet([10, 2, 0, 1], [10, 1, 0, 1], len)).into();
        let mut inputs = protected(&clear);
        inputs.push(inputs[1].clone());
        let mut forged = inputs[0].clone();
        forged[30] ^= 1;
        inputs.push(forged);
        let mut run = open(&format!("{}, {POLICIES}", associations()), &inputs);
        let out = run.out("o0");
        assert_eq!(out.iter().map(|packet| packet.data()).collect::<Vec<_>>(), clear);
        assert_eq!(out[0].dst_ip(), [10, 1, 0, 1]);
        let mut drops = run.drops("e");
        drops.sort();
        assert_eq!(drops, [(Reason::Replayed, 1), (Reason::BadIcv, 1)]);
        let sas = run.read("d.sas");
        assert!(sas.contains("packets 3 replayed 1 outside-window 0 bad-icv 1"), "{sas}");
    }

    #[test]
    fn each_of_many_tunnels_has_its_own_key_and_counters() {
        let tunnels = 300;
        let database = |dir: &str| {
            let of = |n: usize| {
                let ends = "src 192.0.2.2 dst 192.0.2.1";
                let (high, low, reqid) = (n >> 8, n & 255, n + 1);
                format!(
                    "SA {ends} spi {} reqid {reqid} mode tunnel aead aes-gcm 0x{n:040x} 128, POLICY dir {dir} dst 10.{high}.{low}.0/24 tmpl {ends} reqid {reqid} mode tunnel",
                    n + 0x1000
                )
            };
            (0..tunnels).map(of).collect::<Vec<_>>().join(", ")
        };
        let to = |n: usize| packet([10, 9, 0, 1], [10, (n >> 8) as u8, n as u8, 1], 60 + n);
        let mut clear: Vec<_> = (0..tunnels).chain(0..tunnels).map(to).collect();
        // Some without a tunnel.
        clear.push(packet([10, 9, 0, 1], [10, 3, 0, 1], 60));
        let inputs: Vec<&[u8]> = clear.iter().map(Vec::as_slice).collect();
        let text = format!(
            "d :: IPsecDatabase({}); f :: IPsecDatabase({}); i :: TestIn -> e :: IPsecEncrypt(d, DEFAULT discard) -> x :: IPsecDecrypt(f) -> o0 :: TestOut;",
            database("out"),
            database("fwd")
        );
        let mut run = Rig::text(&text).burst(256).inputs(&inputs).run();
        clear.pop();
        assert!(run.bytes("o0") == clear);
        assert_eq!((run.drops("e"), run.drops("x")), (vec![(Reason::NoPolicy, 1)], vec![]));
        for sas in [run.read("d.sas"), run.read("f.sas")] {
            assert_eq!(sas.matches(" packets 2 ").count(), tunnels);
        }
    }

    #[test]
    fn policies_must_let_it_come() {
        let all = |policies: &str| format!("{}, {policies}", associations());
        let drops = |policies: &str, src| {
            open(&all(policies), &protected(&[packet(src, [10, 1, 0, 1], 60)])).drops("e")
        };
        assert_eq!(drops(POLICIES, [10, 3, 0, 1]), [(Reason::NoPolicy, 1)]);
        assert_eq!(drops(POLICIES, [10, 66, 0, 1]), [(Reason::PolicyDiscard, 1)]);
        let open_to_all = "POLICY dir fwd src 10.0.0.0/8 dst 10.0.0.0/8";
        assert_eq!(drops(open_to_all, [10, 2, 0, 1]), [(Reason::WrongAssociation, 1)]);
        let other = "POLICY dir fwd src 10.0.0.0/8 dst 10.0.0.0/8 tmpl src 192.0.2.2 dst 192.0.2.1 reqid 2 mode tunnel";
        assert_eq!(drops(other, [10, 2, 0, 1]), [(Reason::WrongAssociation, 1)]);
    }

    #[test]
    fn in_transport_mode_nobody_sends_for_another() {
        let between = |src: &str, policy: &str| {
            format!(
                "SA src {src} dst 192.0.2.1 spi 0x200 mode transport aead aes-gcm {KEY} 128, POLICY src 192.0.2.0/24 dst 192.0.2.1 {policy} tmpl mode transport"
            )
        };
        let came = |known: &str, from: u8| {
            let text = format!(
                "d :: IPsecDatabase({}); i :: TestIn -> e :: IPsecEncrypt(d) -> o0 :: TestOut;",
                between("192.0.2.2", "dir out")
            );
            let clear = packet([192, 0, 2, 2], [192, 0, 2, 1], 60);
            let mut esp = Rig::text(&text).inputs(&[&clear]).run().bytes("o0").remove(0);
            esp[15] = from;
            open(&between(known, "dir in"), &[esp]).drops("e")
        };
        assert_eq!(came("192.0.2.2", 2), []);
        assert_eq!(came("192.0.2.2", 3), [(Reason::WrongAssociation, 1)]);
        assert_eq!(came("0.0.0.0", 3), [(Reason::WrongAssociation, 1)], "it is not of the policy's hosts");
    }

    #[test]
    fn late_packets_and_dummies_are_named() {
        let small = associations().replace("mode tunnel", "mode tunnel replay-window 32");
        let mut inputs = protected(&vec![packet([10, 2, 0, 1], [10, 1, 0, 1], 60); 40]);
        inputs.rotate_left(1);
        let run = open(&format!("{small}, {POLICIES}"), &inputs);
        assert_eq!((run.out("o0").len(), run.drops("e")), (39, vec![(Reason::OutsideWindow, 1)]));
        let text = associations().split("SA ").nth(2).map(str::to_owned).unwrap();
        let sa = esp::Sa::new(&ipsec::text::parse_association(&text).unwrap().esp).unwrap();
        let ends = ([192, 0, 2, 2].into(), [192, 0, 2, 1].into());
        let (mut dummy, at) = esp::outbound::dummy(&sa, ends, 1, (100, 1500)).unwrap();
        esp::seal(&mut [esp::outbound::part(&mut dummy, &sa, at, 1)]);
        let run = open(&format!("{}, {POLICIES}", associations()), &[dummy.data().to_vec()]);
        assert_eq!(run.drops("e"), [(Reason::EspDummy, 1)]);
    }

    #[test]
    fn what_is_no_esp_of_ours_is_named() {
        let mut esp = protected(&[packet([10, 2, 0, 1], [10, 1, 0, 1], 60)]).remove(0);
        let udp = |payload: &[u8]| {
            let mut bytes = packet([192, 0, 2, 2], [192, 0, 2, 1], 28 + payload.len());
            bytes[28..].copy_from_slice(payload);
            bytes[20..24].copy_from_slice(&[0x11, 0x94, 0x11, 0x94]);
            bytes
        };
        let cut = esp[..25].to_vec();
        let ike = udp(&[0, 0, 0, 0, 1, 2, 3]);
        let forged = {
            let mut forged = esp.clone();
            let last = forged.len() - 1;
            forged[last] ^= 0x80;
            forged
        };
        esp[23] ^= 9;
        let inputs = [esp, cut, ike.clone(), udp(&[0xff]), forged];
        let run = open(&format!("{}, {POLICIES}", associations()), &inputs);
        assert_eq!(run.bytes("o1"), [ike]);
        let mut drops = run.drops("e");
        drops.sort();
        let mut want = vec![
            (Reason::Discarded, 1),
            (Reason::NoAssociation, 1),
            (Reason::BadEsp, 1),
            (Reason::BadIcv, 1),
        ];
        want.sort();
        assert_eq!(drops, want);
    }
}
