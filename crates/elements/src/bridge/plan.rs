// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a bridge's configuration says about its ports, in the form in which frames ask for it.
//!
//! Workers read the current plan behind one pointer, once for a batch. A port that is taken out of service or put back makes another
//! plan; the old one is freed after a grace period, when no batch is under way that began with it.

use super::{MAX_PORTS, PortSet};

/// A port as its description says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Port {
    /// The VLAN of untagged frames; 0 if they are not admitted, or VLANs are not distinguished.
    pub pvid: u16,
    /// Whether it is a trunk: tagged frames are admitted, and frames leave with tags unless they are of VLAN `pvid`.
    pub trunk: bool,
    /// Other VLANs of a trunk.
    pub vids: Vec<(u16, u16)>,
    /// Frames between isolated ports are not forwarded.
    pub isolated: bool,
    /// Bridge protocol frames that come in here are not to be believed.
    pub guarded: bool,
    /// The aggregate that it is a part of.
    pub lag: Option<u16>,
}

impl Port {
    /// Reads `access 10 isolated`, `trunk 10 20-30 native 1 lag 2`, `plain guarded`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<(bool, Port), String> {
        let mut port = Port::default();
        let mut words = text.split_ascii_whitespace().peekable();
        let aware = match words.next() {
            Some("plain") => false,
            Some("access") => {
                port.pvid = words.next().and_then(vid).ok_or("'access' needs a VLAN from 1 to 4094")?;
                true
            }
            Some("trunk") => {
                port.trunk = true;
                while let Some(range) = words.peek().and_then(|word| vids(word)) {
                    port.vids.push(range);
                    words.next();
                }
                if port.vids.is_empty() {
                    port.vids.push((1, 4094));
                }
                true
            }
            _ => return Err("expected 'plain', 'access VLAN' or 'trunk [VLAN ...]'".to_owned()),
        };
        while let Some(word) = words.next() {
            match word {
                "native" if port.trunk => {
                    port.pvid = words.next().and_then(vid).ok_or("'native' needs a VLAN from 1 to 4094")?;
                }
                "isolated" => port.isolated = true,
                "guarded" => port.guarded = true,
                "lag" => {
                    let number = words.next().and_then(|word| word.parse().ok());
                    port.lag = Some(number.ok_or("'lag' needs a number")?);
                }
                other => {
                    return Err(format!("'{other}' is not a VLAN, 'native', 'isolated', 'guarded' or 'lag'"));
                }
            }
        }
        Ok((aware, port))
    }

    fn has(&self, vid: u16) -> bool {
        vid == self.pvid || self.vids.iter().any(|(low, high)| (*low..=*high).contains(&vid))
    }
}

fn vid(word: &str) -> Option<u16> {
    word.parse().ok().filter(|vid| (1..4095).contains(vid))
}

fn vids(word: &str) -> Option<(u16, u16)> {
    match word.split_once('-') {
        Some((low, high)) => Some((vid(low)?, vid(high)?)).filter(|(low, high)| low <= high),
        None => vid(word).map(|vid| (vid, vid)),
    }
}

/// What frames ask about a port.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub port: Port,
    /// The port under whose number its stations are learned: its own, or the first one's of its aggregate.
    pub leader: u16,
    /// Whether it is in service.
    pub up: bool,
    /// Where its frames may go, VLANs and states aside: leaders only.
    pub reaches: PortSet,
}

/// A VLAN.
#[derive(Clone, Debug, Default)]
pub(super) struct Vlan {
    /// Leaders of the ports that are in it.
    pub members: PortSet,
    /// Those that its frames leave by without a tag.
    pub untagged: PortSet,
}

/// The ports of a bridge. See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub members: Vec<Member>,
    /// Of each leader, the ports in service that frames for it may leave by. A port of its own has itself.
    pub ways: Vec<Vec<u16>>,
    /// Ports of their own that are in service: what is for them leaves by them.
    pub lone: PortSet,
    /// Whether some ports are parts of aggregates.
    pub has_lags: bool,
    /// Whether VLANs are distinguished.
    pub aware: bool,
    /// The VLANs that have members; number 0 is none.
    pub vlans: Vec<Vlan>,
    /// Of each VLAN number, its place in `vlans`.
    pub by_vid: Vec<u16>,
}

impl Plan {
    /// A plan for these ports, all in service.
    ///
    /// # Errors
    /// When ports of one aggregate differ.
    pub fn new(aware: bool, ports: &[Port]) -> Result<Plan, String> {
        let leader = |port: &Port, at: usize| match port.lag {
            Some(lag) => ports.iter().position(|other| other.lag == Some(lag)).unwrap_or(at),
            None => at,
        };
        let mut members = Vec::new();
        for (at, port) in ports.iter().enumerate().take(MAX_PORTS) {
            let first = leader(port, at);
            if ports[first] != *port {
                return Err(format!(
                    "ports {first} and {at} are of one aggregate and must be described alike"
                ));
            }
            members.push(Member {
                port: port.clone(),
                leader: first as u16,
                up: true,
                reaches: PortSet::EMPTY,
            });
        }
        let mut plan = Plan {
            members,
            ways: Vec::new(),
            lone: PortSet::EMPTY,
            has_lags: ports.iter().any(|port| port.lag.is_some()),
            aware,
            vlans: vec![Vlan::default()],
            by_vid: Vec::new(),
        };
        plan.number_vlans();
        plan.connect();
        Ok(plan)
    }

    fn number_vlans(&mut self) {
        if !self.aware {
            return;
        }
        self.by_vid = vec![0; 4096];
        for vid in 1..4095 {
            let inside = self.members.iter().filter(|member| member.port.has(vid));
            let members: PortSet = inside.map(|member| usize::from(member.leader)).collect();
            if members.is_empty() {
                continue;
            }
            let bare = self.members.iter().filter(|member| member.port.pvid == vid);
            let untagged = bare.map(|member| usize::from(member.leader)).collect();
            self.by_vid[usize::from(vid)] = self.vlans.len() as u16;
            self.vlans.push(Vlan { members, untagged });
        }
    }

    /// Says anew who reaches whom, after ports went out of service or came back.
    fn connect(&mut self) {
        let up = |leader: usize| {
            let same =
                self.members.iter().enumerate().filter(|(_, m)| usize::from(m.leader) == leader && m.up);
            same.map(|(at, _)| at as u16).collect::<Vec<_>>()
        };
        self.ways = (0..self.members.len()).map(up).collect();
        let is_lone = |at: &usize| self.ways[*at] == [*at as u16];
        self.lone = (0..self.members.len()).filter(is_lone).collect();
        let reaches = |from: &Member| {
            let others = self.members.iter().enumerate().filter(|(at, to)| {
                *at != usize::from(from.leader)
                    && usize::from(to.leader) == *at
                    && !self.ways[*at].is_empty()
                    && !(from.port.isolated && to.port.isolated)
            });
            others.map(|(at, _)| at).collect::<PortSet>()
        };
        let reaches: Vec<PortSet> = self.members.iter().map(reaches).collect();
        for (member, reaches) in self.members.iter_mut().zip(reaches) {
            member.reaches = reaches;
        }
    }

    /// The same plan with a port in service or out of it.
    pub fn with(&self, port: usize, up: bool) -> Plan {
        let mut plan = self.clone();
        if let Some(member) = plan.members.get_mut(port) {
            member.up = up;
        }
        plan.connect();
        plan
    }

    /// The VLANs that have members.
    pub fn vids(&self) -> impl Iterator<Item = u16> + '_ {
        self.by_vid.iter().enumerate().filter(|(_, place)| **place != 0).map(|(vid, _)| vid as u16)
    }

    /// A VLAN, empty where no port is in it.
    #[inline]
    pub fn vlan(&self, vid: u16) -> &Vlan {
        let place = self.by_vid.get(usize::from(vid)).copied().unwrap_or(0);
        self.vlans.get(usize::from(place)).unwrap_or(&self.vlans[0])
    }

    /// The port that a frame for `leader` leaves by; all frames of a conversation, by `hash`, leave by one.
    #[inline]
    pub fn way(&self, leader: usize, hash: u64) -> Option<usize> {
        let ways = self.ways.get(leader)?;
        match ways.as_slice() {
            [] => None,
            [one] => Some(usize::from(*one)),
            // The high half of the product is evenly spread over 0..len.
            many => Some(usize::from(many[(((hash >> 32) * many.len() as u64) >> 32) as usize])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(text: &[&str]) -> (bool, Vec<Port>) {
        let (aware, ports): (Vec<_>, Vec<_>) = text.iter().map(|t| Port::parse(t).expect(t)).unzip();
        (aware[0], ports)
    }

    fn plan(text: &[&str]) -> Plan {
        let (aware, ports) = ports(text);
        Plan::new(aware, &ports).expect("a plan")
    }

    fn list(set: &PortSet) -> Vec<usize> {
        set.iter().collect()
    }

    #[test]
    fn descriptions_are_read_or_refused() {
        let (_, port) = Port::parse("trunk 10 20-30 native 5 isolated lag 3").expect("a trunk");
        let want = Port {
            pvid: 5,
            trunk: true,
            vids: vec![(10, 10), (20, 30)],
            isolated: true,
            guarded: false,
            lag: Some(3),
        };
        assert_eq!(port, want);
        for bad in
            ["", "access", "access 0", "access 4095", "trunk 30-20", "plain native 1", "plain lag x", "open"]
        {
            assert!(Port::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn who_reaches_whom() {
        let plan = plan(&["plain isolated", "plain isolated", "plain", "plain lag 1", "plain lag 1"]);
        assert_eq!(list(&plan.members[0].reaches), [2, 3]);
        assert_eq!(list(&plan.members[2].reaches), [0, 1, 3]);
        assert_eq!(list(&plan.members[4].reaches), [0, 1, 2], "not back to its aggregate");
        let outs: Vec<_> = (0..8u64).map(|n| plan.way(3, n << 61)).collect();
        assert!(outs.contains(&Some(3)) && outs.contains(&Some(4)));
        let less = plan.with(3, false);
        assert!((0..8u64).all(|n| less.way(3, n << 61) == Some(4)));
        assert_eq!(list(&less.members[0].reaches), [2, 3]);
        let none = less.with(4, false);
        assert_eq!((none.way(3, 0), list(&none.members[0].reaches)), (None, vec![2]));
        assert_eq!(list(&none.with(4, true).members[0].reaches), [2, 3]);
    }

    #[test]
    fn vlans_have_the_ports_that_name_them() {
        let plan = plan(&["access 10", "access 20", "trunk 10 20-21 native 30"]);
        assert_eq!(plan.vids().collect::<Vec<_>>(), [10, 20, 21, 30]);
        let (ten, thirty) = (plan.vlan(10), plan.vlan(30));
        assert_eq!((list(&ten.members), list(&ten.untagged)), (vec![0, 2], vec![0]));
        assert_eq!((list(&thirty.members), list(&thirty.untagged)), (vec![2], vec![2]));
        assert!(plan.vlan(11).members.is_empty() && plan.vlan(5000).members.is_empty());
        let (_, unlike) = ports(&["access 1 lag 1", "access 2 lag 1"]);
        assert!(Plan::new(true, &unlike).is_err());
    }
}
