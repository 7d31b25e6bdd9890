// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elements note on a packet.

use super::{ANNO_SIZE, COLD, HOT_ANNO, Packet, PacketType, Rest, SHARED};

/// Annotations at Click's offsets in the 48-byte area.
pub mod anno {
    /// Destination address: 4 bytes (IPv4) or 16 (IPv6).
    pub const DST_IP: usize = 0;
    /// Paint: 1 byte.
    pub const PAINT: usize = 16;
    /// ICMP parameter problem pointer: 1 byte.
    pub const ICMP_PARAM_PROBLEM: usize = 17;
    /// Whether FixIPSrc should act: 1 byte.
    pub const FIX_IP_SRC: usize = 18;
    /// VLAN tag control information: 2 bytes, network order.
    pub const VLAN_TCI: usize = 18;
    /// Number of the routing table that the packet is looked up in: 1 byte, in place of the VLAN tag's end.
    pub const VRF: usize = 19;
    /// Aggregate number: 4 bytes, host order.
    pub const AGGREGATE: usize = 20;
    /// Bytes missing from a truncated packet: 4 bytes, host order.
    pub const EXTRA_LENGTH: usize = 24;
    /// First timestamp: 8 bytes, host order.
    pub const FIRST_TIMESTAMP: usize = 28;
    /// Number of the security association that the packet belongs to: 4 bytes, host order, in place of the first timestamp. Zero for none.
    pub const IPSEC_SA: usize = 28;
    /// What IPsec did to the packet: 1 byte, in place of the first timestamp. Zero for nothing, 1 if it came protected, [`PROTECTED`] if it was protected here.
    pub const OPENED: usize = 28;
    /// A packet, or a fragment of one, that was protected here.
    pub const PROTECTED: u8 = 2;
    /// The association's index in packets (SPI): 4 bytes, host order, in place of the first timestamp's end.
    pub const IPSEC_SPI: usize = 32;
    /// Rate of the packet's source, as IPRateMonitor measured it: 4 bytes, host order, in place of the first timestamp's end.
    pub const FORWARD_RATE: usize = 32;
    /// Rate to the packet's destination: 4 bytes, host order, in place of the extra packets.
    pub const REVERSE_RATE: usize = 36;
    /// Packets that this one stands for, less one: 4 bytes, host order.
    pub const EXTRA_PACKETS: usize = 36;
    /// Sequence number: 4 bytes, host order.
    pub const SEQUENCE: usize = 40;
    /// Miscellaneous IP annotation: 4 bytes.
    pub const MISC_IP: usize = 44;
    /// EtherType that the packet is to leave with, where it is not that of the element which writes the link header: 2 bytes, network
    /// order, in place of the end of the miscellaneous annotation. Zero for none.
    pub const ETHERTYPE: usize = 46;
    /// The longest packet, in bytes, that the way of a packet takes that is too long: 4 bytes, host order, in place of the miscellaneous
    /// annotation.
    pub const PATH_MTU: usize = MISC_IP;
    /// Pointer of an ICMPv6 parameter problem: 4 bytes, host order, in place of the miscellaneous annotation.
    pub const ICMP6_POINTER: usize = MISC_IP;
}

// How the descriptor says what type a packet has.
const BROADCAST: u8 = 1;
const MULTICAST: u8 = 2;
const OTHER_HOST: u8 = 4;
const OUTGOING: u8 = 8;
const LOOPBACK: u8 = 16;

/// Facts about a packet that can be asked for together, in one comparison: see [`Packet::is_any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts(u16);

impl Facts {
    /// Nothing that could hold.
    pub const NONE: Facts = Facts(0);
    /// Its type is broadcast or multicast.
    pub const GROUP: Facts = Facts(u16::from_le_bytes([0, BROADCAST | MULTICAST]));
    /// It was sent to another host, and seen in promiscuous mode.
    pub const OTHER_HOST: Facts = Facts(u16::from_le_bytes([0, OTHER_HOST]));
    /// It shares its bytes with another packet, or did until a moment ago.
    pub const SHARED: Facts = Facts(u16::from_le_bytes([SHARED, 0]));

    /// These and the others.
    #[inline(always)]
    #[must_use]
    pub const fn and(self, others: Facts) -> Facts {
        Facts(self.0 | others.0)
    }

    /// Whether any of the others is among these.
    #[inline(always)]
    pub const fn has_any(self, others: Facts) -> bool {
        self.0 & others.0 != 0
    }
}

impl Packet {
    #[inline]
    fn warm(&mut self) -> &mut Rest {
        let m = self.meta_mut();
        if m.flags & COLD == 0 {
            m.flags |= COLD;
            m.anno[HOT_ANNO..].fill(0);
        }
        m
    }

    /// The `N` annotation bytes at `offset`.
    ///
    /// # Panics
    /// When they lie outside the 48-byte area.
    #[inline]
    pub fn anno<const N: usize>(&self, offset: usize) -> [u8; N] {
        let m = self.meta();
        assert!(offset + N <= ANNO_SIZE, "annotation outside the area");
        if offset + N > HOT_ANNO && m.flags & COLD == 0 {
            // The second line is unwritten; its bytes read as zero.
            return std::array::from_fn(|i| if offset + i < HOT_ANNO { m.anno[offset + i] } else { 0 });
        }
        *m.anno[offset..].first_chunk().expect("checked above")
    }

    /// Sets the `N` annotation bytes at `offset`.
    ///
    /// # Panics
    /// When they lie outside the 48-byte area.
    #[inline]
    pub fn set_anno<const N: usize>(&mut self, offset: usize, value: [u8; N]) {
        assert!(offset + N <= ANNO_SIZE, "annotation outside the area");
        let m = if offset + N > HOT_ANNO { self.warm() } else { self.meta_mut() };
        m.anno[offset..offset + N].copy_from_slice(&value);
    }

    /// A 32-bit annotation in host order.
    #[inline]
    pub fn anno_u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.anno(offset))
    }

    /// Sets a 32-bit annotation in host order.
    #[inline]
    pub fn set_anno_u32(&mut self, offset: usize, value: u32) {
        self.set_anno(offset, value.to_ne_bytes());
    }

    /// An 8-bit annotation.
    #[inline]
    pub fn anno_u8(&self, offset: usize) -> u8 {
        self.anno::<1>(offset)[0]
    }

    /// Sets an 8-bit annotation.
    #[inline]
    pub fn set_anno_u8(&mut self, offset: usize, value: u8) {
        self.set_anno(offset, [value]);
    }

    /// Whether any of these facts holds of the packet.
    #[inline(always)]
    pub fn is_any(&self, facts: Facts) -> bool {
        self.facts().has_any(facts)
    }

    /// All facts that hold of the packet.
    #[inline(always)]
    pub fn facts(&self) -> Facts {
        let m = self.meta();
        Facts(u16::from_le_bytes([m.flags, m.kind]))
    }

    /// The paint annotation.
    #[inline]
    pub fn paint(&self) -> u8 {
        self.anno_u8(anno::PAINT)
    }

    /// Sets the paint annotation.
    #[inline]
    pub fn set_paint(&mut self, paint: u8) {
        self.set_anno_u8(anno::PAINT, paint);
    }

    /// The IPv4 destination annotation; 0.0.0.0 means none.
    #[inline]
    pub fn dst_ip(&self) -> [u8; 4] {
        self.anno(anno::DST_IP)
    }

    /// Sets the IPv4 destination annotation.
    #[inline]
    pub fn set_dst_ip(&mut self, address: [u8; 4]) {
        self.set_anno(anno::DST_IP, address);
    }

    /// Nanoseconds since the epoch; 0 when unset.
    #[inline]
    pub fn timestamp_ns(&self) -> u64 {
        self.meta().timestamp_ns
    }

    /// Sets the timestamp, nanoseconds since the epoch.
    #[inline]
    pub fn set_timestamp_ns(&mut self, ns: u64) {
        self.meta_mut().timestamp_ns = ns;
    }

    /// Number of the device the packet came from, as its element numbers devices; 0 when unset.
    #[inline]
    pub fn device(&self) -> u16 {
        self.meta().device
    }

    /// Sets the device number.
    #[inline]
    pub fn set_device(&mut self, device: u16) {
        self.meta_mut().device = device;
    }

    /// How the packet came to us.
    #[inline]
    pub fn packet_type(&self) -> PacketType {
        match self.meta().kind {
            BROADCAST => PacketType::Broadcast,
            MULTICAST => PacketType::Multicast,
            OTHER_HOST => PacketType::OtherHost,
            OUTGOING => PacketType::Outgoing,
            LOOPBACK => PacketType::Loopback,
            _ => PacketType::Host,
        }
    }

    /// Sets how the packet came to us.
    #[inline]
    pub fn set_packet_type(&mut self, kind: PacketType) {
        // One bit each, so that several can be asked for at once; none for what is ordinary.
        self.meta_mut().kind = match kind {
            PacketType::Host => 0,
            PacketType::Broadcast => BROADCAST,
            PacketType::Multicast => MULTICAST,
            PacketType::OtherHost => OTHER_HOST,
            PacketType::Outgoing => OUTGOING,
            PacketType::Loopback => LOOPBACK,
        };
    }
}
