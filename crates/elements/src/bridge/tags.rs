// SPDX-License-Identifier: MIT OR Apache-2.0
//! Putting VLAN tags on frames and taking them off (IEEE 802.1Q, tagged frame format).

use packet::Packet;

/// Bytes of both addresses, behind which a tag stands.
const ADDRESSES: usize = 12;
/// Bytes of a tag.
pub(super) const TAG_LEN: usize = 4;
/// The type of a customer's tag (IEEE 802.1Q) and of a provider's (802.1ad).
pub(super) const CUSTOMER: u16 = 0x8100;
pub(super) const PROVIDER: u16 = 0x88a8;

/// The type behind the addresses and the two bytes that follow, if they are there.
#[inline(always)]
pub(super) fn tag(data: &[u8]) -> Option<(u16, u16)> {
    let [.., t0, t1, c0, c1] = data.first_chunk::<16>()?;
    Some((u16::from_be_bytes([*t0, *t1]), u16::from_be_bytes([*c0, *c1])))
}

/// Puts a tag on; false when packet memory is exhausted.
pub(super) fn insert(packet: &mut Packet, kind: u16, tci: u16) -> bool {
    let Some(data) = packet.push(TAG_LEN) else { return false };
    data.copy_within(TAG_LEN..TAG_LEN + ADDRESSES, 0);
    let ([k0, k1], [c0, c1]) = (kind.to_be_bytes(), tci.to_be_bytes());
    data[ADDRESSES..ADDRESSES + TAG_LEN].copy_from_slice(&[k0, k1, c0, c1]);
    true
}

/// Takes the tag off.
pub(super) fn strip(packet: &mut Packet) {
    if packet.len() >= ADDRESSES + TAG_LEN {
        packet.data_mut().copy_within(0..ADDRESSES, TAG_LEN);
        packet.strip(TAG_LEN);
    }
}

/// Names another VLAN in the tag that is there; its priority stays.
pub(super) fn set_vid(packet: &mut Packet, vid: u16) {
    if let Some((_, tci)) = tag(packet.data()).filter(|(_, tci)| tci & 0xfff != vid) {
        let tci = tci & 0xf000 | vid;
        packet.data_mut()[ADDRESSES + 2..ADDRESSES + TAG_LEN].copy_from_slice(&tci.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_and_go() {
        let bare = b"aaaaaabbbbbb\x08\x00payload";
        let mut packet = Packet::copy_of(bare).expect("memory");
        assert!(insert(&mut packet, PROVIDER, 0x6005));
        assert_eq!(packet.data(), b"aaaaaabbbbbb\x88\xa8\x60\x05\x08\x00payload");
        assert_eq!(tag(packet.data()), Some((PROVIDER, 0x6005)));
        set_vid(&mut packet, 7);
        assert_eq!(tag(packet.data()), Some((PROVIDER, 0x6007)));
        strip(&mut packet);
        assert_eq!(packet.data(), bare);
        let mut short = Packet::copy_of(b"short").expect("memory");
        strip(&mut short);
        set_vid(&mut short, 1);
        assert_eq!((short.data(), tag(short.data())), (&b"short"[..], None));
    }
}
