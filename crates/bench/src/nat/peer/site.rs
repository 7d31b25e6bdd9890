// SPDX-License-Identifier: MIT OR Apache-2.0
//! The namespaces, and the two gateways between them.

use std::io::Write as _;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Options, Router};
use ports::SystemProvider;
use testbed::rig::{Cable, Namespace, Rig, RigError};

use crate::Error;
use crate::nat::shape::{POOL, Shape};

/// Addresses of the links: the gateway's and the host's.
const INSIDE: [&str; 2] = ["10.64.0.1", "10.64.0.2"];
const OUTSIDE: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// Networks behind the links: inside hosts, and their peers.
const HOSTS: &str = "10.0.0.0/10";
const PEERS: &str = "20.0.0.0/8";
/// Seconds for which the kernel keeps an idle session of UDP: longer than a run.
const IDLE_S: &str = "600";

/// Who translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gateway {
    /// NatGateway.
    Junctor,
    /// The kernel.
    Nftables,
}

impl Gateway {
    pub(super) const ALL: [Gateway; 2] = [Gateway::Junctor, Gateway::Nftables];

    /// As results name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Gateway::Junctor => "junctor",
            Gateway::Nftables => "nftables",
        }
    }
}

/// Hosts on both sides and cables.
pub(super) struct Site {
    pub(super) rig: Rig,
    /// The sender's core, and the gateway's.
    pub(super) cores: [usize; 2],
}

impl Site {
    pub(super) fn new(cores: [usize; 2]) -> Result<Site, Error> {
        let rig = Rig::new(Cable::default())?;
        for (host, interface, [_, address]) in [(&rig.a, "a0", INSIDE), (&rig.b, "b0", OUTSIDE)] {
            host.ip(&format!("addr add {address}/24 dev {interface}"))?;
            // The hosts' kernels answer ARP. What is for others they need not look at.
            nft(
                host,
                &format!(
                    "table netdev bench {{ chain others {{ type filter hook ingress device {interface} priority 0; \
                     ip protocol udp drop; }}; }}\n"
                ),
            )?;
        }
        for interface in ["d0", "d1"] {
            rig.dut.run(&["ethtool", "-K", interface, "gro", "on"])?;
        }
        Ok(Site { rig, cores })
    }

    /// Does `work` while a gateway forwards. The drivers of its interfaces are noted.
    pub(super) fn with<T: Send>(
        &self,
        gateway: Gateway,
        shape: &Shape,
        drivers: &mut Vec<String>,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        match gateway {
            Gateway::Nftables => {
                self.forward(shape)?;
                self.greet()?;
                work()
            }
            Gateway::Junctor => {
                let (done, noted) = self.with_router(shape, work)?;
                noted.into_iter().for_each(|line| {
                    if !drivers.contains(&line) {
                        drivers.push(line);
                    }
                });
                done
            }
        }
    }

    /// Has the kernel forward and translate, on the gateway's core.
    fn forward(&self, shape: &Shape) -> Result<(), Error> {
        let dut = &self.rig.dut;
        dut.ip(&format!("addr add {}/24 dev d0", INSIDE[0]))?;
        dut.ip(&format!("addr add {}/24 dev d1", OUTSIDE[0]))?;
        dut.ip(&format!("route add {HOSTS} via {} dev d0", INSIDE[1]))?;
        dut.ip(&format!("route add {PEERS} via {} dev d1", OUTSIDE[1]))?;
        for which in ["all", "d0", "d1"] {
            dut.sysctl(&format!("net/ipv4/conf/{which}/rp_filter"), "0")?;
        }
        dut.sysctl("net/ipv4/ip_forward", "1")?;
        let [_, [first, last]] = shape.ranges();
        let pool = if first == last { first.to_string() } else { format!("{first}-{last}") };
        nft(
            dut,
            &format!(
                "table ip bench {{ chain out {{ type nat hook postrouting priority 100; \
                 ip saddr {HOSTS} oif d1 snat to {pool}; }}; }}\n"
            ),
        )?;
        // They are there once something is tracked.
        for name in ["udp_timeout", "udp_timeout_stream"] {
            dut.sysctl(&format!("net/netfilter/nf_conntrack_{name}"), IDLE_S)?;
        }
        ["d0", "d1"].iter().try_for_each(|end| dut.receive_on(end, &self.cores[1..]))?;
        Ok(())
    }

    /// Has the neighbours become known, by packets that begin no session of a shape.
    fn greet(&self) -> Result<(), Error> {
        self.rig.a.run(&["ping", "-c1", "-W60", INSIDE[0]])?;
        self.rig.b.run(&["ping", "-c1", "-W60", OUTSIDE[0]])?;
        Ok(())
    }

    fn configuration(shape: &Shape) -> String {
        let [translate, sessions] = shape.statements();
        format!(
            "NatGateway(d0 {}/24, d1 {}/24, ROUTE {HOSTS} {}, ROUTE 0.0.0.0/0 {},\n\
             STATEMENT {translate}, STATEMENT {sessions});\n",
            INSIDE[0], OUTSIDE[0], INSIDE[1], OUTSIDE[1]
        )
    }

    /// Does `work` while our gateway runs on its core; returns what it said about its interfaces, too.
    fn with_router<T: Send>(
        &self,
        shape: &Shape,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<(Result<T, Error>, Vec<String>), Error> {
        let parsed = lang::load_str("bench", &Site::configuration(shape), &elements::options());
        let graph = parsed.graph.ok_or_else(|| Error::configuration(parsed.diagnostics))?;
        let (tell, told) = mpsc::channel();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let note = Arc::clone(&said);
        let serve = move || -> Result<(), Error> {
            let print = move |line: &str| {
                note.lock().unwrap_or_else(PoisonError::into_inner).push(line.trim().to_owned());
            };
            let options = Options {
                print: Some(Box::new(print)),
                ..harness::options(Arc::new(SystemProvider::new()), (1, vec![self.cores[1]]))
            };
            let mut router =
                Router::build(&graph, &conf::registry(false), options).map_err(Error::configuration)?;
            // Who waits may have given up.
            if tell.send(router.control()).is_ok() {
                router.run();
            }
            Ok(())
        };
        let done = std::thread::scope(|scope| {
            let server = scope.spawn(move || self.rig.dut.enter(serve));
            let done = told.recv().ok().map(|control| {
                let done = self.greet().and_then(|()| work());
                control.stop();
                done
            });
            server.join().map_err(|_| Error::Panicked("the gateway has"))???;
            done.ok_or_else(|| Error::nothing("the gateway did not start"))
        })?;
        let said = std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((done, said))
    }
}

/// Whether an address is of a pool.
pub(super) fn is_outside(address: u32, shape: &Shape) -> bool {
    address.wrapping_sub(POOL) < shape.outside() as u32
}

fn nft(namespace: &Namespace, text: &str) -> Result<(), Error> {
    let cannot = Error::system("a file for nft cannot be written");
    let mut file = tempfile::NamedTempFile::new().map_err(&cannot)?;
    file.write_all(text.as_bytes()).map_err(&cannot)?;
    let done: Result<String, RigError> = namespace.run(&["nft", "-f", &file.path().to_string_lossy()]);
    Ok(done.map(drop)?)
}
