// SPDX-License-Identifier: MIT OR Apache-2.0
//! A look at packets that another thread has in its hands, for saying what it is stuck with.
//!
//! To read them as memory would be a data race: their owner may write to them, free them, or give them away at this moment. And
//! the owner cannot be asked, as it does not answer. So they are read as a debugger would: by the kernel, from `/proc/self/mem`.
//! That is no access by this program, reads only bytes, and where nothing is mapped it fails instead of faulting. What it shows
//! may be a mixture of before and after, or of a frame's next packet; everything is checked before it is followed.
//! A signal handler on the owner's thread would be no better: it interrupts the owner between any two writes, and must not do anything
//! but copy.

use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;

use super::{Meta, Packet, Rest};
use crate::batch::Batch;

/// Where a batch's packets are listed, in one word: the address of the list, and above it how many there are.
///
/// Of addresses 48 bits are kept: the kernel gives a process no higher ones unless it asks for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whereabouts(u64);

impl Whereabouts {
    const ADDRESS: u32 = 48;

    /// Of the packets of a batch as it is now.
    #[inline]
    pub fn of(batch: &Batch) -> Whereabouts {
        let at = batch.as_ptr() as usize as u64;
        Whereabouts((batch.len() as u64) << Self::ADDRESS | at & ((1 << Self::ADDRESS) - 1))
    }

    /// As the word that it is.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// From such a word.
    pub fn from_word(word: u64) -> Whereabouts {
        Whereabouts(word)
    }

    /// How many packets there are.
    pub fn packets(self) -> usize {
        (self.0 >> Self::ADDRESS) as usize
    }

    fn address(self) -> u64 {
        self.0 & ((1 << Self::ADDRESS) - 1)
    }
}

/// What was seen of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Its length.
    pub len: usize,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

/// The first `bytes` bytes of each of the first `most` packets there; fewer where what lies there is no packet any more.
///
/// # Errors
/// This process may not read its own memory by way of `/proc`.
pub fn glance(at: Whereabouts, most: usize, bytes: usize) -> io::Result<Vec<Glance>> {
    let memory = File::open("/proc/self/mem")?;
    let mut list = vec![0; at.packets().min(most) * size_of::<Packet>()];
    if memory.read_exact_at(&mut list, at.address()).is_err() {
        return Ok(Vec::new());
    }
    let handles = list.chunks_exact(size_of::<Packet>()).map(word);
    Ok(handles.map_while(|handle| one(&memory, handle, bytes)).collect())
}

/// A packet by the address of its descriptor.
fn one(memory: &File, handle: u64, most: usize) -> Option<Glance> {
    if handle == 0 || !handle.is_multiple_of(align_of::<Meta>() as u64) {
        return None;
    }
    let mut meta = [0; size_of::<Meta>()];
    memory.read_exact_at(&mut meta, handle).ok()?;
    let field = |offset: usize| &meta[offset_of!(Meta, rest) + offset..];
    let buf = word(&field(offset_of!(Rest, buf))[..8]);
    let short = |offset| u32::from_ne_bytes(field(offset)[..4].try_into().unwrap_or_default());
    let (off, len) = (short(offset_of!(Rest, off)), short(offset_of!(Rest, len)));
    let units = field(offset_of!(Rest, capacity_64));
    let capacity = 64 * u32::from(u16::from_ne_bytes([units[0], units[1]]));
    if u64::from(off) + u64::from(len) > u64::from(capacity) {
        return None;
    }
    let mut bytes = vec![0; most.min(len as usize)];
    memory.read_exact_at(&mut bytes, buf + u64::from(off)).ok()?;
    Some(Glance { len: len as usize, bytes })
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_seen_where_they_are_listed() {
        if cfg!(miri) {
            return;
        }
        crate::alone(|| {
            let mut batch: Batch = (0..5u8).filter_map(|i| Packet::copy_of(&[i; 100])).collect();
            batch.extend(Packet::copy_of(&[9; 5000]));
            batch.extend(Packet::copy_of(&[7, 8]));
            let at = Whereabouts::of(&batch);
            assert_eq!((at.packets(), Whereabouts::from_word(at.word())), (7, at));
            let seen = glance(at, 99, 64).unwrap();
            let want = (0..5u8).map(|i| Glance { len: 100, bytes: vec![i; 64] });
            let want =
                want.chain([(5000, vec![9; 64]), (2, vec![7, 8])].map(|(len, bytes)| Glance { len, bytes }));
            assert_eq!(seen, want.collect::<Vec<_>>());
            assert_eq!(glance(at, 2, 1).unwrap().len(), 2);
            assert_eq!(glance(Whereabouts::of(&Batch::new()), 9, 9).unwrap(), []);
        });
    }

    #[test]
    fn what_is_no_packet_is_not_followed() {
        if cfg!(miri) {
            return;
        }
        // A list that is no list, one of addresses that are none, one of descriptors that are none.
        assert_eq!(glance(Whereabouts::from_word(3 << 48), 9, 64).unwrap(), []);
        let none = [8u64, 64, 1 << 50, u64::MAX];
        let at = |list: &[u64]| Whereabouts::from_word((list.len() as u64) << 48 | list.as_ptr() as u64);
        (0..none.len()).for_each(|i| assert_eq!(glance(at(&none[i..]), 9, 64).unwrap(), []));
        #[repr(align(128))]
        struct NoMeta([u64; 16]);
        let wrong = NoMeta([u64::MAX; 16]);
        assert_eq!(glance(at(&[wrong.0.as_ptr() as u64]), 9, 64).unwrap(), []);
    }
}
