// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `esp_inbound` and its corpus' replay share. The first byte chooses algorithms, the second one mode, UDP and extended numbers. The
//! rest comes as a packet, and once more as what a peer encrypts who has the key and means ill.

use junctor_esp::algorithm::{Aead, Auth, Cipher};
use junctor_esp::header::Header;
use junctor_esp::inbound::{self, Dropped, Found};
use junctor_esp::sa::{Rules, UdpPorts};
use junctor_esp::{Config, HEADER_LEN, LENT, Mode, Part, Sa, Spec, open, seal};
use packet::Packet;
use wire::{Protocol, ipv4};

fn spec(kind: u8) -> Spec {
    let combined = |algorithm, len, icv_len| Spec::Combined { algorithm, key: vec![7; len], icv_len };
    let separate = |cipher, len| Spec::Separate {
        cipher,
        key: vec![1; len],
        auth: Auth::HmacSha256,
        auth_key: vec![2; 32],
        icv_len: 16,
    };
    match kind % 6 {
        0 => combined(Aead::AesGcm, 20, 16),
        1 => combined(Aead::AesGcm, 36, 8),
        2 => combined(Aead::AesGmac, 20, 16),
        3 => combined(Aead::ChaCha20Poly1305, 36, 16),
        4 => separate(Cipher::AesCbc, 16),
        _ => separate(Cipher::Null, 0),
    }
}

fn association(kind: u8, flags: u8) -> Sa {
    let tunnel = Mode::Tunnel { from: [192, 0, 2, 1].into(), to: [192, 0, 2, 2].into() };
    let config = Config {
        spi: 0x1000,
        mode: if flags & 1 == 0 { tunnel } else { Mode::Transport },
        udp: (flags & 2 != 0).then_some(UdpPorts { from: 4500, to: 4500 }),
        spec: spec(kind),
        is_extended: flags & 4 != 0,
        window: 64,
        rules: Rules::default(),
    };
    Sa::new(&config).expect("a good configuration")
}

/// Receives a packet. What passes begins with an IP header that fits.
fn receive(sa: &Sa, bytes: &[u8]) -> Result<(), Dropped> {
    let Some(mut packet) = Packet::copy_of(bytes) else { return Ok(()) };
    let Found::Esp(arrived) = inbound::find(packet.data())? else { return Ok(()) };
    let before = sa.window.top();
    let mut parts = [inbound::part(&mut packet, sa, &arrived)?];
    open(&mut parts);
    let [Part { is_genuine, number, .. }] = parts;
    if !is_genuine {
        assert_eq!(sa.window.top(), before);
        return Err(Dropped::Forged);
    }
    inbound::decapsulate(&mut packet, sa, &arrived, number)?;
    let header = Header::read_fixed(packet.data()).expect("an IP packet");
    assert_eq!(header.packet_len, packet.len());
    Ok(())
}

/// Receives it both ways; says what became of what the peer has encrypted.
pub fn check(data: &[u8]) -> Result<(), Dropped> {
    let [kind, flags, rest @ ..] = data else { return Ok(()) };
    let sa = association(*kind, *flags);
    let _ = receive(&sa, rest);
    if rest.len() < 2 || rest.len() > 4000 {
        return Ok(());
    }
    let udp_len = if sa.by_udp { 8 } else { 0 };
    let at = ipv4::HEADER_LEN + udp_len;
    let text = at + HEADER_LEN + sa.suite.iv_len();
    let padded = rest.len().next_multiple_of(sa.suite.align());
    let mut bytes = vec![0; text + padded - rest.len()];
    bytes.extend_from_slice(rest);
    bytes.extend(std::iter::repeat_n(0, sa.suite.icv_len()));
    let repr = ipv4::Repr {
        protocol: if sa.by_udp { Protocol::UDP } else { Protocol::ESP },
        payload_len: (bytes.len() - ipv4::HEADER_LEN) as u16,
        tos: *flags >> 4 & 3,
        ..Default::default()
    };
    repr.emit(&mut bytes).expect("it fits");
    if sa.by_udp {
        let len = (bytes.len() - ipv4::HEADER_LEN) as u16;
        bytes[ipv4::HEADER_LEN + 4..][..2].copy_from_slice(&len.to_be_bytes());
    }
    bytes[at..at + 4].copy_from_slice(&sa.spi.to_be_bytes());
    bytes[at + 4..at + 8].copy_from_slice(&1u32.to_be_bytes());
    let part = Part {
        suite: &sa.suite,
        number: 1,
        is_extended: sa.is_extended,
        bytes: &mut bytes[at - LENT..],
        is_genuine: false,
    };
    seal(&mut [part]);
    let outcome = receive(&sa, &bytes);
    assert_ne!(outcome, Err(Dropped::Forged), "it is genuine");
    assert_eq!(receive(&sa, &bytes), Err(Dropped::Replayed));
    outcome
}
