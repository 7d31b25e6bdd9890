// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a packet's headers lie.

use super::{FOREIGN, HEAP, Packet, SHARED, UNSET};

/// Header positions, as offsets in bytes from the packet's first byte. Positions stay with the bytes when the
/// packet is stripped or unstripped, so they may lie before its first byte (a negative offset).
impl Packet {
    #[inline]
    fn set_at(&self, offset: i32) -> u16 {
        u16::try_from(self.meta().off as i32 + offset).unwrap_or(UNSET)
    }

    #[inline]
    fn get_at(&self, at: u16) -> Option<i32> {
        if at == UNSET { None } else { Some(i32::from(at) - self.meta().off as i32) }
    }

    /// Offset of the link header, if it was set.
    #[inline]
    pub fn mac_offset(&self) -> Option<i32> {
        self.get_at(self.meta().mac)
    }

    /// Offset of the network header, if it was set.
    #[inline]
    pub fn network_offset(&self) -> Option<i32> {
        self.get_at(self.meta().net)
    }

    /// Offset of the transport header, if it was set.
    #[inline]
    pub fn transport_offset(&self) -> Option<i32> {
        self.get_at(self.meta().transport)
    }

    /// Marks the link header.
    #[inline]
    pub fn set_mac_offset(&mut self, offset: i32) {
        let at = self.set_at(offset);
        self.meta_mut().mac = at;
    }

    /// Marks the network header.
    #[inline]
    pub fn set_network_offset(&mut self, offset: i32) {
        let at = self.set_at(offset);
        self.meta_mut().net = at;
    }

    /// Marks the transport header.
    #[inline]
    pub fn set_transport_offset(&mut self, offset: i32) {
        let at = self.set_at(offset);
        self.meta_mut().transport = at;
    }

    /// Marks network and transport header at once.
    #[inline]
    pub fn set_network(&mut self, offset: usize, header_len: usize) {
        let m = self.meta_mut();
        m.net = u16::try_from(m.off as usize + offset).unwrap_or(UNSET);
        m.transport = u16::try_from(m.off as usize + offset + header_len).unwrap_or(UNSET);
    }

    /// What every received packet is marked with: its link header is its first, and it came at `wall_ns` (nanoseconds since the
    /// epoch; 0 for unknown), unless the device has said when.
    #[inline(always)]
    pub fn arrive(&mut self, wall_ns: u64) {
        let m = self.meta_mut();
        m.mac = u16::try_from(m.off).unwrap_or(UNSET);
        if m.timestamp_ns == 0 {
            m.timestamp_ns = wall_ns;
        }
    }

    /// The `N` bytes at `offset`; `None` when they are not all inside the packet. One comparison where the same place is asked for in
    /// many packets.
    #[inline(always)]
    pub fn chunk_at<const N: usize>(&self, offset: usize) -> Option<&[u8; N]> {
        let end = offset.saturating_add(N);
        if end > self.len() {
            return None;
        }
        // SAFETY: the bytes lie inside the packet's data, see `data`.
        Some(unsafe { &*self.as_ptr().add(offset).cast::<[u8; N]>() })
    }

    /// Removes `strip` bytes from the front and all behind the `len` that follow, and marks a network header of `header_len`
    /// bytes `offset` bytes behind the new start: what strip, trim and set_network do, with one check.
    ///
    /// # Panics
    /// When the packet is shorter than `strip + len`.
    #[inline]
    pub fn enter_network(&mut self, strip: usize, len: usize, offset: usize, header_len: usize) {
        let m = self.meta_mut();
        assert!(strip + len <= m.len as usize, "beyond the packet");
        m.off += strip as u32;
        m.len = len as u32;
        let at = m.off as usize + offset;
        // Both are set, or neither: a datagram from the heap may lie beyond what a position can name.
        if at + header_len < usize::from(UNSET) {
            (m.net, m.transport) = (at as u16, (at + header_len) as u16);
        } else {
            (m.net, m.transport) = (UNSET, UNSET);
        }
    }

    /// Puts the first six bytes of `dst`, then `rest`, in front as the packet's link header, if no other packet shares the bytes and there is
    /// headroom for it; returns whether it did.
    #[inline]
    pub fn push_link_header(&mut self, dst: &[u8; 8], rest: &[u8; 8]) -> bool {
        const LEN: u32 = 14;
        let m = self.meta_mut();
        if m.flags & SHARED != 0 || m.off < LEN {
            return false;
        }
        m.off -= LEN;
        m.len += LEN;
        m.mac = u16::try_from(m.off).unwrap_or(UNSET);
        // SAFETY: the headroom is inside the buffer, and no other packet refers to it.
        unsafe {
            let start = m.buf.add(m.off as usize);
            start.cast::<[u8; 8]>().write(*dst);
            start.add(6).cast::<[u8; 8]>().write(*rest);
        }
        true
    }

    /// Gives the packet that begins `strip` bytes further on a new link header: the first six bytes of `dst` and then `rest`. The `N`
    /// bytes behind that are marked as the network header. After them `behind` bytes are kept, and the others dropped. Returns the
    /// network header, to be changed.
    ///
    /// Returns `None`, with the packet untouched, where this cannot be done in place. Then another packet shares the bytes, or they lie
    /// in no frame of the packet's own. Or the packet is shorter, or there is no room for the link header.
    #[inline(always)]
    pub fn relink<const N: usize>(
        &mut self,
        strip: u32,
        behind: u16,
        dst: &[u8; 8],
        rest: &[u8; 8],
    ) -> Option<&mut [u8; N]> {
        const LINK: usize = 14;
        let m = self.meta_mut();
        // Nothing overflows 64 bits.
        let (strip, behind) = (strip as usize, usize::from(behind));
        let start = m.off as usize + strip;
        let room = i64::from(m.len) - (strip + N) as i64;
        // In a frame of its own a packet begins where a position can name it.
        if m.flags & (SHARED | FOREIGN | HEAP) != 0 || start < LINK || room < behind as i64 {
            return None;
        }
        debug_assert!(start + N < usize::from(UNSET));
        m.off = (start - LINK) as u32;
        m.len = (behind + (LINK + N)) as u32;
        (m.mac, m.net, m.transport) = ((start - LINK) as u16, start as u16, (start + N) as u16);
        // SAFETY: the link header and the `N` bytes behind it are inside the buffer, and no other packet refers to it. Two words
        // that overlap by two bytes are the fewest stores.
        unsafe {
            let header = m.buf.add(start);
            header.sub(14).cast::<[u8; 8]>().write(*dst);
            header.sub(8).cast::<[u8; 8]>().write(*rest);
            Some(&mut *header.cast::<[u8; N]>())
        }
    }

    /// Forgets all header positions.
    pub fn clear_header_offsets(&mut self) {
        let m = self.meta_mut();
        (m.mac, m.net, m.transport) = (UNSET, UNSET, UNSET);
    }

    fn bytes_from(&self, at: Option<i32>) -> Option<&[u8]> {
        self.data().get(usize::try_from(at?).ok()?..)
    }

    /// Bytes from the network header to the end; `None` when the position is unset or outside the packet.
    #[inline]
    pub fn network(&self) -> Option<&[u8]> {
        self.bytes_from(self.network_offset())
    }

    /// The first `N` bytes of the network header, in one comparison; `None` when its position is unset or they are not
    /// all inside the packet.
    #[inline]
    pub fn network_chunk<const N: usize>(&self) -> Option<&[u8; N]> {
        // SAFETY: the bytes lie inside the packet's data, see `data`.
        self.network_at(N).map(|at| unsafe { &*at.cast::<[u8; N]>() })
    }

    /// The same, to be changed; copies the packet first when another shares its bytes.
    #[inline(always)]
    pub fn network_chunk_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        if self.meta().flags & SHARED != 0 {
            self.unshare();
        }
        // SAFETY: the bytes lie inside the packet's data, and no other packet refers to them.
        self.network_at(N).map(|at| unsafe { &mut *at.cast::<[u8; N]>() })
    }

    /// The first `N` bytes of the network header, to be changed, and the bytes from there to the end; `None` when its position
    /// is unset, when they are not all inside the packet, or when another packet shares the bytes.
    #[inline(always)]
    pub fn sole_network<const N: usize>(&mut self) -> Option<(&mut [u8; N], usize)> {
        if self.meta().flags & SHARED != 0 {
            return None;
        }
        let at = self.network_at(N)?;
        let m = self.meta();
        let len = m.len - (u32::from(m.net) - m.off);
        // SAFETY: the bytes lie inside the packet's data, and no other packet refers to them.
        Some((unsafe { &mut *at.cast::<[u8; N]>() }, len as usize))
    }

    /// Where the network header begins, if its first `n` bytes lie inside the packet.
    #[inline]
    fn network_at(&self, n: usize) -> Option<*mut u8> {
        let m = self.meta();
        // A header before the first byte wraps to a large number.
        let before = u32::from(m.net).wrapping_sub(m.off);
        if m.net == UNSET || u64::from(before) + n as u64 > u64::from(m.len) {
            return None;
        }
        Some(m.buf.wrapping_add(usize::from(m.net)))
    }

    /// Bytes from the network header to the end, to be changed.
    #[inline]
    pub fn network_mut(&mut self) -> Option<&mut [u8]> {
        let at = usize::try_from(self.network_offset()?).ok()?;
        self.data_mut().get_mut(at..)
    }

    /// Bytes from the transport header to the end; `None` when the position is unset or outside the packet.
    #[inline]
    pub fn transport(&self) -> Option<&[u8]> {
        self.bytes_from(self.transport_offset())
    }

    /// Bytes from the link header to the end. The header may lie in the headroom, where `strip` left it.
    #[inline]
    pub fn mac(&self) -> Option<&[u8]> {
        let m = self.meta();
        if m.mac == UNSET || u32::from(m.mac) > m.off + m.len {
            return None;
        }
        let end = (m.off + m.len) as usize;
        // SAFETY: the position is inside the buffer, before the end of the data.
        Some(unsafe { std::slice::from_raw_parts(m.buf.add(usize::from(m.mac)), end - usize::from(m.mac)) })
    }
}
