// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is behind interfaces of this machine: another machine, or a rig of somebody else's.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use packet::port::{Device, Link};
use packet::{Batch, Packet};
use tester::hosts;
use wire::MacAddr;

use super::cores::Cores;
use super::flows::{self, FlowLine, Flows};
use super::rig::{self, Driver, Opened};
use super::{Plugged, Setup, Traffic};
use crate::Error;

/// How long the device may take to say its Ethernet address, and how often it is asked at least: who has no turn for long does
/// not hear an answer that has come.
const PATIENCE: Duration = Duration::from_secs(5);
const QUESTIONS: u32 = 10;
/// Between two questions for it.
const AGAIN: Duration = Duration::from_millis(200);
/// How long is listened for traffic of others.
const LISTEN: Duration = Duration::from_millis(200);
/// Frames in that time that are worth a word: more than the chatter of bridges and routers.
const CHATTER: usize = 5;

/// Plugs the tester into these interfaces.
pub(super) fn plug(interfaces: &[String], setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    let opened = open(interfaces, setup.driver)?;
    let names: Vec<&str> = interfaces.iter().map(String::as_str).collect();
    let flows = flows_of(&names, setup, |i, host, via| resolve(names[i], opened[i].1.as_ref(), host, via))?;
    let noisy = opened.iter().map(|(name, device)| noise(name, device.as_ref()));
    let notes: Vec<String> = noisy.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    // Nothing else of this machine is the device's.
    let cores = Cores::of_machine(setup.driver.sources(traffic, opened.len()), false);
    let mut plugged = rig::station(opened, (setup.driver, &cores), &flows, traffic)?;
    plugged.link_bits = interfaces.iter().filter_map(|name| speed(name)).min();
    plugged.notes = notes;
    plugged.notes.extend(cores.told_of_sources());
    cores.take();
    Ok(plugged)
}

/// By which driver these interfaces are used.
pub(super) fn driver(interfaces: &[String], wanted: Driver) -> Result<Driver, Error> {
    if wanted == Driver::Bpf {
        return Ok(wanted);
    }
    let opened = open(interfaces, wanted)?;
    let by_xdp = opened.iter().all(|(_, device)| device.info().driver.starts_with("AF_XDP"));
    Ok(if by_xdp { Driver::AfXdp } else { Driver::AfPacket })
}

fn open(interfaces: &[String], driver: Driver) -> Result<Opened, Error> {
    interfaces.iter().map(|name| Ok((name.clone(), open_one(name, driver)?))).collect()
}

pub(crate) fn open_one(name: &str, driver: Driver) -> Result<Arc<dyn Device>, Error> {
    let own = addresses(name);
    if let Some(address) = own.first() {
        return Err(Error::unfit(format!(
            "{name}: it has the address {address}, so this machine's own traffic is there; \
             choose another interface, or sudo ip addr flush dev {name}"
        )));
    }
    let device = rig::open(name, driver, None)?;
    linked(name, device.as_ref())?;
    let info = device.info();
    if info.rx_queues == 1 {
        return Ok(device);
    }
    let by_xdp = info.driver.starts_with("AF_XDP");
    if by_xdp && driver == Driver::AfXdp {
        return Err(Error::unfit(format!(
            "{name}: it has {} receive queues, of which one AF_XDP socket sees one; \
             sudo ethtool -L {name} combined 1, or --driver af_packet",
            info.rx_queues
        )));
    }
    drop(device);
    rig::open(name, Driver::AfPacket, Some(1))
}

fn linked(name: &str, device: &dyn Device) -> Result<(), Error> {
    if device.link() == Link::Up {
        return Ok(());
    }
    Err(Error::unfit(format!("{name}: the link is down; sudo ip link set {name} up, and see the other end")))
}

/// Addresses of the interface that others may talk to. A link-local one comes by itself and says nothing.
fn addresses(name: &str) -> Vec<IpAddr> {
    let all = nix::ifaddrs::getifaddrs().into_iter().flatten().filter(|a| a.interface_name == name);
    let address = |a: nix::ifaddrs::InterfaceAddress| {
        let address = a.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
        let v6 = || address.as_sockaddr_in6().map(|a| a.ip()).filter(|ip| !ip.is_unicast_link_local());
        v4.or_else(|| v6().map(IpAddr::from))
    };
    all.filter_map(address).collect()
}

/// Bits a second of a card's link. What virtual interfaces say of theirs means nothing.
pub(crate) fn speed(name: &str) -> Option<u64> {
    let path = std::path::Path::new("/sys/class/net").join(name);
    path.join("device").exists().then_some(())?;
    let megabits: i64 = std::fs::read_to_string(path.join("speed")).ok()?.trim().parse().ok()?;
    u64::try_from(megabits).ok().filter(|speed| *speed > 0).map(|speed| speed * 1_000_000)
}

/// What is sent where: by what `--flow` says, and else between the networks of a rig. `resolve` finds the device's Ethernet address by
/// that of a port's host and the device's own.
pub(super) fn flows_of(
    names: &[&str],
    setup: &Setup,
    mut resolve: impl FnMut(usize, (MacAddr, IpAddr), IpAddr) -> Result<MacAddr, Error>,
) -> Result<Flows, Error> {
    let known = match names[..] {
        _ if setup.bridged => flows::bridged(names, setup.ipv6),
        [_, _] => flows::routed(names, &[MacAddr::default(); 2], setup.ipv6),
        _ => names.iter().map(|name| ((*name).to_owned(), String::new())).collect(),
    };
    if let (Some(port), 3.., false) =
        (names.iter().find(|name| !FlowLine::names(&setup.flows, name)), names.len(), setup.bridged)
    {
        return Err(Error::unfit(format!(
            "{port}: what to send there is not known with {} ports; \
             --flow '{port} src=PREFIX dst=PREFIX,PREFIX via=ADDRESS' for each",
            names.len()
        )));
    }
    let mut flows = flows::of_ports(&known, &setup.flows)?;
    if setup.bridged {
        return Ok(flows);
    }
    let usual = flows::networks(setup.ipv6, names.len());
    for (i, (name, (_, pattern))) in names.iter().zip(&mut flows).enumerate() {
        let usual = flows::address(&usual[i].device).filter(|_| names.len() == 2);
        let given = FlowLine::is_addressed(&setup.flows, name);
        let Some(via) = flows::gateway(name, &setup.flows, usual) else {
            if given {
                continue;
            }
            return Err(Error::unfit(format!(
                "{name}: whom to send to is not known; --flow '{name} via=ADDRESS' or ether=MAC"
            )));
        };
        let first = pattern.test_flows();
        let Some(host) = first.first().map(|flow| (flow.src_mac, flow.src)) else { continue };
        pattern.send_to(resolve(i, host, via)?);
    }
    Ok(flows)
}

/// Asks for the Ethernet address of the device.
pub(crate) fn resolve(
    name: &str,
    device: &dyn Device,
    host: (MacAddr, IpAddr),
    via: IpAddr,
) -> Result<MacAddr, Error> {
    let mut tx = device.tx(0)?;
    let mut rx = device.rx(0)?;
    let (mut batch, begun, mut asked) = (Batch::new(), Instant::now(), None::<Instant>);
    let mut questions = 0;
    while begun.elapsed() < PATIENCE || questions < QUESTIONS {
        if asked.is_none_or(|at| at.elapsed() > AGAIN) {
            // The kernel may tell a second late that it went down.
            linked(name, device)?;
            let question = hosts::ask(host, via);
            let question = question
                .ok_or_else(|| Error::unfit(format!("{name}: {} and {via} are of two families", host.1)))?;
            send(tx.as_mut(), [question].into_iter().collect());
            asked = Some(Instant::now());
            questions += 1;
        }
        rx.receive(&mut batch, 64);
        let answer = batch.iter().filter_map(|p| hosts::told(p.data())).find(|(who, _)| *who == via);
        // It may want to know us first.
        let answers: Batch = batch.iter().filter_map(|p| hosts::answer(p.data())).collect();
        batch.free_all();
        send(tx.as_mut(), answers);
        if let Some((_, mac)) = answer {
            return Ok(mac);
        }
    }
    let protocol = if via.is_ipv4() { "ARP" } else { "Neighbor Discovery" };
    Err(Error::unfit(format!(
        "{name}: nobody answers for {via}, for which {} asked by {protocol} for {} s; give the device this address there, \
         or say --flow '{name} via=ADDRESS' or '{name} ether=MAC', or --bridged if it is a bridge",
        host.1,
        PATIENCE.as_secs()
    )))
}

fn send(tx: &mut dyn packet::port::TxQueue, mut packets: Batch) {
    tx.transmit(&mut packets);
    tx.flush();
    packets.free_all();
}

/// Says what an interface hears that is not the tester's.
pub(crate) fn noise(name: &str, device: &dyn Device) -> Result<Option<String>, Error> {
    let mut rx = device.rx(0)?;
    let (mut batch, begun, mut heard) = (Batch::new(), Instant::now(), 0);
    let quiet =
        |packet: &Packet| hosts::answer(packet.data()).is_some() || hosts::told(packet.data()).is_some();
    while begun.elapsed() < LISTEN {
        rx.receive(&mut batch, 64);
        heard += batch.iter().filter(|packet| !quiet(packet)).count();
        batch.free_all();
    }
    Ok((heard > CHATTER).then(|| {
        let rate = heard as f64 / LISTEN.as_secs_f64();
        format!("{name} hears {rate:.0} frames a second of others: they count as foreign, and take room")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Driver;

    #[test]
    fn what_hosts_of_a_bridge_say_is_known_of_any_number_of_ports() {
        let setup = |bridged| Setup {
            workers: None,
            driver: Driver::Auto,
            flows: Vec::new(),
            bridged,
            ipv6: false,
            both: false,
            key: None,
        };
        let of = |bridged| flows_of(&["a", "b", "c"], &setup(bridged), |_, _, _| Err(Error::unfit("asked")));
        let flows = of(true).expect("flows");
        for (port, (_, pattern)) in flows.iter().enumerate() {
            let (_, next) = &flows[(port + 1) % 3];
            assert!(pattern.test_flows().iter().all(|flow| next.is_home_of(flow.dst)), "{port}");
        }
        assert!(of(false).is_err_and(|why| why.to_string().contains("--flow 'a src=PREFIX")));
    }
}
