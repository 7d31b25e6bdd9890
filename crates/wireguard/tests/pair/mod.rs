// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two devices that know each other, and what they say.

// Each test uses a part of it.
#![allow(dead_code)]

use std::net::IpAddr;

use junctor_wireguard::endpoint::{Local, Outer};
use junctor_wireguard::message::Message;
use junctor_wireguard::open::{Datagram, Dropped};
use junctor_wireguard::seal::Unsealed;
use junctor_wireguard::shake::{Here, Refusal};
use junctor_wireguard::{Config, Device, PeerConfig, Secret};
use packet::Packet;
use sync::rcu::{Domain, Reader};

/// A moment in 2023, in nanoseconds.
const WALL: u64 = 1_700_000_000_000_000_000;

/// The packet in a datagram, `None` for one without; or why it is dropped; or what came of a handshake message.
pub type Received = Result<Option<Vec<u8>>, Result<Dropped, Result<(), Refusal>>>;

/// One of them.
pub struct Side {
    pub device: Device,
    pub reader: Reader,
    pub now_ns: u64,
    /// Which of its two workers works.
    pub worker: usize,
    /// Datagrams that it has sent by itself.
    pub said: Vec<Vec<u8>>,
}

pub fn secret(of: u8) -> Secret {
    Secret::new([of << 3; 32])
}

impl Side {
    /// The side at `192.0.2.NUMBER` and `2001:db8::NUMBER`, whose networks are `10.NUMBER.0.0/16`, with the other one as its peer.
    pub fn new(number: u8, peer: u8, endpoint: Option<&str>) -> Side {
        let domain = Domain::default();
        let device = Device::new(secret(number), &domain, 2).unwrap();
        let six = [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number)];
        let local = Local { port: 51820, four: Some([192, 0, 2, number].into()), six: Some(six.into()) };
        device.set_local(local).unwrap();
        let peer = PeerConfig {
            endpoint: endpoint.map(|text| text.parse().unwrap()),
            allowed: vec![format!("10.{peer}.0.0/16").parse().unwrap()],
            ..PeerConfig::new(secret(peer).public())
        };
        device.follow(&Config { peers: vec![peer], ..Config::default() }).unwrap();
        Side { reader: domain.register("side"), device, now_ns: 1_000_000_000, worker: 0, said: Vec::new() }
    }

    /// Both, of which the first one knows where the second one is, after a handshake.
    pub fn pair() -> (Side, Side) {
        let (mut a, mut b) = (Side::new(1, 2, Some("192.0.2.2:51820")), Side::new(2, 1, None));
        assert_eq!(a.send(&inner(1, 2, 60)), Err(Unsealed::NoSession(0)));
        for bytes in a.hurry() {
            b.receive(&bytes).unwrap_err().unwrap_err().unwrap();
        }
        for bytes in std::mem::take(&mut b.said) {
            a.receive(&bytes).unwrap_err().unwrap_err().unwrap();
        }
        for bytes in std::mem::take(&mut a.said) {
            assert_eq!(b.receive(&bytes), Ok(None));
        }
        (a, b)
    }

    fn speak<R>(&mut self, act: impl FnOnce(&Device, &Here<'_>, &mut dyn FnMut(Outer, &[u8])) -> R) -> R {
        let here = Here {
            reader: &self.reader,
            worker: self.worker,
            now_ns: self.now_ns,
            wall_ns: WALL + self.now_ns,
        };
        let said = &mut self.said;
        act(&self.device, &here, &mut |outer: Outer, message: &[u8]| {
            let mut bytes = vec![0; outer.size()];
            bytes.extend(message);
            outer.write(&mut bytes);
            said.push(bytes);
        })
    }

    /// Begins a handshake with its only peer. Returns what it says.
    pub fn hurry(&mut self) -> Vec<Vec<u8>> {
        self.speak(|device, here, send| device.hurry(0, here, send));
        std::mem::take(&mut self.said)
    }

    /// Lets time pass. Returns what it says.
    pub fn pass(&mut self, ns: u64) -> Vec<Vec<u8>> {
        self.now_ns += ns;
        self.speak(|device, here, send| device.tick(here, send));
        self.reader.quiescent();
        std::mem::take(&mut self.said)
    }

    /// Seals a packet.
    pub fn send(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Unsealed> {
        let mut packet = Packet::copy_of(bytes).unwrap();
        let chosen = self.device.choose(&self.reader, packet.data(), 1500, self.now_ns)?;
        let counter = chosen.session.take_counters(1).ok_or(Unsealed::Exhausted)?;
        let to = self.device.seal(&self.reader, &mut packet, &chosen, counter, (self.worker, self.now_ns))?;
        assert_eq!(matches!(to, IpAddr::V4(_)), packet.data()[0] >> 4 == 4);
        Ok(packet.data().to_vec())
    }

    /// Takes a datagram.
    pub fn receive(&mut self, bytes: &[u8]) -> Received {
        let datagram = Datagram::read(bytes).map_err(Ok)?;
        match datagram.message(bytes) {
            Some(Message::Data(data)) => {
                self.open(bytes, datagram, (data.receiver, data.counter)).map_err(Ok)
            }
            Some(message) => {
                let result = self
                    .speak(|device, here, send| device.shake(&message, datagram.path, here, send).map(drop));
                self.reader.quiescent();
                Err(Err(result))
            }
            None => Err(Ok(Dropped::Malformed)),
        }
    }

    fn open(
        &mut self,
        bytes: &[u8],
        datagram: Datagram,
        data: (u32, u64),
    ) -> Result<Option<Vec<u8>>, Dropped> {
        let mut packet = Packet::copy_of(bytes).ok_or(Dropped::Malformed)?;
        let here = Here {
            reader: &self.reader,
            worker: self.worker,
            now_ns: self.now_ns,
            wall_ns: WALL + self.now_ns,
        };
        let known = self.device.recognise(&here, datagram, data)?;
        self.device.decrypt(&mut packet, &known)?;
        known.session.window().accept_first(&[known.counter + 1])?;
        let carries = self.device.unpack(&mut packet, &known, &here)?;
        Ok(carries.then(|| packet.data().to_vec()))
    }
}

/// A packet of `len` bytes from one side's network to the other's.
pub fn inner(from: u8, to: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; len];
    let repr = wire::ipv4::Repr {
        src: [10, from, 0, 1].into(),
        dst: [10, to, 0, 1].into(),
        protocol: wire::Protocol(253),
        payload_len: (len - 20) as u16,
        ttl: 64,
        tos: 0,
        id: 7,
        fragment: 0,
    };
    repr.emit(&mut bytes).unwrap();
    bytes
}

/// A message with headers in front.
pub fn datagram(message: &[u8]) -> Vec<u8> {
    let message = &message[..message.len().min(2000)];
    let mut bytes = inner(1, 2, 28 + message.len());
    bytes[9] = 17;
    bytes[20..22].copy_from_slice(&7u16.to_be_bytes());
    bytes[22..24].copy_from_slice(&51820u16.to_be_bytes());
    bytes[24..26].copy_from_slice(&(8 + message.len() as u16).to_be_bytes());
    bytes[28..].copy_from_slice(message);
    bytes
}
