// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the VLAN elements take their tag from, and the handlers that change it.

use element::args::Args;
use element::{Handler, HandlerError, handlers, parse_integer};
use packet::{Packet, anno};

use crate::tools::number;

/// The type that says that a tag follows (IEEE 802.1Q).
pub const TAGGED: u16 = 0x8100;

/// Handlers of a tag: of the whole, of its parts, and of the VLAN that goes without.
pub const TAG: &[Handler; 4] = handlers! { TagSource:
    both "vlan_tci" => |tag| tag.tci.map_or("ANNO".to_owned(), |tci| tci.to_string()), |tag, text: &str| tag.set_tci(text.trim())?;
    both "vlan_id" => |tag| tag.part(|tci| tci & 0xfff),
        |tag, text: &str| tag.tci = Some(tag.given() & 0xf000 | bounded("vlan_id", text, 0, 0xfff)? as u16);
    both "vlan_pcp" => |tag| tag.part(|tci| tci >> 13),
        |tag, text: &str| tag.tci = Some(tag.given() & 0x1fff | (bounded("vlan_pcp", text, 0, 7)? as u16) << 13);
    both "native_vlan" => |tag| tag.native.map_or("-1".to_owned(), |id| id.to_string()),
        |tag, text: &str| tag.native = u16::try_from(bounded("native_vlan", text, -1, 0xfff)?).ok();
};

/// A tag, given or annotated, and the VLAN that goes without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagSource {
    /// The tag control information; the packet's annotation when absent.
    tci: Option<u16>,
    /// VLAN of untagged packets.
    native: Option<u16>,
    /// Whether the annotation may take the place of a given tag.
    annotated: bool,
}

impl TagSource {
    /// Reads VLAN_TCI (or VLAN_ID), VLAN_PCP and NATIVE_VLAN.
    pub fn read(args: &mut Args<'_>) -> TagSource {
        let native: i32 = args.keyword("NATIVE_VLAN", 0);
        let tci = tag(args, true);
        TagSource { tci, native: within(args, "NATIVE_VLAN", -1, 4095, native), annotated: true }
    }

    /// Reads VLAN_TCI (or VLAN_ID) and VLAN_PCP, where there is no annotation to take the tag from.
    pub fn read_given(args: &mut Args<'_>) -> TagSource {
        TagSource { tci: tag(args, false), native: None, annotated: false }
    }

    /// The packet's tag; `None` when it belongs to the native VLAN.
    #[inline]
    pub fn of(&self, packet: &Packet) -> Option<u16> {
        let tci = self.tci.unwrap_or_else(|| u16::from_be_bytes(packet.anno(anno::VLAN_TCI)));
        (Some(tci & 0xfff) != self.native).then_some(tci)
    }

    /// The tag that was given.
    #[inline]
    pub fn given(&self) -> u16 {
        self.tci.unwrap_or(0)
    }

    /// The tag's arguments as they are now.
    pub fn arguments(&self) -> String {
        let tag = match self.tci {
            None => "ANNO".to_owned(),
            Some(tci) => format!("VLAN_ID {}, VLAN_PCP {}", tci & 0xfff, tci >> 13),
        };
        match self.native {
            Some(0) => tag,
            native => format!("{tag}, NATIVE_VLAN {}", native.map_or("-1".to_owned(), |id| id.to_string())),
        }
    }

    /// A part of a given tag; of an annotated one it is empty.
    fn part(&self, part: fn(u16) -> u16) -> String {
        self.tci.map_or(String::new(), |tci| part(tci).to_string())
    }

    fn set_tci(&mut self, text: &str) -> Result<(), HandlerError> {
        self.tci = match text {
            "ANNO" if self.annotated => None,
            _ => Some(bounded("vlan_tci", text, 0, 0xffff)? as u16),
        };
        Ok(())
    }
}

/// The number from `low` to `high` written to handler `name`.
fn bounded(name: &str, text: &str, low: i32, high: i32) -> Result<i32, HandlerError> {
    let text = text.trim();
    match number::<i32>(name, text)? {
        n if (low..=high).contains(&n) => Ok(n),
        _ => Err(HandlerError::bad_value(name, text, &format!("a number from {low} to {high}"))),
    }
}

/// `value` if it lies between `low` and `high`; an error otherwise. Negative values are no VLAN.
fn within(args: &mut Args<'_>, name: &str, low: i32, high: i32, value: i32) -> Option<u16> {
    let _ = args.allow(name, Some(value), low..=high);
    u16::try_from(value).ok()
}

/// The tag in the arguments, `None` for the annotation's.
fn tag(args: &mut Args<'_>, annotated: bool) -> Option<u16> {
    let id: Option<i32> = args.keyword_opt("VLAN_ID");
    let text: Option<String> = if id.is_some() { None } else { args.positional_opt("VLAN_TCI") };
    let pcp: i32 = args.positional("VLAN_PCP", 0);
    let pcp = within(args, "VLAN_PCP", 0, 7, pcp).unwrap_or(0) & 7;
    let expected = if annotated { "a number up to 65535 or ANNO" } else { "a number up to 65535" };
    let tci = match (id, text.as_deref()) {
        (Some(id), _) => within(args, "VLAN_ID", 0, 4095, id)?,
        (None, None) => {
            args.missing("VLAN_TCI", expected);
            return None;
        }
        (None, Some("ANNO")) if annotated => return None,
        (None, Some(word)) => {
            let number = parse_integer(word).and_then(|n| u16::try_from(n).ok());
            if number.is_none() {
                args.error(format!("argument VLAN_TCI should be {expected}, not '{word}'"));
            }
            number?
        }
    };
    Some(tci | pcp << 13)
}
