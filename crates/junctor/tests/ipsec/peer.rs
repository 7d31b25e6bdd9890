// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer on the wire, which seals its packets itself: with any sequence number, from any address.

use std::time::Duration;

use esp::{Sa, outbound, seal};
use packet::Packet;
use testbed::account::Accounted;

/// The peer's association, but for further words.
pub const SA: &str = "src 192.0.2.2 dst 192.0.2.1 spi 0x200 reqid 1 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128";
/// Where ESP begins in a frame of the peer's.
pub const ESP: usize = 34;

/// Who seals.
pub struct Peer(Sa);

impl Peer {
    pub fn new(words: &str) -> Peer {
        let config = ipsec::text::parse_association(&format!("{SA} {words}")).unwrap();
        Peer(Sa::new(&config.esp).unwrap())
    }

    /// A frame of this sequence number, which is in what it carries, too.
    pub fn frame(&self, number: u64) -> Vec<u8> {
        let mut packet = Packet::copy_of(&clear(number)[14..]).unwrap();
        let at = outbound::encapsulate(&mut packet, &self.0, number, 1500).unwrap();
        seal(&mut [outbound::part(&mut packet, &self.0, at, number)]);
        outbound::finish(&mut packet, &self.0, at);
        let mut frame = clear(number)[..14].to_vec();
        frame.extend_from_slice(packet.data());
        frame
    }
}

/// What the packet of a number carries, as a frame.
pub fn clear(number: u64) -> Vec<u8> {
    let len = 20 + 8 + 8 + (number % 61) as usize;
    let mut frame = vec![0x5a; 14 + len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, len as u8, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 2, 0, 1, 10, 1, 0, 1]);
    frame[34..42].copy_from_slice(&[0, 9, 0, 9, 0, len as u8 - 20, 0, 0]);
    frame[42..50].copy_from_slice(&number.to_be_bytes());
    testbed::hostile::seal(&mut frame);
    frame
}

/// A router that opens what the peer sends.
pub fn receiver(words: &str, burst: usize) -> Accounted {
    let text = format!(
        "db :: IPsecDatabase(SA {SA} {words},
            POLICY dir fwd src 10.2.0.0/16 dst 10.1.0.0/16 tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel);
        FromDevice(m0) -> Strip(14) -> CheckIPHeader -> dec :: IPsecDecrypt(db) -> CheckIPHeader
            -> EtherEncap(0x0800, 02:00:00:00:00:09, 02:00:00:00:00:01) -> Queue(10000) -> ToDevice(m0);"
    );
    Accounted::new(&text, burst).unwrap()
}

/// The numbers of the packets that came through since the last call, each of which is what the peer has sealed.
pub fn came(router: &mut Accounted) -> Vec<u64> {
    router.run(Duration::from_millis(1));
    let frames = router.collect();
    let number = |frame: &[u8]| u64::from_be_bytes(frame[42..50].try_into().unwrap());
    for (_, frame) in &frames {
        assert_eq!(frame[14..], clear(number(frame))[14..]);
    }
    frames.iter().map(|(_, frame)| number(frame)).collect()
}
