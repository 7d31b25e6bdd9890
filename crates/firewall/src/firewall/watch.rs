// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that the firewall reads, because they may announce connections.

use tables::flow::{Direction, FlowTable};

use super::related::{AnnouncedCounts, Ends, Parent, Service, swapped};
use super::{Addresses, Ahead, Entry, Firewall, Prepared};
use crate::policy::Facts;
use crate::seen::{Part, Seen, payload};
use crate::track::{ACK, SYN, State};

/// What is known of the connection of a packet.
struct Found {
    /// Whether the packet is from the side that was asked.
    is_from_server: bool,
    /// The port of that side.
    server_port: u16,
    state: State,
}

impl Firewall {
    /// What has become of announced connections, by protocol.
    pub fn announced(&self) -> [(Service, AnnouncedCounts); 2] {
        let counts = self.related.counts();
        Service::ALL.map(|service| (service, counts[service as usize]))
    }

    /// What is known of the connection of a packet.
    fn found(&self, ahead: &Ahead) -> Option<Found> {
        fn of<K: Addresses>(table: &FlowTable<Entry, K>, key: &tables::flow::Prepared<K>) -> Option<Found> {
            // Another index may have come since the key was prepared.
            let hit = table.lookup(&key.key())?;
            let flow = table.flow(hit.id)?;
            Some(Found {
                is_from_server: hit.direction == Direction::Reply,
                server_port: flow.forward.parts().3[1],
                state: flow.value.track.state(),
            })
        }
        match &ahead.key {
            Prepared::None => None,
            Prepared::Four(key) => of(&self.four.table, key),
            Prepared::Six(key) => of(&self.six.table, key),
        }
    }

    /// Reads a packet that passes, if its protocol may announce connections.
    #[inline]
    pub(super) fn watch(&mut self, now_ns: u64, ahead: &Ahead, ip: &[u8]) {
        let Ok(seen) = &ahead.seen else { return };
        let Some(ports) = seen.facts.ports else { return };
        if let Some(service) = Service::of(self.ruleset.policy.algs, seen.facts.protocol, ports) {
            self.read(now_ns, service, seen, ahead, ip);
        }
    }

    #[cold]
    fn read(&mut self, now_ns: u64, service: Service, seen: &Seen, ahead: &Ahead, ip: &[u8]) {
        // What is not whole, or of no connection, announces nothing.
        let Some(known) = self.found(ahead).filter(|_| seen.fragment.is_none()) else { return };
        if known.server_port != service.port() {
            return;
        }
        let Facts { source, destination, ports: Some([from, to]), .. } = seen.facts else { return };
        let (sender, receiver) = ((source, from), (destination, to));
        let ends = match known.is_from_server {
            true => Ends { vrfs: swapped(seen.facts.vrfs), client: receiver, server: sender },
            false => Ends { vrfs: seen.facts.vrfs, client: sender, server: receiver },
        };
        match (service, &seen.part) {
            // The client starts another connection, and its server agrees.
            (Service::Ftp, Part::Tcp(segment))
                if segment.flags & (SYN | ACK) == SYN | ACK && known.state == State::Answered =>
            {
                self.related.forget(&ends);
            }
            // Another SYN may be a stray.
            (Service::Ftp, Part::Tcp(segment)) if segment.flags & SYN != 0 => {}
            (Service::Ftp, Part::Tcp(segment)) if matches!(known.state, State::Open | State::HalfClosed) => {
                let text = payload(ip).unwrap_or_default();
                self.related.read_ftp(now_ns, ends, known.is_from_server, segment.sequence, text);
            }
            (Service::Tftp, _) if !known.is_from_server => {
                self.related.read_tftp(now_ns, ends, payload(ip).unwrap_or_default());
            }
            _ => {}
        }
    }
}

impl Parent {
    /// What rules saw of the parent's first packet, as far as it is known, of what they would see of the announced connection's.
    pub(super) fn facts(self, announced: Facts) -> Facts {
        let swapped = Facts {
            from: announced.to,
            to: announced.from,
            vrfs: swapped(announced.vrfs),
            source: announced.destination,
            destination: announced.source,
            ..announced
        };
        let facts = if self.is_from_server { swapped } else { announced };
        let ports = Some([self.client_port, self.service.port()]);
        Facts { protocol: self.service.protocol(), ports, ..facts }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::tests::{INSIDE, OUTSIDE, PASS, REFUSED, SECOND, firewall, ip, ports, ruleset, swap};
    use super::*;
    use crate::policy::UDP;
    use crate::track::FIN;

    const FTP: &str = "accept from inside to outside tcp port 21 log\naccept from outside to inside tcp port 21 dst 10.0.0.9,2001:db8::9\n";

    /// A connection whose segments are given one after the other.
    struct Talk {
        client: (String, u16),
        server: (String, u16),
        zones: [u8; 2],
        numbers: [u32; 2],
    }

    impl Talk {
        fn segment(&self, of_server: bool, flags: u8, text: &str) -> Vec<u8> {
            let [mut from, mut to] = [&self.client, &self.server];
            if of_server {
                (from, to) = (to, from);
            }
            let (mine, other) = (usize::from(of_server), usize::from(!of_server));
            let mut payload = ports(from.1, to.1);
            payload.extend(self.numbers[mine].to_be_bytes());
            payload.extend(self.numbers[other].to_be_bytes());
            payload.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
            payload.extend(text.as_bytes());
            ip(6, &from.0, &to.0, &payload)
        }

        /// One side sends a segment.
        fn send(&mut self, fw: &mut Firewall, of_server: bool, flags: u8, text: &str) -> Verdict {
            let packet = self.segment(of_server, flags, text);
            let [from, to] = if of_server { [self.zones[1], self.zones[0]] } else { self.zones };
            let verdict = fw.judge(SECOND, &packet, from, to).verdict;
            let number = &mut self.numbers[usize::from(of_server)];
            *number = number.wrapping_add(text.len() as u32 + u32::from(flags & SYN != 0));
            verdict
        }

        fn open(fw: &mut Firewall, client: (&str, u16), server: (&str, u16), zones: [u8; 2]) -> Talk {
            let own = |(address, port): (&str, u16)| (address.to_owned(), port);
            let mut talk =
                Talk { client: own(client), server: own(server), zones, numbers: [u32::MAX - 20, 7000] };
            for (of_server, flags) in [(false, SYN), (true, SYN | ACK), (false, ACK)] {
                assert_eq!(talk.send(fw, of_server, flags, ""), PASS);
            }
            // What comes first may be the rest of a line.
            talk.says(fw, true, "220 hello\r\n");
            talk.says(fw, false, "USER me\r\n");
            talk
        }

        fn says(&mut self, fw: &mut Firewall, of_server: bool, text: &str) {
            assert_eq!(self.send(fw, of_server, ACK, text), PASS);
        }
    }

    fn syn(from: (&str, u16), to: (&str, u16)) -> Vec<u8> {
        let mut payload = ports(from.1, to.1);
        payload.extend([0, 0, 0, 9, 0, 0, 0, 0, 0x50, SYN, 0x20, 0, 0, 0, 0, 0]);
        ip(6, from.0, to.0, &payload)
    }

    const HOSTS: [[&str; 2]; 2] = [["10.0.0.2", "192.0.2.1"], ["2001:db8::2", "2001:db8:1::1"]];

    #[test]
    fn a_client_inside_is_called_back() {
        for [host, server] in HOSTS {
            let mut fw = firewall(FTP);
            let mut talk = Talk::open(&mut fw, (host, 4000), (server, 21), [INSIDE, OUTSIDE]);
            let data = syn((server, 20), (host, 1025));
            assert_eq!(fw.judge(SECOND, &data, OUTSIDE, INSIDE).verdict, REFUSED);
            let six = host.contains(':');
            // In two segments, and one of them twice.
            let text = if six { format!("EPRT |2|{host}|1025|\r\n") } else { "PORT 10,0,0,2,4,1\r\n".into() };
            let (first, rest) = text.split_at(7);
            talk.says(&mut fw, true, "220 hello\r\n");
            talk.says(&mut fw, false, first);
            talk.numbers[0] = talk.numbers[0].wrapping_sub(7);
            talk.says(&mut fw, false, first);
            talk.says(&mut fw, false, rest);
            for (from, to, zones) in [
                ((server, 20), (host, 1026), [OUTSIDE, INSIDE]),
                ((host, 20), (server, 1025), [OUTSIDE, INSIDE]),
                ((if six { "2001:db8:1::7" } else { "192.0.2.7" }, 20), (host, 1025), [OUTSIDE, INSIDE]),
                // By a link of another zone.
                ((server, 20), (host, 1025), [INSIDE, OUTSIDE]),
            ] {
                assert_eq!(
                    fw.judge(SECOND, &syn(from, to), zones[0], zones[1]).verdict,
                    REFUSED,
                    "{from:?} {to:?}"
                );
            }
            // What would happen changes nothing.
            assert_eq!(fw.rehearse(SECOND, &data, OUTSIDE, INSIDE).verdict, PASS);
            let decision = fw.judge(SECOND, &data, OUTSIDE, INSIDE);
            assert_eq!((decision.verdict, decision.is_related, decision.logs), (PASS, true, true));
            let why = fw.ruleset().clone().explain(&decision);
            assert!(why.starts_with("announced by a connection that was accepted by line 3: "), "{why}");
            // Once only.
            assert_eq!(fw.judge(SECOND, &syn((server, 21), (host, 1025)), OUTSIDE, INSIDE).verdict, REFUSED);
            let related: Vec<_> = fw.connections().filter(|c| c.parent.is_some()).collect();
            assert_eq!((related.len(), related[0].ports, related[0].rule), (1, [20, 1025], Some(0)));
            assert_eq!(fw.announced()[0].1, AnnouncedCounts { announced: 1, begun: 1, refused: 0 });
            // Rules that allow its parent allow it.
            assert!(!fw.ruleset().refuses(&related[0], 0));
            let stricter = ruleset("accept from inside to outside tcp port 22");
            assert!(stricter.refuses(&related[0], 0));
        }
    }

    #[test]
    fn a_server_inside_is_called_where_it_waits() {
        for ([_, client], server) in HOSTS.into_iter().zip(["10.0.0.9", "2001:db8::9"]) {
            for (asks, answer) in [
                ("PASV\r\n", "227 Entering Passive Mode (10,0,0,9,4,1).\r\n"),
                ("EPSV\r\n", "229 Entering Extended Passive Mode (|||1025|)\r\n"),
            ] {
                let mut fw = firewall(FTP);
                let mut talk = Talk::open(&mut fw, (client, 4000), (server, 21), [OUTSIDE, INSIDE]);
                let data = syn((client, 4001), (server, 1025));
                // Nobody has asked.
                talk.says(&mut fw, true, answer);
                assert_eq!(fw.judge(SECOND, &data, OUTSIDE, INSIDE).verdict, REFUSED);
                talk.says(&mut fw, false, asks);
                talk.says(&mut fw, true, answer);
                let is_possible = !(answer.starts_with("227") && server.contains(':'));
                let verdict = if is_possible { PASS } else { REFUSED };
                // It is over after a minute.
                assert_eq!(fw.rehearse(61 * SECOND, &data, OUTSIDE, INSIDE).verdict, REFUSED);
                assert_eq!(
                    fw.judge(60 * SECOND, &data, OUTSIDE, INSIDE).verdict,
                    verdict,
                    "{server} {answer}"
                );
            }
        }
    }

    #[test]
    fn nobody_opens_a_way_to_others() {
        let server = |fw: &mut Firewall, text: &str, expected: Verdict, to: (&str, u16)| {
            let mut talk = Talk::open(fw, ("192.0.2.1", 4000), ("10.0.0.9", 21), [OUTSIDE, INSIDE]);
            talk.says(fw, false, "PASV\r\n");
            talk.says(fw, true, text);
            assert_eq!(
                fw.judge(SECOND, &syn(("192.0.2.1", 9), to), OUTSIDE, INSIDE).verdict,
                expected,
                "{text}"
            );
        };
        let client = |fw: &mut Firewall, text: &str, from: &str, to: (&str, u16)| {
            let mut talk = Talk::open(fw, ("10.0.0.2", 4000), ("192.0.2.1", 21), [INSIDE, OUTSIDE]);
            talk.says(fw, false, text);
            assert_eq!(fw.judge(SECOND, &syn((from, 9), to), OUTSIDE, INSIDE).verdict, REFUSED, "{text}");
        };
        server(&mut firewall(FTP), "227 (10,0,0,9,4,1)\r\n", PASS, ("10.0.0.9", 1025));
        server(&mut firewall(FTP), "227 (10,0,0,8,4,1)\r\n", REFUSED, ("10.0.0.8", 1025));
        server(&mut firewall(FTP), "227 (10,0,0,9,0,22)\r\n", REFUSED, ("10.0.0.9", 22));
        server(
            &mut firewall(&format!("{FTP}alg ftp off\n")),
            "227 (10,0,0,9,4,1)\r\n",
            REFUSED,
            ("10.0.0.9", 1025),
        );
        client(&mut firewall(FTP), "PORT 10,0,0,3,4,1\r\n", "192.0.2.1", ("10.0.0.3", 1025));
        client(&mut firewall(FTP), "PORT 10,0,0,2,0,22\r\n", "192.0.2.1", ("10.0.0.2", 22));
        client(&mut firewall(FTP), "STOR PORT 10,0,0,2,4,1\r\n", "192.0.2.1", ("10.0.0.2", 1025));
        // A connection from port 21 is no control connection.
        let mut fw = firewall("accept from inside to outside");
        let mut talk = Talk::open(&mut fw, ("10.0.0.2", 21), ("192.0.2.1", 4000), [INSIDE, OUTSIDE]);
        talk.says(&mut fw, false, "PORT 10,0,0,2,4,1\r\n");
        assert_eq!(
            fw.judge(SECOND, &syn(("192.0.2.1", 9), ("10.0.0.2", 1025)), OUTSIDE, INSIDE).verdict,
            REFUSED
        );
    }

    #[test]
    fn a_control_connection_awaits_one_connection_and_ends_with_it() {
        let mut fw = firewall(FTP);
        let (host, server) = ("10.0.0.2", "192.0.2.1");
        let mut talk = Talk::open(&mut fw, (host, 4000), (server, 21), [INSIDE, OUTSIDE]);
        for port in [1, 2, 3] {
            talk.says(&mut fw, false, &format!("PORT 10,0,0,2,4,{port}\r\n"));
        }
        for (port, verdict) in [(1025, REFUSED), (1026, REFUSED), (1027, PASS)] {
            let data = syn((server, 20), (host, port));
            assert_eq!(fw.rehearse(SECOND, &data, OUTSIDE, INSIDE).verdict, verdict);
        }
        // The parent is gone.
        fw.end_of(0, host.parse().unwrap(), server.parse().unwrap(), 6, [4000, 21]);
        assert_eq!(fw.judge(SECOND, &syn((server, 20), (host, 1027)), OUTSIDE, INSIDE).verdict, REFUSED);
        // The same ports again, with other numbers.
        let mut talk = Talk::open(&mut fw, (host, 4000), (server, 21), [INSIDE, OUTSIDE]);
        talk.says(&mut fw, false, "PORT 10,0,0,2,4,9\r\n");
        assert_eq!(fw.judge(SECOND, &syn((server, 20), (host, 1033)), OUTSIDE, INSIDE).verdict, PASS);
    }

    /// A server repeats what its client says, in two segments, and the second one looks like its answer.
    fn repeat(fw: &mut Firewall, talk: &mut Talk, between: impl FnOnce(&mut Firewall, &mut Talk)) -> Verdict {
        talk.says(fw, false, "X227 (10,0,0,9,19,137)\r\n");
        talk.says(fw, true, "500 'X");
        between(fw, talk);
        talk.says(fw, false, "PASV\r\n");
        talk.says(fw, true, "227 (10,0,0,9,19,137)': unknown\r\n");
        fw.judge(SECOND, &syn(("192.0.2.1", 9), ("10.0.0.9", 5001)), OUTSIDE, INSIDE).verdict
    }

    #[test]
    fn the_rest_of_a_line_opens_nothing() {
        // A SYN of either side that passes as a stray.
        for of_server in [false, true] {
            let mut fw = firewall(FTP);
            let mut talk = Talk::open(&mut fw, ("192.0.2.1", 4000), ("10.0.0.9", 21), [OUTSIDE, INSIDE]);
            let verdict = repeat(&mut fw, &mut talk, |fw, talk| {
                assert_eq!(talk.send(fw, of_server, SYN, ""), PASS);
                let number = &mut talk.numbers[usize::from(of_server)];
                *number = number.wrapping_sub(1);
            });
            assert_eq!(verdict, REFUSED, "{of_server}");
        }
        // So many others that this one gives way.
        let mut fw = firewall(FTP);
        let mut talk = Talk::open(&mut fw, ("192.0.2.1", 4000), ("10.0.0.9", 21), [OUTSIDE, INSIDE]);
        let verdict = repeat(&mut fw, &mut talk, |fw, _| {
            for port in 5000..5000 + 8192 {
                Talk::open(fw, ("192.0.2.1", port), ("10.0.0.9", 21), [OUTSIDE, INSIDE]);
            }
        });
        assert_eq!(verdict, REFUSED);
    }

    #[test]
    fn a_stray_syn_is_not_the_end_of_a_control_connection() {
        for of_server in [false, true] {
            let mut fw = firewall(FTP);
            let mut talk = Talk::open(&mut fw, ("192.0.2.1", 4000), ("10.0.0.9", 21), [OUTSIDE, INSIDE]);
            talk.says(&mut fw, false, "PASV\r\n");
            assert_eq!(talk.send(&mut fw, of_server, SYN, ""), PASS);
            let number = &mut talk.numbers[usize::from(of_server)];
            *number = number.wrapping_sub(1);
            talk.says(&mut fw, true, "227 (10,0,0,9,4,1)\r\n");
            let data = syn(("192.0.2.1", 9), ("10.0.0.9", 1025));
            assert_eq!(fw.judge(SECOND, &data, OUTSIDE, INSIDE).verdict, PASS, "{of_server}");
        }
    }

    #[test]
    fn one_client_does_not_push_out_announcements_of_others() {
        let mut fw = firewall(FTP);
        let mut talk = Talk::open(&mut fw, ("10.0.0.2", 4000), ("192.0.2.1", 21), [INSIDE, OUTSIDE]);
        talk.says(&mut fw, false, "PORT 10,0,0,2,4,1\r\n");
        let mut other = Talk::open(&mut fw, ("10.0.0.3", 4000), ("192.0.2.1", 21), [INSIDE, OUTSIDE]);
        for n in 0..10_000 {
            // The same port often, and many ports.
            let port = if n % 2 == 0 { 9 } else { n % 256 };
            other.says(&mut fw, false, &format!("PORT 10,0,0,3,9,{port}\r\n"));
            other.says(&mut fw, true, "");
        }
        assert_eq!(fw.related.sizes(), [2, 2, 2, 2]);
        let data = syn(("192.0.2.1", 20), ("10.0.0.2", 1025));
        assert_eq!(fw.judge(SECOND, &data, OUTSIDE, INSIDE).verdict, PASS);
    }

    #[test]
    fn other_rules_do_not_disturb_announcements() {
        let mut fw = firewall(FTP);
        let mut talk = Talk::open(&mut fw, ("10.0.0.2", 4000), ("192.0.2.1", 21), [INSIDE, OUTSIDE]);
        talk.says(&mut fw, false, "PORT 10,0,0,2,4,1\r\n");
        swap(&mut fw, ruleset("drop\n"));
        let data = syn(("192.0.2.1", 20), ("10.0.0.2", 1025));
        let decision = fw.judge(SECOND, &data, OUTSIDE, INSIDE);
        assert_eq!((decision.verdict, decision.rule), (PASS, None));
    }

    #[test]
    fn announcements_take_bounded_room() {
        let mut fw = firewall("accept from inside to outside udp,tcp\nalg tftp on\n");
        for n in 0..20_000u32 {
            let [a, b, ..] = n.to_le_bytes();
            let payload = [ports(2000, 69), vec![0, 12, 0, 0], b"\0\x01x\0octet\0".to_vec()].concat();
            let packet = ip(UDP, &format!("10.1.{b}.{a}"), "192.0.2.1", &payload);
            assert_eq!(fw.judge(SECOND, &packet, INSIDE, OUTSIDE).verdict, PASS);
            let mut talk =
                Talk::open(&mut fw, (&format!("10.2.{b}.{a}"), 4000), ("192.0.2.1", 21), [INSIDE, OUTSIDE]);
            talk.says(&mut fw, false, &format!("PORT 10,2,{b},{a},9,9\r\n"));
        }
        assert!(fw.related.sizes().iter().all(|size| *size <= 8192), "{:?}", fw.related.sizes());
    }

    #[test]
    fn servers_of_tftp_answer_from_any_port() {
        for [host, server] in HOSTS {
            let datagram = |from: (&str, u16), to: (&str, u16), text: &[u8]| {
                let length = (8 + text.len()) as u16;
                let payload = [ports(from.1, to.1), length.to_be_bytes().to_vec(), vec![0, 0], text.to_vec()];
                ip(UDP, from.0, to.0, &payload.concat())
            };
            let asks = datagram((host, 2000), (server, 69), b"\0\x01hello\0octet\0");
            let answers = datagram((server, 3000), (host, 2000), b"\0\x03\0\x01data");
            for (alg, verdict) in [("", REFUSED), ("alg tftp on", PASS)] {
                let mut fw = firewall(&format!("accept from inside to outside\n{alg}\n"));
                assert_eq!(fw.judge(0, &answers, OUTSIDE, INSIDE).verdict, REFUSED);
                assert_eq!(fw.judge(0, &asks, INSIDE, OUTSIDE).verdict, PASS);
                assert_eq!(fw.judge(0, &answers, OUTSIDE, INSIDE).verdict, verdict);
                // A second server port is another connection.
                let other = datagram((server, 3001), (host, 2000), b"\0\x03\0\x01data");
                assert_eq!(fw.judge(0, &other, OUTSIDE, INSIDE).verdict, REFUSED);
                let more = datagram((host, 2000), (server, 3000), b"\0\x04\0\x01");
                assert_eq!(fw.judge(0, &more, INSIDE, OUTSIDE).verdict, PASS);
            }
        }
    }

    #[test]
    fn closed_control_connections_announce_nothing() {
        let mut fw = firewall(FTP);
        let mut talk = Talk::open(&mut fw, ("10.0.0.2", 4000), ("192.0.2.1", 21), [INSIDE, OUTSIDE]);
        talk.says(&mut fw, false, "PORT 10,0,0,2,4,1\r\n");
        for (of_server, flags) in [(false, FIN | ACK), (true, FIN | ACK), (false, ACK)] {
            assert_eq!(talk.send(&mut fw, of_server, flags, ""), PASS);
            let number = &mut talk.numbers[usize::from(of_server)];
            *number = number.wrapping_add(u32::from(flags & FIN != 0));
        }
        let data = syn(("192.0.2.1", 20), ("10.0.0.2", 1025));
        assert_eq!(fw.judge(SECOND, &data, OUTSIDE, INSIDE).verdict, REFUSED);
    }
}
