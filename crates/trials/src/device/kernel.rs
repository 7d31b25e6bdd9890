// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel as the device: its IP forwarding, and its bridge, with two ports or more.

use std::io::Write as _;

use packet::{Batch, Packet};
use testbed::rig::{Namespace, RigError};
use wire::{MacAddr, arp};

use super::rig::{Opened, Rig};
use super::{Filtering, Forget, Plugged, Route, Routing, Setup, Traffic, flows};
use crate::Error;
use crate::filters::{self, Filters};

/// Milliseconds for which a neighbour counts as reachable: a day, so that no trial meets with a probe.
const REACHABLE_MS: &str = "86400000";

/// IP forwarding between as many networks as it has ports.
pub(super) fn router(ports: usize, setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    let rig = Rig::new(setup, ports, ports, traffic)?;
    configure_router(&rig, setup.ipv6)?;
    if setup.both {
        configure_router(&rig, !setup.ipv6)?;
    }
    let macs = rig.macs()?;
    let (tester, device_ends) = (rig.tester_ends(), rig.device_ends());
    let known = |ipv6| flows::routed(tester, &macs, ipv6);
    let flows = flows::of_ports(&known(setup.ipv6), &setup.flows)?;
    let opened = rig.open()?;
    let settings = ["net/ipv4/ip_forward", "net/ipv4/conf/all/rp_filter", "net/ipv6/conf/all/forwarding"];
    let configuration = Some(told(&rig, &settings)?);
    let (namespace, filtering) = (rig.shared(), filtering(&rig, false));
    let mut plugged = finish(rig, opened, &flows, traffic)?.with_other(setup, traffic, known)?;
    plugged.routing = Routing::Ours("they were set by ip route before the first trial", {
        let add = move |device: &Namespace, routes: &[Route]| add_routes(device, device_ends, routes);
        Box::new(move |routes| namespace.as_deref().map_or(Ok(()), |device| add(device, routes)))
    });
    plugged.filtering = filtering;
    plugged.configuration = configuration;
    Ok(plugged)
}

/// What the kernel reports of interfaces, addresses, routes and these settings in the device's namespace.
fn told(rig: &Rig, settings: &[&str]) -> Result<String, RigError> {
    let device = rig.device();
    let mut text = format!("# uname -sr\n{}", device.run(&["uname", "-sr"])?);
    for shown in ["-details link show", "address show", "route show", "-6 route show"] {
        text += &format!("# ip {shown}\n{}", device.ip(shown)?);
    }
    for setting in settings {
        let value = device.run(&["cat", &format!("/proc/sys/{setting}")])?;
        text += &format!("{} = {value}", setting.replace('/', "."));
    }
    Ok(text)
}

/// Gives the kernel these routes, all with one call.
fn add_routes(device: &Namespace, ends: &[&str], routes: &[Route]) -> Result<(), Error> {
    let line = |route: &Route| {
        let (prefix, via, interface) = (route.prefix(), route.via, ends[route.port]);
        format!("route replace {prefix} via {via} dev {interface}\n")
    };
    let text: String = routes.iter().map(line).collect();
    run_file(device, &["ip", "-batch"], &text)
}

/// Runs a command in the device's namespace, whose last argument is a file of this text.
fn run_file(device: &Namespace, command: &[&str], text: &str) -> Result<(), Error> {
    let cannot = Error::system(format!("a file for {} cannot be written", command[0]));
    let mut file = tempfile::NamedTempFile::new().map_err(&cannot)?;
    file.write_all(text.as_bytes()).map_err(&cannot)?;
    let name = file.path().to_string_lossy();
    Ok(device.run(&[command, &[&name]].concat()).map(drop)?)
}

/// Filters of the kernel's, by nftables.
fn filtering(rig: &Rig, bridged: bool) -> Filtering {
    let (namespace, ends) = (rig.shared(), rig.device_ends());
    Filtering::Ours(Box::new(move |filters: Option<&Filters>| {
        let Some(device) = namespace.as_deref() else { return Ok(String::new()) };
        // To delete a table that may not be there, it is made first.
        let table = filters::table(bridged);
        let mut text = format!("add table {table}\ndelete table {table}\n");
        if let Some(filters) = filters {
            text += &filters.nft(ends);
        }
        run_file(device, &["nft", "-f"], &text).map_err(|why| {
            let advice = "; the kernel's are set by nft: sudo apt-get install nftables";
            Error::During { purpose: "--filters".to_owned(), why: Box::new(why), advice }
        })?;
        Ok(format!("nft -f - <<END\n{text}END\n"))
    }))
}

fn configure_router(rig: &Rig, ipv6: bool) -> Result<(), RigError> {
    let device = rig.device();
    let family = if ipv6 { "ipv6" } else { "ipv4" };
    let ends = rig.device_ends();
    for (interface, network) in ends.iter().zip(flows::networks(ipv6, ends.len())) {
        if ipv6 {
            device.sysctl(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "0")?;
            // Nobody else is there to have the same address.
            device.sysctl(&format!("net/ipv6/conf/{interface}/accept_dad"), "0")?;
        } else {
            device.sysctl(&format!("net/ipv4/conf/{interface}/rp_filter"), "0")?;
        }
        let nodad = if ipv6 { " nodad" } else { "" };
        device.ip(&format!("addr add {} dev {interface}{nodad}", network.device))?;
        device.sysctl(&format!("net/{family}/neigh/{interface}/base_reachable_time_ms"), REACHABLE_MS)?;
    }
    if ipv6 {
        device.sysctl("net/ipv6/conf/all/forwarding", "1")
    } else {
        device.sysctl("net/ipv4/conf/all/rp_filter", "0")?;
        device.sysctl("net/ipv4/ip_forward", "1")
    }
}

/// A bridge, which knows who is behind which port.
pub(super) fn bridge(ports: usize, setup: &Setup, traffic: &Traffic) -> Result<Plugged, Error> {
    let rig = Rig::new(setup, ports, ports, traffic)?;
    configure_bridge(&rig)?;
    let tester = rig.tester_ends();
    let known = |ipv6| flows::bridged(tester, ipv6);
    let flows = flows::of_ports(&known(setup.ipv6), &setup.flows)?;
    let opened = rig.open()?;
    introduce(&opened, &flows)?;
    let filtering = filtering(&rig, true);
    let configuration = Some(told(&rig, &[])?);
    let namespace = rig.shared();
    let forget: Box<Forget> = Box::new(move || {
        let flush = |device: &Namespace| Ok(device.ip("link set br0 type bridge fdb_flush").map(drop)?);
        namespace.as_deref().map_or(Ok(()), flush)
    });
    let plugged = finish(rig, opened, &flows, traffic)?.with_other(setup, traffic, known)?;
    Ok(Plugged { filtering, configuration, forget: Some(forget), ..plugged })
}

fn configure_bridge(rig: &Rig) -> Result<(), RigError> {
    let device = rig.device();
    // Nobody is forgotten within a day.
    device.ip("link add br0 type bridge stp_state 0 mcast_snooping 0 ageing_time 8640000")?;
    for interface in rig.device_ends() {
        device.ip(&format!("link set {interface} master br0"))?;
    }
    let up = |interface: &&str| device.wait_for_link(interface);
    device.ip("link set br0 up").and_then(|_| rig.device_ends().iter().try_for_each(up))
}

/// Lets every station send one frame, so that the bridge learns where it is, whichever ports send later.
fn introduce(opened: &Opened, flows: &flows::Flows) -> Result<(), Error> {
    for ((_, device), (_, pattern)) in opened.iter().zip(flows) {
        let mut tx = device.tx(0)?;
        let macs: std::collections::BTreeSet<[u8; 6]> =
            pattern.test_flows().iter().map(|flow| flow.src_mac.octets()).collect();
        for mac in macs {
            let nobody = [0, 0, 0, 0].into();
            let frame = arp::Repr::request(MacAddr(mac), nobody, nobody).to_frame();
            let mut batch: Batch = Packet::copy_of(&frame).into_iter().collect();
            tx.transmit(&mut batch);
            tx.flush();
            batch.free_all();
        }
    }
    Ok(())
}

/// Plugs the tester in. The kernel receives from the device's interfaces on the device's cores, in threads of its own. Without them it
/// would forward on the sender's core, which is the tester's.
fn finish(rig: Rig, opened: Opened, flows: &flows::Flows, traffic: &Traffic) -> Result<Plugged, Error> {
    let mut plugged = rig.station(opened, flows, traffic)?;
    for interface in rig.device_ends() {
        rig.device().receive_on(interface, &rig.cores.device)?;
    }
    rig.place_wire(false)?;
    rig.settle(&mut plugged);
    plugged.beside = Some(Box::new(rig));
    Ok(plugged)
}
