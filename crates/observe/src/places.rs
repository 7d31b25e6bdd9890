// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which elements and ports are meant, and which packets.

use std::sync::Arc;

use engine::{ElementId, GraphEnd, Shared};
use packet::filter::Filter;
use packet::port::{Provider as _, link_type};
use packet::{Packet, PacketType, anno};
use wire::fields::First;

use super::records::first;

/// Which packets are meant, for packets that begin with Ethernet and with IP.
#[derive(Clone)]
pub(super) struct Filters {
    ethernet: Option<Arc<Filter>>,
    ip: Option<Arc<Filter>>,
}

impl Filters {
    pub(super) fn compile(expression: &str) -> Result<Filters, String> {
        if expression.trim().is_empty() {
            return Ok(Filters { ethernet: None, ip: None });
        }
        let system = ports::SystemProvider::new();
        let compiled = |link| system.filter(expression, link).map(Arc::new);
        let ethernet = compiled(link_type::ETHERNET).map_err(|e| e.to_string())?;
        // What asks for Ethernet addresses holds of no packet without them.
        let nothing = || Filter::new(vec![packet::filter::Instruction::new(6, 0, 0, 0)]).map(Arc::new);
        Ok(Filters { ethernet: Some(ethernet), ip: compiled(link_type::RAW).ok().or_else(nothing) })
    }

    pub(super) fn accepts(&self, packet: &Packet) -> bool {
        let filter = match first(packet) {
            First::Ethernet => &self.ethernet,
            First::Ip => &self.ip,
        };
        filter.as_ref().is_none_or(|filter| filter.accepts(packet.data(), packet.len()))
    }
}

/// Which element and port `ELEMENT` or `ELEMENT:PORT` means.
pub(super) fn place(shared: &Shared, text: &str) -> Result<(ElementId, Option<usize>), String> {
    // A name may have a colon of its own nowhere, so what follows the last one is a port.
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => {
            let port = port.parse().map_err(|_| {
                format!("'{port}' in '{text}' is no number of a port: write ELEMENT:PORT, from 0 on")
            })?;
            (name, Some(port))
        }
        None => (text, None),
    };
    let element = shared.named(name).ok_or_else(|| {
        let near = lang::suggest(name, shared.elements.iter().map(|e| e.name.as_str()));
        let help = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        format!("this router has no element '{name}'{help} ('junctor ctl list' has them all)")
    })?;
    Ok((element, port))
}

/// The side of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

/// The same in the ways of configurations and of capture files, too: `[0]q` is an input, and `q[0]` an output.
pub(super) fn port(shared: &Shared, text: &str) -> Result<(ElementId, Option<usize>, Option<Side>), String> {
    let (side, plain) = match bracketed(text) {
        Some((side, name, port)) => (Some(side), format!("{name}:{port}")),
        None => (None, text.to_owned()),
    };
    place(shared, &plain).map(|(element, port)| (element, port, side))
}

/// Takes `[PORT]ELEMENT` or `ELEMENT[PORT]` apart.
fn bracketed(text: &str) -> Option<(Side, &str, &str)> {
    if let Some((port, name)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return Some((Side::Input, name, port));
    }
    let (name, port) = text.strip_suffix(']')?.rsplit_once('[')?;
    Some((Side::Output, name, port))
}

/// The element and input that is meant, or all of its inputs.
pub(super) fn input(shared: &Shared, text: &str) -> Result<(ElementId, Option<usize>), String> {
    let (element, port) = place(shared, text)?;
    let (name, inputs) = (&shared.elements[element].name, shared.elements[element].inputs().len());
    match port {
        _ if inputs == 0 => Err(format!("{name} has no inputs: packets begin there; say another element")),
        Some(port) if port >= inputs => Err(format!("{name} has inputs 0 to {}, and no {port}", inputs - 1)),
        _ => Ok((element, port)),
    }
}

/// Where a packet that is tried begins.
#[derive(Clone, Copy)]
pub(super) struct Beginning {
    /// The element and input that it comes to; or the element that brings it into the router.
    pub(super) place: GraphEnd,
    /// The element as if which it came from.
    pub(super) source: Option<ElementId>,
}

/// Where a packet that is tried begins: before the input that is named, or in or behind the source that is named, or the only one there is.
pub(super) fn beginning(shared: &Shared, at: Option<&str>) -> Result<Beginning, String> {
    let behind = |element: ElementId, port: usize| {
        let (info, source) = (&shared.elements[element], Some(element));
        // These say which packets they take at all.
        if info.class.name == "FromDevice" && port == 0 {
            return Ok(Beginning { place: GraphEnd { element, port }, source });
        }
        let output = info.outputs().get(port).and_then(|to| to.peers.first().copied());
        output.map(|place| Beginning { place, source }).ok_or_else(|| {
            format!(
                "{} has no output {port} that is connected ('junctor ctl {}.ports' has them all)",
                info.name, info.name
            )
        })
    };
    if let Some(text) = at {
        let (element, port) = place(shared, text)?;
        return match shared.elements[element].inputs().is_empty() {
            true => behind(element, port.unwrap_or(0)),
            false => {
                let (element, port) = input(shared, text)?;
                Ok(Beginning { place: GraphEnd { element, port: port.unwrap_or(0) }, source: None })
            }
        };
    }
    let sources = shared.elements.iter_enumerated();
    let sources: Vec<_> = sources.filter(|(_, e)| e.inputs().is_empty() && !e.outputs().is_empty()).collect();
    match sources[..] {
        [(only, _)] => behind(only, 0),
        [] => {
            Err("no element brings packets into this router; say where the packet is to begin by --at".into())
        }
        _ => {
            let names: Vec<&str> = sources.iter().map(|(_, e)| e.name.as_str()).collect();
            Err(format!("say by --at behind which source the packet is to begin: {}", names.join(", ")))
        }
    }
}

/// Why a packet that begins with an IP header, or else with an Ethernet header, cannot come from a source whose handler `encap` says this.
pub(super) fn misfit(source: &str, encapsulation: &str, ip: bool) -> Option<String> {
    match (encapsulation.trim(), ip) {
        ("ETHER", true) => Some(format!(
            "{source} brings Ethernet frames, and this packet begins with an IP header: put 'eth SOURCE to DESTINATION /' in front of it, or name by --at an element behind the one that takes Ethernet headers off"
        )),
        ("IP", false) => Some(format!(
            "{source} brings packets that begin with an IP header, and this one begins with an Ethernet header: leave that out, or name another element by --at"
        )),
        _ => None,
    }
}

/// Makes a packet as if it had just arrived.
pub(super) fn arrived(bytes: &[u8], ip: bool) -> Option<Packet> {
    let mut packet = Packet::copy_of(bytes)?;
    if ip {
        let header_len = bytes.first().map_or(0, |b| usize::from(b & 15) * 4);
        packet.set_network(0, if bytes.first().is_some_and(|b| b >> 4 == 6) { 40 } else { header_len });
        // Who routes has said by then where it goes.
        match (bytes.first().map(|b| b >> 4), bytes.get(16..20), bytes.get(24..40)) {
            (Some(4), Some(&[a, b, c, d]), _) => packet.set_dst_ip([a, b, c, d]),
            (Some(6), _, Some(address)) => {
                if let Some(address) = address.first_chunk::<16>() {
                    packet.set_anno(anno::DST_IP, *address);
                }
            }
            _ => {}
        }
    } else {
        packet.set_mac_offset(0);
        match bytes.first() {
            Some(b) if bytes.get(..6).is_some_and(|dst| dst.iter().all(|b| *b == 0xff)) && *b == 0xff => {
                packet.set_packet_type(PacketType::Broadcast);
            }
            Some(b) if b & 1 == 1 => packet.set_packet_type(PacketType::Multicast),
            _ => {}
        }
    }
    packet.follow(1);
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_begin_as_their_source_says() {
        for (encapsulation, ip, words) in [
            ("ETHER\n", true, Some("brings Ethernet frames")),
            ("IP", false, Some("leave that out")),
            ("ETHER", false, None),
            ("IP", true, None),
            ("PPP", true, None),
        ] {
            let why = misfit("in", encapsulation, ip);
            assert_eq!(why.is_some(), words.is_some(), "{encapsulation} {ip}: {why:?}");
            assert!(why.unwrap_or_default().contains(words.unwrap_or_default()));
        }
    }

    #[test]
    fn ports_are_written_as_in_configurations() {
        assert_eq!(bracketed("[0]q"), Some((Side::Input, "q", "0")));
        assert_eq!(bracketed("a/q[12]"), Some((Side::Output, "a/q", "12")));
        for plain in ["q", "q:0", "q[", "q]", "[q"] {
            assert_eq!(bracketed(plain), None, "{plain}");
        }
    }
}
