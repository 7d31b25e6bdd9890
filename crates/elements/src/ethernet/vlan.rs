// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the VLAN elements take their tag from.

use engine::args::Args;
use engine::parse_integer;
use packet::{Packet, anno};

/// A tag, given or annotated, and the VLAN that goes without.
#[derive(Clone, Copy, Debug, Default)]
pub struct TagSource {
    /// The tag control information; the packet's annotation when absent.
    tci: Option<u16>,
    /// VLAN of untagged packets.
    native: Option<u16>,
}

impl TagSource {
    /// Reads VLAN_TCI (or VLAN_ID), VLAN_PCP and NATIVE_VLAN.
    pub fn read(args: &mut Args<'_>) -> TagSource {
        let id: Option<u16> = args.keyword_opt("VLAN_ID");
        let native: i32 = args.keyword("NATIVE_VLAN", 0);
        let text: Option<String> = if id.is_some() { None } else { args.positional_opt("VLAN_TCI") };
        let pcp: Option<u16> = args.positional_opt("VLAN_PCP");
        if !(-1..=4095).contains(&native) {
            args.error(format!("NATIVE_VLAN must lie between -1 and 4095, not {native}"));
        }
        if let Some(id) = id.filter(|id| *id > 4095) {
            args.error(format!("VLAN_ID must lie between 0 and 4095, not {id}"));
        }
        if let Some(pcp) = pcp.filter(|pcp| *pcp > 7) {
            args.error(format!("VLAN_PCP must lie between 0 and 7, not {pcp}"));
        }
        let mut tci = match text.as_deref() {
            None if id.is_none() => {
                args.error("missing argument VLAN_TCI: a tag, or ANNO");
                None
            }
            None => id,
            Some(word) if word.eq_ignore_ascii_case("anno") => None,
            Some(number) => {
                let number_read = parse_integer(number).and_then(|n| u16::try_from(n).ok());
                if number_read.is_none() {
                    args.error(format!(
                        "argument VLAN_TCI should be a number up to 65535 or ANNO, not '{number}'"
                    ));
                }
                number_read
            }
        };
        if let (Some(tci), Some(pcp)) = (&mut tci, pcp) {
            *tci = *tci & 0x1fff | (pcp & 7) << 13;
        }
        TagSource { tci, native: u16::try_from(native).ok() }
    }

    /// The packet's tag; `None` when it belongs to the native VLAN.
    #[inline]
    pub fn of(&self, packet: &Packet) -> Option<u16> {
        let tci = self.tci.unwrap_or_else(|| u16::from_be_bytes(packet.anno(anno::VLAN_TCI)));
        (Some(tci & 0xfff) != self.native).then_some(tci)
    }
}
