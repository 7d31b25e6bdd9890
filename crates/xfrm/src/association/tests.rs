// SPDX-License-Identifier: MIT OR Apache-2.0
//! Associations come back as they went out, and what is not supported is refused.

use super::*;
use crate::netlink::{HEADER_LEN, Messages};
use ipsec::text::parse_association;

const GCM: &str = "src 192.0.2.1 dst 198.51.100.1 proto esp spi 0x100 reqid 7 mode tunnel replay-window 1024 \
                   aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128";

fn bytes_of(config: &AssociationConfig) -> crate::netlink::Bytes {
    let mut message = Builder::new(layout::message::NEWSA, 0, 0, 0);
    put_association(&mut message, &Found { what: config.clone(), carried: Carried::default() });
    message.finish()
}

fn read(bytes: &[u8]) -> Result<AssociationConfig, Refusal> {
    let body = Messages(bytes).next().expect("a message").body;
    config_of(&Sa::parse(body).expect("whole"), Attributes(Sa::rest(body)))
}

#[test]
fn associations_come_back() {
    for more in [
        "",
        "replay-window 32",
        "replay-window 0",
        "flag esn noecn decap-dscp",
        "flag nopmtudisc tfcpad 1400",
        "encap espinudp 4500 61001 0.0.0.0",
        "sel src 10.0.0.0/8 dst 10.2.0.0/16 proto udp dport 53",
        "limit byte-soft 1000 limit byte-hard 2000 limit time-hard 3600 limit time-use-soft 5 limit packet-hard 9",
        "extra-flag dont-encap-dscp",
        "replay-window 64 progress 17 12 0x0000000700000001",
        "replay-window 32 progress 4294967295 40 0xdeadbeef",
        "replay-window 7 progress 9 40 0x00000055",
        "flag esn replay-window 64 progress 4294967299 8589934599 0x0000000700000001",
    ] {
        let config = parse_association(&format!("{GCM} {more}")).unwrap();
        assert_eq!(read(&bytes_of(&config)).unwrap(), config, "{more}");
    }
    let key = format!("0x{}", "ab".repeat(32));
    let text = format!(
        "src ::1 dst ::2 spi 256 mode transport enc cbc(aes) {key} auth-trunc hmac(sha256) {key} 128"
    );
    let config = parse_association(&text).unwrap();
    assert_eq!(read(&bytes_of(&config)).unwrap(), config);
}

/// strongSwan's `tfc_padding = mtu` arrives as the highest number: as much as the path takes.
#[test]
fn padding_may_be_as_long_as_the_path_takes() {
    let config = parse_association(&format!("{GCM} tfcpad 65535")).unwrap();
    let mut message = Builder::new(layout::message::NEWSA, 0, 0, 0);
    put_association(&mut message, &Found { what: config.clone(), carried: Carried::default() });
    let mut bytes = message.finish().to_vec();
    let at = bytes.windows(4).rposition(|word| word == 65535u32.to_ne_bytes()).unwrap();
    bytes[at..at + 4].fill(0xff);
    assert_eq!(read(&bytes).unwrap(), config);
}

/// The bit of the old form for a number is its distance from the top.
#[test]
fn the_old_form_of_a_window_is_linux() {
    let config = parse_association(&format!("{GCM} replay-window 32")).unwrap();
    let window = replay::Window::new(32, false);
    for number in [1, 2, 5, 37, 40] {
        window.accept(number).unwrap();
    }
    let progress = Progress { sent: 3, top: window.top(), bitmap: window.bitmap(), ..Progress::default() };
    let bytes = bytes_of(&AssociationConfig { progress, ..config });
    let old = Attributes(&bytes[HEADER_LEN + 224..]).find(a::REPLAY_VAL).unwrap();
    let old = layout::Replay::parse(old).unwrap();
    // 40 and 37; what is below 9 is outside.
    assert_eq!((old.oseq, old.seq, old.bitmap), (3, 40, 0b1001));
}

#[test]
fn what_is_not_supported_is_refused() {
    let config = parse_association(GCM).unwrap();
    let sa = put_sa(&Found { what: config.clone(), carried: Carried::default() });
    let whole = bytes_of(&config);
    let attributes = Attributes(&whole[HEADER_LEN + 224..]);
    let errno = |sa: &Sa| config_of(sa, attributes).unwrap_err().errno;
    let with_protocol = |proto: u8| Sa { id: layout::Id { proto, ..sa.id }, ..sa };
    assert_eq!(errno(&with_protocol(layout::AH)), libc::EPROTONOSUPPORT);
    assert_eq!(errno(&with_protocol(layout::IPCOMP)), libc::EPROTONOSUPPORT);
    assert_eq!(errno(&with_protocol(17)), libc::EINVAL);
    assert_eq!(errno(&Sa { mode: 4, ..sa }), libc::EPROTONOSUPPORT, "BEET");
    assert_eq!(errno(&Sa { family: 0, ..sa }), libc::EINVAL);
    assert_eq!(errno(&Sa { replay_window: 32, ..sa }), libc::EINVAL, "both forms");
    let with = |kind: u16, value: &[u8]| {
        let mut message = Builder::new(0, 0, 0, 0);
        message.put(&whole[HEADER_LEN + 224..]).attribute(kind, value);
        let bytes = message.finish();
        config_of(&sa, Attributes(&bytes[HEADER_LEN..])).map(drop).map_err(|refusal| refusal.errno)
    };
    assert_eq!(with(a::MARK, &[0; 8]), Ok(()), "no mark at all");
    assert_eq!(with(a::MARK, &[1; 8]), Err(libc::EOPNOTSUPP));
    assert_eq!(with(a::SET_MARK, &[1; 4]), Err(libc::EOPNOTSUPP));
    assert_eq!((with(a::IF_ID, &[0; 4]), with(a::IF_ID, &[1; 4])), (Ok(()), Err(libc::EOPNOTSUPP)));
    assert_eq!(with(a::OFFLOAD_DEV, &[0; 8]), Err(libc::EOPNOTSUPP));
    assert_eq!((with(a::SA_PCPU, &[0xff; 4]), with(a::SA_PCPU, &[0; 4])), (Ok(()), Err(libc::EOPNOTSUPP)));
    assert_eq!(with(a::SA_EXTRA_FLAGS, &[2, 0, 0, 0]), Err(libc::EOPNOTSUPP));
    assert_eq!(with(a::COADDR, &[0; 16]), Err(libc::EPROTONOSUPPORT));
    assert_eq!(with(a::ENCAP, &[0; 24]), Err(libc::ENOPROTOOPT));
    assert_eq!(with(a::ENCAP, &[0; 23]), Err(libc::EINVAL));
    assert_eq!(with(a::ALG_COMP, &[0; 68]), Ok(()), "of no interest");
    let huge = layout::ReplayEsn { bmp_len: u32::MAX, replay_window: u32::MAX, ..Default::default() };
    assert_eq!(with(a::REPLAY_ESN_VAL, &huge.bytes()), Err(libc::EINVAL));
}

/// A selector of all packets, as charon(8) sends in transport mode without traffic selectors, is none.
#[test]
fn a_selector_of_everything_is_none() {
    let config = parse_association(&GCM.replace("tunnel", "transport")).unwrap();
    let sa = put_sa(&Found { what: config.clone(), carried: Carried::default() });
    assert_eq!(sa.sel.family, family::FOUR, "as the kernel makes it");
    assert_eq!(read(&bytes_of(&config)).unwrap().selector, None);
}
