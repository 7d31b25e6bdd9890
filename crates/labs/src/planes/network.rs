// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network of the lab: a generator and a sink with the device under test between them, and an operator.
//!
//! ```text
//! generator              device under test             sink
//!   a0 ------- 10.0.1.0/24 ------- d0    d1 ------- 10.0.2.0/24 ------- b0
//! operator
//!   m0 ------- 10.0.3.0/24 ------- d2    c0 ------- 10.0.4.0/24 ------- a guest, if there is one
//! ```
//! None of the namespaces has a name, so they go with the process, however it ends.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use testbed::rig::{self, Cable, Namespace, RigError};
use tester::frame::Flow;
use tester::station::Station;
use wire::MacAddr;

use super::subject::Device;
use crate::Error;
use trials::inside;

/// Ethernet addresses of a guest that routes.
const GUEST: [&str; 2] = ["02:00:00:00:01:01", "02:00:00:00:02:01"];

/// The largest payload of a frame between the hosts: the study's.
pub(super) const MTU: usize = 9000;
/// Where the passthrough listens, or the first of several; where its payloads go, too.
pub(super) const PORT: u16 = 7000;
/// Where the management plane listens.
const HTTP: u16 = 8080;
/// Flows that the tester sends.
const FLOWS: u16 = 64;
/// Bytes before the payload and after it: Ethernet, IPv4, UDP, and the frame's checksum.
const AROUND: usize = 14 + 20 + 8 + 4;

/// The namespaces.
pub(super) struct Network {
    pub(super) generator: Namespace,
    pub(super) device: Namespace,
    pub(super) sink: Namespace,
    pub(super) operator: Namespace,
}

/// Whether this machine lets us build it.
pub(super) fn available() -> Result<(), Error> {
    rig::available().map_err(Error::NoNetwork)
}

impl Network {
    pub(super) fn build() -> Result<Network, Error> {
        Ok(Network::lay()?)
    }

    fn lay() -> Result<Network, RigError> {
        let [generator, device] = [Namespace::unnamed()?, Namespace::unnamed()?];
        let [sink, operator] = [Namespace::unnamed()?, Namespace::unnamed()?];
        let network = Network { generator, device, sink, operator };
        let Network { generator, device, sink, operator } = &network;
        let wide = Cable { mtu: MTU, ..Cable::default() };
        wide.lay(generator, "a0", device, "d0")?;
        wide.lay(sink, "b0", device, "d1")?;
        Cable::default().lay(operator, "m0", device, "d2")?;
        for end in ["d0", "d1"] {
            // So that the kernel can receive in threads of its own.
            device.run(&["ethtool", "-K", end, "gro", "on"])?;
        }
        for (home, end) in [(generator, "a0"), (sink, "b0"), (operator, "m0")] {
            home.wait_for_link(end)?;
        }
        for (home, end, net, host) in [(generator, "a0", 1, 2), (sink, "b0", 2, 2), (operator, "m0", 3, 2)] {
            home.ip(&format!("addr add 10.0.{net}.{host}/24 dev {end}"))?;
            home.ip(&format!("route add 10.0.0.0/16 via 10.0.{net}.1"))?;
        }
        for net in 1..=3 {
            device.ip(&format!("addr add 10.0.{net}.1/24 dev d{}", net - 1))?;
        }
        device.sysctl("net/ipv4/conf/d2/forwarding", "1")?;
        // Neighbours are known, so that no trial meets with a question.
        for (one, end, other, other_end, net) in
            [(generator, "a0", device, "d0", 1), (sink, "b0", device, "d1", 2)]
        {
            let host = other.mac(other_end).map(MacAddr)?;
            one.ip(&format!("neigh replace 10.0.{net}.1 lladdr {host} dev {end} nud permanent"))?;
            let host = one.mac(end).map(MacAddr)?;
            other.ip(&format!("neigh replace 10.0.{net}.2 lladdr {host} dev {other_end} nud permanent"))?;
        }
        Ok(network)
    }

    /// Whether the kernel of the device under test forwards between generator and sink.
    pub(super) fn forward(&self, forwards: bool) -> Result<(), Error> {
        let value = if forwards { "1" } else { "0" };
        let set = |end: &str| self.device.sysctl(&format!("net/ipv4/conf/{end}/forwarding"), value);
        ["d0", "d1"].into_iter().try_for_each(set)?;
        Ok(())
    }

    /// Has the kernel of the device under test receive on these cores.
    pub(super) fn receive_on(&self, cores: &[usize]) -> Result<(), Error> {
        for end in ["d0", "d1"] {
            // The threads that are there go first, so that those that come are seen as new ones.
            let path = format!("/sys/class/net/{end}/threaded");
            let _ = self.device.run(&["sh", "-c", &format!("echo 0 > {path}")]);
            self.device.receive_on(end, cores)?;
        }
        Ok(())
    }

    /// Gives the guest's network an address at the device under test, once the guest has made its interface.
    pub(super) fn meet_guest(&self) -> Result<(), Error> {
        let meet = || {
            self.device.ip("addr replace 10.0.4.1/24 dev c0")?;
            self.device.ip("link set c0 up")?;
            self.device.sysctl("net/ipv4/conf/c0/forwarding", "1")
        };
        meet().map_err(|why: RigError| why.into())
    }

    /// What a guest runs that routes: it takes the addresses of the device under test.
    pub(super) fn guest_router(&self) -> Result<String, Error> {
        let hosts = [(&self.generator, "a0"), (&self.sink, "b0")];
        let mut script = "set -e\n".to_owned();
        for (net, ((home, end), own)) in (1..).zip(hosts.into_iter().zip(GUEST)) {
            let host = home.mac(end).map(MacAddr)?;
            script += &format!(
                "ip link set c{net} down\nip link set c{net} address {own} up\nip addr add 10.0.{net}.1/24 dev c{net}\n\
                 ip neigh replace 10.0.{net}.2 lladdr {host} dev c{net} nud permanent\n"
            );
        }
        // The shell waits for the end of each sleep before it takes a signal.
        Ok(script + "echo 1 > /proc/sys/net/ipv4/ip_forward\ntrap 'exit 0' TERM\nwhile :; do sleep 1; done\n")
    }

    /// Has the hosts' cables lead to the guest, or else to the device under test itself; hosts know it by its Ethernet address.
    pub(super) fn address(&self, device: Device) -> Result<(), Error> {
        let set = || {
            for (net, (end, tap)) in (1..).zip([("d0", "c1"), ("d1", "c2")]) {
                let bridge = format!("br{net}");
                // There may be none.
                let _ = self.device.ip(&format!("link del {bridge}"));
                if device == Device::Guest {
                    self.device.ip(&format!("link add {bridge} type bridge stp_state 0 mcast_snooping 0"))?;
                    self.device.ip(&format!("link set {tap} up"))?;
                    for member in [end, tap] {
                        self.device.ip(&format!("link set {member} master {bridge}"))?;
                    }
                    self.device.ip(&format!("link set {bridge} up"))?;
                }
            }
            for (net, (home, end)) in (1..).zip([(&self.generator, "a0"), (&self.sink, "b0")]) {
                let mac = self.mac_of(device, net)?;
                home.ip(&format!("neigh replace 10.0.{net}.1 lladdr {mac} dev {end} nud permanent"))?;
            }
            Ok(())
        };
        set().map_err(|why: RigError| why.into())
    }

    fn mac_of(&self, device: Device, net: usize) -> Result<String, RigError> {
        match device {
            Device::Guest => Ok(GUEST[net - 1].to_owned()),
            _ => self.device.mac(["d0", "d1"][net - 1]).map(|mac| MacAddr(mac).to_string()),
        }
    }

    /// The tester, with a port at the generator and one at the sink. `listeners`: to so many ports of the device under test itself, in
    /// turn; none means through it, to the sink.
    pub(super) fn tester(&self, device: Device, listeners: u16) -> Result<Station, Error> {
        let src_mac = self.generator.mac("a0").map(MacAddr)?;
        let dst_mac = self.mac_of(device, 1)?;
        let dst_mac: MacAddr =
            dst_mac.parse().map_err(|_| Error::Nothing(format!("{dst_mac} is no Ethernet address")))?;
        let dst = if listeners == 0 { Ipv4Addr::new(10, 0, 2, 2) } else { Ipv4Addr::new(10, 0, 1, 1) };
        let flow = |index: u16| Flow {
            src_mac,
            dst_mac,
            src: IpAddr::from([10, 0, 1, 2]),
            dst: dst.into(),
            src_port: 50_000 + index,
            dst_port: PORT + index % listeners.max(1),
        };
        let ends = [(&self.generator, "a0"), (&self.sink, "b0")];
        Ok(inside::between(ends, (0..FLOWS).map(flow).collect(), frame(64))?)
    }
}

/// Where the management plane listens: a process of the device under test, or a guest.
pub(super) fn server(in_guest: bool) -> SocketAddr {
    let address = if in_guest { [10, 0, 4, 2] } else { [10, 0, 3, 1] };
    SocketAddr::from((address, HTTP))
}

/// Bytes of a frame with so many bytes of payload, with its checksum.
pub(super) fn frame(payload: usize) -> usize {
    payload + AROUND
}
