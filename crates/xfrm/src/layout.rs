// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structures of `linux/xfrm.h`, with its names, as 64-bit Linux lays them out. A test compares each offset with the C header's.

use std::net::IpAddr;

/// What stands at a place in a structure.
pub trait Field: Sized {
    /// Its bytes.
    const LEN: usize;
    /// Reads it from [`Self::LEN`] bytes or more.
    fn read(bytes: &[u8]) -> Self;
    /// Writes it there.
    fn write(&self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl Field for $ty {
            const LEN: usize = size_of::<$ty>();

            fn read(bytes: &[u8]) -> $ty {
                bytes.first_chunk().map_or(0, |bytes| <$ty>::from_ne_bytes(*bytes))
            }

            fn write(&self, bytes: &mut [u8]) {
                bytes[..Self::LEN].copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32);

/// A port, in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port(pub u16);

/// An SPI, in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spi(pub u32);

impl Field for Port {
    const LEN: usize = 2;

    fn read(bytes: &[u8]) -> Port {
        Port(u16::from_be(u16::read(bytes)))
    }

    fn write(&self, bytes: &mut [u8]) {
        self.0.to_be().write(bytes);
    }
}

impl Field for Spi {
    const LEN: usize = 4;

    fn read(bytes: &[u8]) -> Spi {
        Spi(u32::from_be(u32::read(bytes)))
    }

    fn write(&self, bytes: &mut [u8]) {
        self.0.to_be().write(bytes);
    }
}

/// The numbers of address families.
pub mod family {
    /// None said.
    pub const UNSPECIFIED: u16 = 0;
    /// IPv4.
    pub const FOUR: u16 = 2;
    /// IPv6.
    pub const SIX: u16 = 10;
}

/// The family of an address.
pub fn family_of(addr: IpAddr) -> u16 {
    if addr.is_ipv4() { family::FOUR } else { family::SIX }
}

/// An address, whose family stands elsewhere (`xfrm_address_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address(pub [u8; 16]);

impl Address {
    /// The address, if there is such a family.
    pub fn of_family(self, family: u16) -> Option<IpAddr> {
        let [a, b, c, d, ..] = self.0;
        match family {
            family::FOUR => Some([a, b, c, d].into()),
            family::SIX => Some(self.0.into()),
            _ => None,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(addr: IpAddr) -> Address {
        let mut bytes = [0; 16];
        match addr {
            IpAddr::V4(four) => bytes[..4].copy_from_slice(&four.octets()),
            IpAddr::V6(six) => bytes = six.octets(),
        }
        Address(bytes)
    }
}

impl Field for Address {
    const LEN: usize = 16;

    fn read(bytes: &[u8]) -> Address {
        Address(bytes.first_chunk().copied().unwrap_or_default())
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes[..16].copy_from_slice(&self.0);
    }
}

/// A structure of the C header, for tests against it: name, length, and each field's name, offset and length.
pub type Shape = (&'static str, usize, &'static [(&'static str, usize, usize)]);

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident = $c:ident [$len:literal] { $($field:ident: $ty:ty = $at:literal),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name {
                $(#[doc = concat!("`", stringify!($field), "`.")] pub $field: $ty),*
            }

            impl $name {
                /// Reads it from the front of `bytes`; `None` if they are too few.
                pub fn parse(bytes: &[u8]) -> Option<$name> {
                    (bytes.len() >= $len).then(|| <$name as Field>::read(bytes))
                }

                /// What stands behind it.
                pub fn rest(bytes: &[u8]) -> &[u8] {
                    bytes.get($len..).unwrap_or_default()
                }

                /// Its bytes.
                pub fn bytes(&self) -> [u8; $len] {
                    let mut bytes = [0; $len];
                    self.write(&mut bytes);
                    bytes
                }
            }

            impl Field for $name {
                const LEN: usize = $len;

                fn read(bytes: &[u8]) -> $name {
                    $name { $($field: <$ty>::read(&bytes[$at..])),* }
                }

                fn write(&self, bytes: &mut [u8]) {
                    $(self.$field.write(&mut bytes[$at..]);)*
                }
            }
        )*

        /// All structures.
        pub const SHAPES: &[Shape] = &[
            $((stringify!($c), $len, &[$((stringify!($field), $at, <$ty as Field>::LEN)),*])),*
        ];
    };
}

layouts! {
    /// Which packets are meant.
    Selector = xfrm_selector[56] {
        daddr: Address = 0, saddr: Address = 16, dport: Port = 32, dport_mask: Port = 34, sport: Port = 36,
        sport_mask: Port = 38, family: u16 = 40, prefixlen_d: u8 = 42, prefixlen_s: u8 = 43, proto: u8 = 44,
        ifindex: i32 = 48, user: u32 = 52,
    }
    /// The identity of an association.
    Id = xfrm_id[24] { daddr: Address = 0, spi: Spi = 16, proto: u8 = 20 }
    /// Limits.
    LifetimeConfig = xfrm_lifetime_cfg[64] {
        soft_byte_limit: u64 = 0, hard_byte_limit: u64 = 8, soft_packet_limit: u64 = 16,
        hard_packet_limit: u64 = 24, soft_add_expires_seconds: u64 = 32, hard_add_expires_seconds: u64 = 40,
        soft_use_expires_seconds: u64 = 48, hard_use_expires_seconds: u64 = 56,
    }
    /// What has passed.
    LifetimeCurrent = xfrm_lifetime_cur[32] { bytes: u64 = 0, packets: u64 = 8, add_time: u64 = 16, use_time: u64 = 24 }
    /// Packets that were refused.
    Stats = xfrm_stats[12] { replay_window: u32 = 0, replay: u32 = 4, integrity_failed: u32 = 8 }
    /// An association.
    Sa = xfrm_usersa_info[224] {
        sel: Selector = 0, id: Id = 56, saddr: Address = 80, lft: LifetimeConfig = 96,
        curlft: LifetimeCurrent = 160, stats: Stats = 192, seq: u32 = 204, reqid: u32 = 208, family: u16 = 212,
        mode: u8 = 214, replay_window: u8 = 215, flags: u8 = 216,
    }
    /// Which association is meant.
    SaId = xfrm_usersa_id[24] { daddr: Address = 0, spi: Spi = 16, family: u16 = 20, proto: u8 = 22 }
    /// A request for a number.
    SpiInfo = xfrm_userspi_info[232] { info: Sa = 0, min: u32 = 224, max: u32 = 228 }
    /// Which protocol's associations are to go.
    SaFlush = xfrm_usersa_flush[1] { proto: u8 = 0 }
    /// A policy.
    PolicyInfo = xfrm_userpolicy_info[168] {
        sel: Selector = 0, lft: LifetimeConfig = 56, curlft: LifetimeCurrent = 120, priority: u32 = 152,
        index: u32 = 156, dir: u8 = 160, action: u8 = 161, flags: u8 = 162, share: u8 = 163,
    }
    /// Which policy is meant.
    PolicyId = xfrm_userpolicy_id[64] { sel: Selector = 0, index: u32 = 56, dir: u8 = 60 }
    /// What becomes of packets that meet no policy.
    PolicyDefault = xfrm_userpolicy_default[3] { r#in: u8 = 0, fwd: u8 = 1, out: u8 = 2 }
    /// Which associations protect a policy's packets.
    Template = xfrm_user_tmpl[64] {
        id: Id = 0, family: u16 = 24, saddr: Address = 28, reqid: u32 = 44, mode: u8 = 48, share: u8 = 49,
        optional: u8 = 50, aalgos: u32 = 52, ealgos: u32 = 56, calgos: u32 = 60,
    }
    /// UDP around ESP.
    Encap = xfrm_encap_tmpl[24] { encap_type: u16 = 0, encap_sport: Port = 2, encap_dport: Port = 4, encap_oa: Address = 8 }
    /// A window of 32 packets.
    Replay = xfrm_replay_state[12] { oseq: u32 = 0, seq: u32 = 4, bitmap: u32 = 8 }
    /// A larger window, whose bits follow.
    ReplayEsn = xfrm_replay_state_esn[24] {
        bmp_len: u32 = 0, oseq: u32 = 4, seq: u32 = 8, oseq_hi: u32 = 12, seq_hi: u32 = 16, replay_window: u32 = 20,
    }
    /// A mark and its mask.
    Mark = xfrm_mark[8] { v: u32 = 0, m: u32 = 4 }
    /// How far an association is.
    AeventId = xfrm_aevent_id[48] { sa_id: SaId = 0, saddr: Address = 24, flags: u32 = 40, reqid: u32 = 44 }
    /// An association is wanted.
    Acquire = xfrm_user_acquire[280] {
        id: Id = 0, saddr: Address = 24, sel: Selector = 40, policy: PolicyInfo = 96, aalgos: u32 = 264,
        ealgos: u32 = 268, calgos: u32 = 272, seq: u32 = 276,
    }
    /// An association has reached a limit.
    Expire = xfrm_user_expire[232] { state: Sa = 0, hard: u8 = 224 }
    /// A peer sends from elsewhere.
    Mapping = xfrm_user_mapping[64] {
        id: SaId = 0, reqid: u32 = 24, old_saddr: Address = 28, new_saddr: Address = 44, old_sport: Port = 60,
        new_sport: Port = 62,
    }
    /// Counts of policies.
    SpdInfo = xfrmu_spdinfo[24] { incnt: u32 = 0, outcnt: u32 = 4, fwdcnt: u32 = 8, inscnt: u32 = 12, outscnt: u32 = 16, fwdscnt: u32 = 20 }
    /// Sizes of the table of policies.
    SpdHashInfo = xfrmu_spdhinfo[8] { spdhcnt: u32 = 0, spdhmcnt: u32 = 4 }
    /// Prefix lengths from which policies are in that table.
    SpdThreshold = xfrmu_spdhthresh[2] { lbits: u8 = 0, rbits: u8 = 1 }
    /// Sizes of the table of associations.
    SadHashInfo = xfrmu_sadhinfo[8] { sadhcnt: u32 = 0, sadhmcnt: u32 = 4 }
}

/// Kinds of messages (`XFRM_MSG_...`).
#[allow(missing_docs, reason = "linux/xfrm.h has them")]
pub mod message {
    pub const NEWSA: u16 = 0x10;
    pub const DELSA: u16 = 0x11;
    pub const GETSA: u16 = 0x12;
    pub const NEWPOLICY: u16 = 0x13;
    pub const DELPOLICY: u16 = 0x14;
    pub const GETPOLICY: u16 = 0x15;
    pub const ALLOCSPI: u16 = 0x16;
    pub const ACQUIRE: u16 = 0x17;
    pub const EXPIRE: u16 = 0x18;
    pub const UPDPOLICY: u16 = 0x19;
    pub const UPDSA: u16 = 0x1a;
    pub const POLEXPIRE: u16 = 0x1b;
    pub const FLUSHSA: u16 = 0x1c;
    pub const FLUSHPOLICY: u16 = 0x1d;
    pub const NEWAE: u16 = 0x1e;
    pub const GETAE: u16 = 0x1f;
    pub const REPORT: u16 = 0x20;
    pub const MIGRATE: u16 = 0x21;
    pub const NEWSADINFO: u16 = 0x22;
    pub const GETSADINFO: u16 = 0x23;
    pub const NEWSPDINFO: u16 = 0x24;
    pub const GETSPDINFO: u16 = 0x25;
    pub const MAPPING: u16 = 0x26;
    pub const SETDEFAULT: u16 = 0x27;
    pub const GETDEFAULT: u16 = 0x28;
}

/// Kinds of attributes (`XFRMA_...`).
#[allow(missing_docs, reason = "linux/xfrm.h has them")]
pub mod attribute {
    pub const ALG_AUTH: u16 = 1;
    pub const ALG_CRYPT: u16 = 2;
    pub const ALG_COMP: u16 = 3;
    pub const ENCAP: u16 = 4;
    pub const TMPL: u16 = 5;
    pub const SEC_CTX: u16 = 8;
    pub const LTIME_VAL: u16 = 9;
    pub const REPLAY_VAL: u16 = 10;
    pub const COADDR: u16 = 14;
    pub const POLICY_TYPE: u16 = 16;
    pub const ALG_AEAD: u16 = 18;
    pub const ALG_AUTH_TRUNC: u16 = 20;
    pub const MARK: u16 = 21;
    pub const TFCPAD: u16 = 22;
    pub const REPLAY_ESN_VAL: u16 = 23;
    pub const SA_EXTRA_FLAGS: u16 = 24;
    pub const PROTO: u16 = 25;
    pub const OFFLOAD_DEV: u16 = 28;
    pub const SET_MARK: u16 = 29;
    pub const IF_ID: u16 = 31;
    pub const NAT_KEEPALIVE_INTERVAL: u16 = 34;
    pub const SA_PCPU: u16 = 35;
    pub const SAD_CNT: u16 = 1;
    pub const SAD_HINFO: u16 = 2;
    pub const SPD_INFO: u16 = 1;
    pub const SPD_HINFO: u16 = 2;
    pub const SPD_IPV4_HTHRESH: u16 = 3;
    pub const SPD_IPV6_HTHRESH: u16 = 4;
}

/// Multicast groups (`XFRMNLGRP_...`).
#[allow(missing_docs, reason = "linux/xfrm.h has them")]
pub mod group {
    pub const ACQUIRE: u32 = 1;
    pub const EXPIRE: u32 = 2;
    pub const MAPPING: u32 = 8;
    /// The highest that there is.
    pub const LAST: u32 = 8;
}

/// The protocol ESP.
pub const ESP: u8 = 50;
/// The protocol AH.
pub const AH: u8 = 51;
/// The protocol IPComp.
pub const IPCOMP: u8 = 108;
/// All protocols of IPsec.
pub const ANY_PROTOCOL: u8 = 255;
/// No limit (`XFRM_INF`).
pub const NO_LIMIT: u64 = u64::MAX;
