// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that the firewall sends for servers, to clients that have not proved their address and to servers whose clients have.

use std::net::IpAddr;

use firewall::proxy::segment::Made;
use firewall::{Firewall, Steps};
use packet::{HEADROOM, Packet, anno};

/// What leaves in place of a packet.
#[derive(Debug)]
pub(super) enum Sent {
    /// This one, on the packet's way.
    Onward(Packet),
    /// This one, to the packet's sender.
    Back(Packet),
    /// The first one on the packet's way, the second to its sender.
    Both(Packet, Packet),
}

/// Changes a packet that passes.
pub(super) fn translate(firewall: &Firewall, packet: &mut Packet) {
    if let (Some(translation), Some(ip)) = (firewall.steps().shift, packet.network_mut()) {
        translation.apply(ip);
    }
}

/// What leaves in place of a packet; the packet itself if there is no memory.
pub(super) fn sent(steps: &Steps, mut packet: Packet) -> Result<Sent, Packet> {
    let to_sender = match &steps.back {
        Some(made) => match back(made, &packet) {
            Some(answer) => Some(answer),
            None => return Err(packet),
        },
        None => None,
    };
    if let Some(made) = &steps.onward
        && onward(made, &mut packet).is_none()
    {
        return Err(packet);
    }
    match (steps.onward.is_some(), to_sender) {
        (true, Some(answer)) => Ok(Sent::Both(packet, answer)),
        (true, None) => Ok(Sent::Onward(packet)),
        (false, Some(answer)) => Ok(Sent::Back(answer)),
        (false, None) => Err(packet),
    }
}

/// A packet for the sender of another one: it stays in the same routing table.
fn back(made: &Made, packet: &Packet) -> Option<Packet> {
    let mut answer = Packet::alloc(HEADROOM, made.length())?;
    made.write(answer.data_mut())?;
    answer.set_network(0, made.header_length());
    match made.ends[1].0 {
        IpAddr::V4(address) => answer.set_anno(anno::DST_IP, address.octets()),
        IpAddr::V6(address) => answer.set_anno(anno::DST_IP, address.octets()),
    }
    answer.set_anno_u8(anno::VRF, packet.anno_u8(anno::VRF));
    answer.set_paint(0);
    Some(answer)
}

/// Writes a packet in the place of another one, whose annotations it keeps: it has the same next hop.
fn onward(made: &Made, packet: &mut Packet) -> Option<()> {
    let at = packet.len() - packet.network()?.len();
    let (present, needed) = (packet.len() - at, made.length());
    if present > needed {
        packet.trim(present - needed);
    } else if present < needed {
        packet.put(needed - present)?;
    }
    made.write(packet.network_mut()?)?;
    packet.set_network(at, made.header_length());
    Some(())
}
