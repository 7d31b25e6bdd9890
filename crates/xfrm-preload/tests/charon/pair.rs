// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hosts, each with a charon that keys databases of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ipsec::{Association, Direction, Flow};
use testbed::rig::{Cable, Namespace, wait_for};
use testbed::strongswan::{Strongswan, program};

use crate::bench::{Bench, library};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there is what a pair needs; if not, why.
pub fn skip(test: &str) -> bool {
    if program().is_none() {
        println!("{test}: skipped: strongSwan's charon is not installed");
        return true;
    }
    testbed::rig::skip_without(test, &["swanctl"])
}

/// One of the hosts.
pub struct Host {
    pub namespace: Namespace,
    pub bench: Bench,
    pub charon: Strongswan,
}

impl Host {
    fn new(name: &str, settings: &str) -> Host {
        let (namespace, bench) = (Namespace::new(name).unwrap(), Bench::new());
        let (library, path) = (library().display().to_string(), bench.path().display().to_string());
        let environment = [("LD_PRELOAD", &*library), ("JUNCTOR_XFRM", &*path)];
        let charon =
            Strongswan::new(&environment, &format!("delete_rekeyed_delay = 1\n {settings}")).unwrap();
        Host { namespace, bench, charon }
    }

    pub fn swanctl(&self, arguments: &[&str]) -> String {
        self.charon
            .swanctl(&self.namespace, arguments)
            .unwrap_or_else(|why| panic!("{why}\n{}", self.charon.log()))
    }

    /// Gives its daemon the connection of [`Pair::connect`], as the host `me` to the host `other`.
    pub fn connect(&self, [me, other]: [u8; 2], way: Way<'_>, more: &str) {
        let Way { net, connection, child, .. } = way;
        let networks = if child.contains("local_ts") || child.contains("mode = transport") {
            String::new()
        } else {
            format!("local_ts = 10.{me}.0.0/16\n remote_ts = 10.{other}.0.0/16")
        };
        let text = format!(
            "connections {{\n gw {{\n version = 2\n proposals = aes128-sha256-x25519\n mobike = no\n \
             local_addrs = {net}{me}\n remote_addrs = {net}{other}\n {connection}\n \
             local {{\n auth = psk\n id = host{me}\n }}\n remote {{\n auth = psk\n id = host{other}\n }}\n \
             children {{\n net {{\n {networks}\n {child}\n {more}\n }}\n }}\n }}\n}}\n\
             secrets {{\n ike-1 {{\n secret = \"a long secret\"\n }}\n}}\n"
        );
        self.charon.load(&self.namespace, &text).unwrap_or_else(|why| panic!("{why}\n{}", self.charon.log()));
    }

    pub fn associations(&self) -> Vec<Arc<Association>> {
        self.bench.database.associations()
    }

    /// Lets a packet from network 1 to network 2 ask for an association.
    pub fn acquire(&self) -> Flow {
        let flow = Flow {
            src: [10, 1, 0, 9].into(),
            dst: [10, 2, 0, 9].into(),
            protocol: wire::Protocol::UDP,
            ports: Some((4000, 53)),
        };
        let (database, reader) = (&self.bench.database, self.bench.domain.register("test"));
        let rule = database.outbound(&flow, &reader).expect("a policy").clone();
        assert!(database.acquire(&rule, &flow, 1));
        flow
    }

    /// Directions of the policies, in order.
    pub fn directions(&self) -> Vec<Direction> {
        self.bench.database.policies().iter().map(|rule| rule.policy.direction).collect()
    }

    /// SPIs of associations whose receiver has this address.
    pub fn spis_to(&self, dst: &str) -> BTreeSet<u32> {
        let all = self.associations();
        all.iter().filter(|sa| sa.config.dst.to_string() == dst).map(|sa| sa.sa.spi).collect()
    }
}

/// Both of them, `a` at 192.0.2.1 and 2001:db8::1, `b` at 192.0.2.2 and 2001:db8::2.
pub struct Pair {
    pub a: Host,
    pub b: Host,
}

/// What a test's connections have beyond the usual.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// The network part of the addresses: `192.0.2.` or `2001:db8::`.
    pub net: &'a str,
    /// Lines of a connection.
    pub connection: &'a str,
    /// Lines of its child.
    pub child: &'a str,
    /// Lines of the child of the first host only.
    pub initiator: &'a str,
}

pub const PLAIN: Way<'static> = Way { net: "192.0.2.", connection: "", child: "", initiator: "" };

impl Pair {
    pub fn new(settings: &str) -> Pair {
        let (a, b) = (Host::new("a", settings), Host::new("b", settings));
        Cable::default().lay(&a.namespace, "eth0", &b.namespace, "eth0").unwrap();
        for (host, number) in [(&a, 1), (&b, 2)] {
            host.namespace.ip(&format!("addr add 192.0.2.{number}/24 dev eth0")).unwrap();
            host.namespace.sysctl("net/ipv6/conf/eth0/disable_ipv6", "0").unwrap();
            host.namespace.ip(&format!("addr add 2001:db8::{number}/64 dev eth0 nodad")).unwrap();
            host.namespace.ip("link set lo up").unwrap();
            host.namespace.wait_for_link("eth0").unwrap();
        }
        let mut pair = Pair { a, b };
        for host in [&mut pair.a, &mut pair.b] {
            host.charon.start(&host.namespace).unwrap();
        }
        pair
    }

    /// Gives both daemons a connection `gw` with a child `net`, between 10.1.0.0/16 and 10.2.0.0/16 unless the child says otherwise.
    pub fn connect(&self, way: Way<'_>) {
        self.a.connect([1, 2], way, way.initiator);
        self.b.connect([2, 1], way, "");
    }

    /// Makes the first host connect to the second one as so many peers, each with a network of its own.
    pub fn connect_many(&self, count: usize) {
        let usual = "version = 2\n proposals = aes128-sha256-x25519\n mobike = no";
        let secrets = "secrets {\n ike-1 {\n secret = \"a long secret\"\n }\n}\n";
        let load = |host: &Host, connections: &str| {
            let text = format!("connections {{\n{connections}}}\n{secrets}");
            host.charon
                .load(&host.namespace, &text)
                .unwrap_or_else(|why| panic!("{why}\n{}", host.charon.log()));
        };
        let all = format!(
            "gw {{\n {usual}\n local_addrs = 192.0.2.2\n local {{\n auth = psk\n id = hub\n }}\n \
             remote {{\n auth = psk\n id = %any\n }}\n children {{\n net {{\n local_ts = 10.2.0.0/16\n \
             remote_ts = 10.1.0.0/16\n }}\n }}\n }}\n"
        );
        load(&self.b, &all);
        let one = |number: usize| {
            format!(
                "gw{number} {{\n {usual}\n local_addrs = 192.0.2.1\n remote_addrs = 192.0.2.2\n \
                 local {{\n auth = psk\n id = peer{number}\n }}\n remote {{\n auth = psk\n id = hub\n }}\n \
                 children {{\n net{number} {{\n local_ts = 10.1.{number}.0/24\n remote_ts = 10.2.{number}.0/24\n \
                 start_action = start\n }}\n }}\n }}\n"
            )
        };
        load(&self.a, &(0..count).map(one).collect::<String>());
    }

    pub fn initiate(&self) {
        self.a.swanctl(&["--initiate", "--child", "net", "--timeout", "60"]);
        self.await_pairs(1);
    }

    /// Waits until both have associations for so many children, and asserts that they fit together.
    pub fn await_pairs(&self, count: usize) {
        self.until("associations on both sides", || {
            self.a.associations().len() == 2 * count && self.b.associations().len() == 2 * count
        });
        for (one, other) in self.a.associations().iter().zip(self.b.associations()) {
            assert_eq!(one.id(), other.id());
            let (one, other) = (&one.config, &other.config);
            assert_eq!((one.src, one.dst, one.esp.mode), (other.src, other.dst, other.esp.mode));
            assert!(one.esp.spec == other.esp.spec, "algorithms and keys");
            assert_eq!((one.esp.udp, one.esp.is_extended), (other.esp.udp, other.esp.is_extended));
        }
    }

    pub fn until(&self, what: &str, condition: impl FnMut() -> bool) {
        wait_for(what, PATIENCE, condition).unwrap_or_else(|why| {
            panic!("{why}\n{}\n--- the other one\n{}", self.a.charon.log(), self.b.charon.log())
        });
    }
}
