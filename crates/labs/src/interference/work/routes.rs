// SPDX-License-Identifier: MIT OR Apache-2.0
//! FRR computing routes: until a table that a BGP neighbour sends is in the kernel.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use testbed::frr::Frr;
use testbed::rig::Namespace;

use super::speaker::{Route, Speaker, updates};
use super::tools::{Time, thread_ns};
use crate::Error;
use harness::files;
use tables::routes::Options;

/// How long FRR may take for anything.
const PATIENCE: Duration = Duration::from_secs(300);
const DAEMON: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The neighbour, by which all routes lead.
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const NEIGHBOUR_AS: u16 = 65_001;
/// Between two looks whether something has come.
const GLANCE: Duration = Duration::from_millis(2);
/// Routes of the run that warms up.
const WARM: usize = 1000;
/// Routes that are looked for while the daemons work.
const SAMPLES: usize = 128;

const BGPD: &str = "hostname lab
router bgp 65000
 bgp router-id 198.18.0.1
 no bgp ebgp-requires-policy
 neighbor 198.18.0.2 remote-as 65001
 neighbor 198.18.0.2 passive
";

/// What FRR is to compute.
pub(super) struct Routing {
    all: Table,
    /// A few of them.
    few: Table,
}

/// Routes, and the messages that announce them.
struct Table {
    routes: Vec<Route>,
    messages: Vec<u8>,
}

impl Table {
    fn new(routes: Vec<Route>) -> Table {
        let messages = updates(&routes, NEIGHBOUR_AS, NEIGHBOUR);
        Table { routes, messages }
    }

    /// Addresses in some of them, from the last one on.
    fn samples(&self) -> Vec<Ipv4Addr> {
        let step = self.routes.len().div_ceil(SAMPLES).max(1);
        self.routes.iter().rev().step_by(step).map(|(address, _)| Ipv4Addr::from(address + 1)).collect()
    }
}

impl Routing {
    /// Takes at most so many routes of a file, or makes them up.
    pub(super) fn read(file: Option<&Path>, most: usize) -> Result<Routing, Error> {
        let routes = match file {
            Some(file) => of_file(file, most)?,
            None => made_up(most),
        };
        let few = Table::new(routes.iter().take(WARM).copied().collect());
        Ok(Routing { all: Table::new(routes), few })
    }

    pub(super) fn routes(&self) -> usize {
        self.all.routes.len()
    }

    /// Starts FRR, has it compute all routes, or a few to warm up, and ends it. So each time begins with nothing in the daemons and in
    /// the kernel. To withdraw a whole table would take about as long as to announce it.
    pub(super) fn converge(&self, few: bool) -> Result<Time, Error> {
        let mut running = Running::start()?;
        let took = running.converge(if few { &self.few } else { &self.all })?;
        running.end()?;
        Ok(took)
    }
}

fn of_file(file: &Path, most: usize) -> Result<Vec<Route>, Error> {
    let read = files::read(&[file.to_owned()], &Options::default())?;
    // What the kernel or the daemons would refuse: loopback, multicast, our own.
    let usable = |(address, len): &Route| {
        *len > 0 && !matches!(address >> 24, 0 | 127 | 224..) && *address >> 17 != u32::from(NEIGHBOUR) >> 17
    };
    let routes: Vec<Route> =
        read.v4.iter().map(|(prefix, _)| (prefix.bits(), prefix.len())).filter(usable).take(most).collect();
    match routes.is_empty() {
        true => Err(Error::nothing(format!("{}: there is no IPv4 route in it", file.display()))),
        false => Ok(routes),
    }
}

/// So many prefixes of 24 bits from 1.0.0.0 on, each second one only, so that none could be joined with another.
fn made_up(routes: usize) -> Vec<Route> {
    let all = (0..).map(|i| (0x0100_0000 + (i << 9), 24));
    // A neighbour's network, and what is no unicast address.
    all.filter(|(address, _)| !matches!(address >> 24, 127 | 198)).take(routes).collect()
}

/// FRR in a namespace, and its neighbour in another one.
struct Running {
    namespace: Namespace,
    beyond: Namespace,
    frr: Frr,
}

impl Running {
    fn start() -> Result<Running, Error> {
        let made = || {
            let (namespace, beyond) = (Namespace::unnamed()?, Namespace::unnamed()?);
            namespace.ip(&format!("link add lab0 type veth peer name lab1 netns {}", beyond.name()))?;
            for (namespace, address, end) in [(&namespace, DAEMON, "lab0"), (&beyond, NEIGHBOUR, "lab1")] {
                namespace.ip(&format!("address add {address}/24 dev {end}"))?;
                namespace.ip(&format!("link set {end} up"))?;
            }
            let mut frr = Frr::new()?;
            frr.start(&namespace, "zebra", "hostname lab\n", &[])?;
            frr.start(&namespace, "bgpd", BGPD, &["-l", &DAEMON.to_string()])?;
            Ok(Running { namespace, beyond, frr })
        };
        made()
    }

    /// Processor time of both daemons so far.
    fn cpu_ns(&self) -> f64 {
        self.frr.processes().map(thread_ns).sum()
    }

    /// Routes of BGP that zebra has, and has put into the kernel.
    fn counted(&self) -> Option<[u64; 2]> {
        let text = self.frr.vtysh(&self.namespace, &["show ip route summary json"]).ok()?;
        let value: serde_json::Value = serde_json::from_str(&text).ok()?;
        let of = |protocol: &serde_json::Value| {
            let is = protocol["type"].as_str().is_some_and(|name| name.contains("bgp"));
            is.then(|| ["rib", "fib"].map(|key| protocol[key].as_u64().unwrap_or(0)))
        };
        let all = value["routes"].as_array()?.iter().filter_map(of);
        Some(all.fold([0; 2], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1]]))
    }

    /// Has the neighbour send these routes, and waits until all are in the kernel.
    fn converge(&mut self, table: &Table) -> Result<Time, Error> {
        let samples = table.samples();
        let mut speaker = self.meet()?;
        let inside = || {
            let sight = UdpSocket::bind("0.0.0.0:0")?;
            // To connect such a socket sends nothing, and succeeds when there is a route.
            let there = |address: &Ipv4Addr| sight.connect((*address, 9)).is_ok();
            let (started, before) = (Instant::now(), self.cpu_ns());
            let time = || Time { wall_s: started.elapsed().as_secs_f64(), cpu_ns: self.cpu_ns() - before };
            speaker.send(&table.messages).map_err(Error::system("bgpd"))?;
            while !samples.iter().all(there) {
                rest(started, GLANCE, "the routes do not all come")?;
            }
            let (mut took, mut asked) = (time(), Instant::now());
            // zebra goes through its whole table to count it, on the core that computes routes. So it is asked once as a rule, and
            // seldom if not.
            while self.counted() != Some([table.routes.len() as u64; 2]) {
                rest(started, 4 * asked.elapsed(), "zebra does not count all routes")?;
                (took, asked) = (time(), Instant::now());
            }
            Ok::<_, Error>(took)
        };
        let took = self.namespace.enter(inside)??;
        drop(speaker);
        Ok(took)
    }

    /// Opens a session; bgpd refuses until it is ready, and after the last one for a moment.
    fn meet(&mut self) -> Result<Speaker, Error> {
        let started = Instant::now();
        loop {
            let met = self.beyond.enter(|| Speaker::connect(NEIGHBOUR, DAEMON, NEIGHBOUR_AS));
            match met? {
                Ok(speaker) => return Ok(speaker),
                Err(why) => rest(started, GLANCE, &format!("bgpd takes no session ({why})"))?,
            }
            if let Some(why) = self.frr.ended() {
                return Err(Error::Nothing(why));
            }
        }
    }

    /// Ends it. The kernel has no route of it any more when this returns, so it takes no time from what comes next.
    fn end(self) -> Result<(), Error> {
        drop(self.frr);
        self.namespace.ip("link delete lab0")?;
        Ok(())
    }
}

/// Waits a while, unless it has taken too long.
fn rest(started: Instant, pause: Duration, what: &str) -> Result<(), Error> {
    if started.elapsed() > PATIENCE {
        return Err(Error::nothing(format!("{what} within {} s", PATIENCE.as_secs())));
    }
    std::thread::sleep(pause);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_routes_are_unicast_and_differ() {
        let routes = made_up(2_000_000);
        assert!(routes.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(routes.iter().all(|(address, len)| {
            *len == 24 && address & 0xff == 0 && !matches!(address >> 24, 0 | 127 | 198)
        }));
        assert_eq!(made_up(3)[2], (0x0100_0400, 24));
    }
}
