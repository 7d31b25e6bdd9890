// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking for all that the packets of a batch will need, before the first of them is worked on.
//!
//! From a packet's addresses to the key of its association it is a chain of loads, and with many tunnels each of them waits for memory. So each step is done for all packets of
//! the batch before the next one: while the line of one packet is on its way, the others are asked for. Nothing is decided here. Each packet is looked up again
//! afterwards, when all it needs is near. Small tables are left out, since they are near anyway.
//!
//! ```text
//! policy out    cell -> bucket -> rule -> target -> version -> association, key -> counters
//! association   cell -> bucket -> association, key -> counters, window
//! policy in     cell -> bucket -> rule
//! ```

use arrayvec::ArrayVec;
use sync::prefetch::{prefetch, prefetch_at};
use sync::rcu::Reader;

use super::{Database, hash};
use crate::association::{Association, Id};
use crate::selector::Flow;

/// Packets that are asked for together.
pub const AHEAD: usize = 64;

/// Something for each packet of a batch, and the packet's length in bytes.
type Each<T> = ArrayVec<(T, usize), AHEAD>;

impl Database {
    /// Asks for what [`outbound`](Self::outbound) finds, and for what protects the packets. They are given with their lengths in bytes, and from the `AHEAD`th on they are passed over.
    /// None is taken while there are few policies.
    #[inline]
    pub fn fetch_outbound(&self, flows: impl Iterator<Item = (Flow, usize)>, reader: &Reader) {
        if self.policies[0].is_large(reader) {
            self.fetch_to_send(&flows.take(AHEAD).collect(), reader);
        }
    }

    #[inline(never)]
    fn fetch_to_send(&self, flows: &Each<Flow>, reader: &Reader) {
        let mut targets: Each<_> = ArrayVec::new();
        for (rule, len) in self.policies[0].fetch(flows, reader) {
            if let Some(target) = &rule.target {
                prefetch(&**target);
                targets.push((target, len));
            }
        }
        targets.iter().for_each(|(target, _)| target.fetch(reader));
        let mut associations: Each<&Association> = ArrayVec::new();
        for (target, len) in targets {
            let Some(association) = target.current(reader) else { continue };
            prefetch(&**association);
            association.sa.lines_to_send(len).for_each(prefetch_at);
            associations.push((association, len));
        }
        for (association, _) in associations {
            association.lines.fetch();
            prefetch_at(association.sa.line_of_numbers());
        }
    }

    /// Asks for what [`inbound`](Self::inbound) finds, and for what opens the packets. They are given by the association that they name, the low bits of their number, and their
    /// length in bytes, and from the `AHEAD`th on they are passed over. None is taken while there are few associations.
    #[inline]
    pub fn fetch_inbound(&self, named: impl Iterator<Item = (Id, u32, usize)>, reader: &Reader) {
        if self.associations.is_large(reader) {
            self.fetch_to_open(&named.take(AHEAD).collect(), reader);
        }
    }

    #[inline(never)]
    fn fetch_to_open(&self, named: &ArrayVec<(Id, u32, usize), AHEAD>, reader: &Reader) {
        let hashes: ArrayVec<u64, AHEAD> = named.iter().map(|(id, ..)| hash(*id)).collect();
        hashes.iter().for_each(|hash| self.associations.fetch_cell(*hash, reader));
        hashes.iter().for_each(|hash| self.associations.fetch_bucket(*hash, reader));
        let mut associations: ArrayVec<(&Association, u32), AHEAD> = ArrayVec::new();
        for (hash, (id, low, len)) in hashes.iter().zip(named) {
            let mut entries = self.associations.of(*hash, reader).into_iter();
            let Some((_, association)) = entries.find(|(other, _)| other == id) else { continue };
            prefetch(&**association);
            association.sa.lines_to_open(*len).for_each(prefetch_at);
            associations.push((association, *low));
        }
        for (association, low) in associations {
            association.lines.fetch();
            prefetch_at(association.sa.window.line_of(low));
        }
    }

    /// Asks for what [`arriving`](Self::arriving) finds. From the `AHEAD`th on, packets are passed over. None is taken while there are few policies.
    #[inline]
    pub fn fetch_arriving(&self, flows: impl Iterator<Item = Flow>, reader: &Reader) {
        if self.policies[1].is_large(reader) {
            let flows: Each<Flow> = flows.take(AHEAD).map(|flow| (flow, 0)).collect();
            self.policies[1].fetch(&flows, reader);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{parse_association, parse_policy};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use sync::rcu::Domain;
    use wire::Protocol;

    const TUNNELS: u32 = 900;

    fn net(number: u32, is_six: bool) -> IpAddr {
        match is_six {
            false => Ipv4Addr::from_bits(0x0a00_0001 | number << 8).into(),
            true => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64 | 1).into(),
        }
    }

    fn flow(number: u32, is_six: bool) -> Flow {
        let (src, protocol) = (net(0, is_six), Protocol::UDP);
        Flow { src, dst: net(number, is_six), protocol, ports: Some((1, 2)) }
    }

    /// Tunnels to networks of both families, and every third one without an association.
    fn gateway(domain: &Domain) -> Database {
        let database = Database::new(domain, 1);
        for number in 0..TUNNELS {
            let (reqid, spi) = (number + 1, number + 0x1000);
            if number % 3 > 0 {
                let key = "0x000102030405060708090a0b0c0d0e0f10111213";
                let ends = "src 192.0.2.1 dst 192.0.2.2";
                let sa = format!("{ends} spi {spi} reqid {reqid} mode tunnel aead aes-gcm {key} 128");
                database.add(parse_association(&sa).unwrap(), false, 0).unwrap();
            }
            for (is_six, all, len, dir) in
                [(false, "0.0.0.0/0", 24, "out"), (true, "::/0", 64, "out"), (false, "0.0.0.0/0", 24, "fwd")]
            {
                let tmpl = format!("tmpl src 192.0.2.1 dst 192.0.2.2 reqid {reqid} mode tunnel");
                let net = wire::Prefix::new(net(number, is_six), len).unwrap();
                let policy = format!("src {all} dst {net} dir {dir} {tmpl}");
                database.set_policy(parse_policy(&policy).unwrap(), false).unwrap();
            }
        }
        database
    }

    #[test]
    fn it_changes_nothing_that_packets_find() {
        let domain = Domain::default();
        let database = gateway(&domain);
        let reader = domain.register("test");
        // More than are asked for together, both families by turns, some without a policy.
        let flows: Vec<_> = (0..TUNNELS + 50).flat_map(|n| [flow(n, false), flow(n, true)]).collect();
        let found = || -> Vec<_> {
            let rule = |flow| database.outbound(flow, &reader).map(|rule| rule.order);
            let arriving = |flow| database.arriving(flow, &reader).map(|rule| rule.order);
            flows.iter().map(|flow| (rule(flow), arriving(flow))).collect()
        };
        let before = found();
        for flows in flows.chunks(100) {
            database.fetch_outbound(flows.iter().map(|flow| (*flow, 60)), &reader);
            database.fetch_arriving(flows.iter().copied(), &reader);
        }
        let dst = IpAddr::from([192, 0, 2, 2]);
        let named = (0..TUNNELS + 50).map(|n| (Id { dst, spi: n + 0x1000 }, n, 1500));
        database.fetch_inbound(named, &reader);
        assert_eq!(found(), before);
        assert_eq!(before.iter().filter(|(out, _)| out.is_some()).count(), 2 * TUNNELS as usize);
        let known = (0..TUNNELS).filter(|n| database.inbound(dst, n + 0x1000, &reader).is_some()).count();
        assert_eq!(known, TUNNELS as usize * 2 / 3);
    }

    #[test]
    fn small_tables_are_left_out() {
        let domain = Domain::default();
        let database = Database::new(&domain, 1);
        let reader = domain.register("test");
        database.fetch_outbound(std::iter::from_fn(|| panic!("a packet is looked at")), &reader);
        database.fetch_arriving(std::iter::from_fn(|| panic!("a packet is looked at")), &reader);
        database.fetch_inbound(std::iter::from_fn(|| panic!("a packet is looked at")), &reader);
    }
}
