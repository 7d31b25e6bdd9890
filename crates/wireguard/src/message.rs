// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four messages of the protocol (white paper, 5.4). Numbers are little-endian.
//!
//! ```text
//!  initiation  | 1 0 0 0 | sender | ephemeral 32 | static 32+16 | timestamp 12+16 | mac1 16 | mac2 16 |   148 bytes
//!  response    | 2 0 0 0 | sender | receiver | ephemeral 32 | nothing 0+16 | mac1 16 | mac2 16 |           92
//!  cookie      | 3 0 0 0 | receiver | nonce 24 | cookie 16+16 |                                            64
//!  data        | 4 0 0 0 | receiver | counter 8 | packet n+16 |                                         32 + n
//! ```

/// Bytes of an initiation.
pub const INITIATION_LEN: usize = 148;
/// Bytes of a response.
pub const RESPONSE_LEN: usize = 92;
/// Bytes of a cookie reply.
pub const COOKIE_LEN: usize = 64;
/// Bytes in front of what a data message carries.
pub const DATA_HEADER_LEN: usize = 16;
/// Bytes of the check value behind it.
pub const TAG_LEN: usize = 16;
/// Bytes of a check value of a handshake message.
pub const MAC_LEN: usize = 16;
/// Bytes of Noise's first message.
pub const NOISE_FIRST_LEN: usize = 108;
/// Bytes of Noise's second message.
pub const NOISE_SECOND_LEN: usize = 48;

const INITIATION: [u8; 4] = [1, 0, 0, 0];
const RESPONSE: [u8; 4] = [2, 0, 0, 0];
const COOKIE: [u8; 4] = [3, 0, 0, 0];
const DATA: [u8; 4] = [4, 0, 0, 0];

/// A message as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A peer wants a session.
    Initiation(Initiation<'a>),
    /// A peer agrees to one.
    Response(Response<'a>),
    /// A peer is too busy and wants a proof of the address.
    Cookie(Cookie<'a>),
    /// A packet.
    Data(Data),
}

/// Fields of an initiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initiation<'a> {
    /// The sender's index.
    pub sender: u32,
    /// Noise's part.
    pub noise: &'a [u8; NOISE_FIRST_LEN],
    /// The whole message.
    pub whole: &'a [u8; INITIATION_LEN],
}

/// Fields of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The sender's index.
    pub sender: u32,
    /// The index that the initiation had.
    pub receiver: u32,
    /// Noise's part.
    pub noise: &'a [u8; NOISE_SECOND_LEN],
    /// The whole message.
    pub whole: &'a [u8; RESPONSE_LEN],
}

/// Fields of a cookie reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie<'a> {
    /// The index of the message that it answers.
    pub receiver: u32,
    /// The nonce.
    pub nonce: &'a [u8; 24],
    /// The encrypted cookie.
    pub sealed: &'a [u8; 32],
}

/// Fields of a data message, whose packet starts behind [`DATA_HEADER_LEN`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// The receiver's index.
    pub receiver: u32,
    /// The packet's number.
    pub counter: u64,
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn part<const LEN: usize>(bytes: &[u8], at: usize) -> Option<&[u8; LEN]> {
    bytes.get(at..)?.first_chunk()
}

impl<'a> Message<'a> {
    /// What a datagram is; `None` for anything else than the four messages in their lengths.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<Message<'a>> {
        match *bytes.first_chunk()? {
            DATA => Data::read(bytes).map(Message::Data),
            INITIATION => {
                let whole = bytes.try_into().ok()?;
                Some(Message::Initiation(Initiation {
                    sender: number(bytes, 4)?,
                    noise: part(bytes, 8)?,
                    whole,
                }))
            }
            RESPONSE => {
                let (whole, sender, receiver) =
                    (bytes.try_into().ok()?, number(bytes, 4)?, number(bytes, 8)?);
                Some(Message::Response(Response { sender, receiver, noise: part(bytes, 12)?, whole }))
            }
            COOKIE if bytes.len() == COOKIE_LEN => {
                let receiver = number(bytes, 4)?;
                Some(Message::Cookie(Cookie { receiver, nonce: part(bytes, 8)?, sealed: part(bytes, 32)? }))
            }
            _ => None,
        }
    }
}

impl Data {
    #[inline]
    fn read(bytes: &[u8]) -> Option<Data> {
        if bytes.len() < DATA_HEADER_LEN + TAG_LEN {
            return None;
        }
        Some(Data { receiver: number(bytes, 4)?, counter: u64::from_le_bytes(*part(bytes, 8)?) })
    }

    /// Writes it in front of a packet.
    #[inline]
    pub fn write(self, to: &mut [u8; DATA_HEADER_LEN]) {
        to[..4].copy_from_slice(&DATA);
        to[4..8].copy_from_slice(&self.receiver.to_le_bytes());
        to[8..].copy_from_slice(&self.counter.to_le_bytes());
    }
}

/// An initiation without its check values.
pub fn initiation(sender: u32, noise: &[u8; NOISE_FIRST_LEN]) -> [u8; INITIATION_LEN] {
    let mut bytes = [0; INITIATION_LEN];
    bytes[..4].copy_from_slice(&INITIATION);
    bytes[4..8].copy_from_slice(&sender.to_le_bytes());
    bytes[8..8 + NOISE_FIRST_LEN].copy_from_slice(noise);
    bytes
}

/// A response without its check values.
pub fn response(sender: u32, receiver: u32, noise: &[u8; NOISE_SECOND_LEN]) -> [u8; RESPONSE_LEN] {
    let mut bytes = [0; RESPONSE_LEN];
    bytes[..4].copy_from_slice(&RESPONSE);
    bytes[4..8].copy_from_slice(&sender.to_le_bytes());
    bytes[8..12].copy_from_slice(&receiver.to_le_bytes());
    bytes[12..12 + NOISE_SECOND_LEN].copy_from_slice(noise);
    bytes
}

/// A cookie reply.
pub fn cookie(receiver: u32, nonce: &[u8; 24], sealed: &[u8; 32]) -> [u8; COOKIE_LEN] {
    let mut bytes = [0; COOKIE_LEN];
    bytes[..4].copy_from_slice(&COOKIE);
    bytes[4..8].copy_from_slice(&receiver.to_le_bytes());
    bytes[8..32].copy_from_slice(nonce);
    bytes[32..].copy_from_slice(sealed);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let first = initiation(0x0102_0304, &[7; NOISE_FIRST_LEN]);
        assert_eq!(first[..8], [1, 0, 0, 0, 4, 3, 2, 1]);
        let Some(Message::Initiation(read)) = Message::read(&first) else { panic!() };
        assert_eq!((read.sender, read.noise), (0x0102_0304, &[7; NOISE_FIRST_LEN]));
        let second = response(1, 2, &[8; NOISE_SECOND_LEN]);
        let Some(Message::Response(read)) = Message::read(&second) else { panic!() };
        assert_eq!((read.sender, read.receiver, read.noise), (1, 2, &[8; NOISE_SECOND_LEN]));
        let reply = cookie(3, &[1; 24], &[2; 32]);
        let Some(Message::Cookie(read)) = Message::read(&reply) else { panic!() };
        assert_eq!((read.receiver, read.nonce, read.sealed), (3, &[1; 24], &[2; 32]));
        let mut data = [0; 32];
        Data { receiver: 9, counter: 1 << 40 }.write(data.first_chunk_mut().unwrap());
        assert_eq!(Message::read(&data), Some(Message::Data(Data { receiver: 9, counter: 1 << 40 })));
    }

    #[test]
    fn other_lengths_and_kinds_are_none() {
        for (kind, len) in [(1, INITIATION_LEN), (2, RESPONSE_LEN), (3, COOKIE_LEN), (4, 32)] {
            let mut bytes = vec![0; len + 1];
            bytes[0] = kind;
            assert!(Message::read(&bytes[..len]).is_some(), "{kind}");
            assert!(Message::read(&bytes[..len - 1]).is_none(), "{kind} short");
            assert_eq!(Message::read(&bytes).is_some(), kind == 4, "{kind} long");
            bytes[2] = 1;
            assert!(Message::read(&bytes[..len]).is_none(), "{kind} with reserved bytes set");
        }
        assert!(Message::read(&[0; 148]).is_none() && Message::read(&[]).is_none());
    }
}
