// SPDX-License-Identifier: MIT OR Apache-2.0
//! One packet: bytes in a frame, with headroom, header positions and annotations.
//!
//! The descriptor's first line holds all that forwarding touches: the place of the bytes, when they came, the header positions
//! and the first half of the annotations (destination address, paint). The second line holds the rest, which is cleared
//! only when somebody writes to it, and whose the bytes are if not the packet's own: an ordinary packet costs one line.
//!
//! # Sharing
//! [`Packet::share`] makes a second packet over the same bytes (Click's `Tee`). Reading stays free; the first write
//! by [`Packet::data_mut`] copies. A clone copies into its own frame, which waited empty, so it cannot fail; should
//! the *original* write while clones live it takes a new frame, and memory from the heap if there is none.
//! A lone packet pays one test of a byte that is in the cache already.

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::{JUMBO_SIZE, memory};
use crate::pool;

mod annotations;
pub mod followed;
pub mod glance;
mod headers;

pub use annotations::{Facts, anno};

/// Headroom of a new packet in bytes, unless asked otherwise: room for tunnel headers.
pub const HEADROOM: usize = 128;
/// Bytes of annotations that elements may address by offset, as in Click.
pub const ANNO_SIZE: usize = 48;

/// Bytes of a packet that is rather copied than shared, at most.
const SHORT: usize = 128;

const UNSET: u16 = u16::MAX;

/// Annotation bytes in the descriptor's first line.
const HOT_ANNO: usize = 20;

/// Other packets may refer to this frame's buffer, or this packet to another frame's.
const SHARED: u8 = 1;
/// The bytes lie in the buffer of the frame `owner`, not in this one's.
const FOREIGN: u8 = 2;
/// Descriptor and buffer come from the heap.
const HEAP: u8 = 4;
/// The second descriptor line holds annotations.
const COLD: u8 = 8;
/// A jumbo frame.
pub(crate) const JUMBO: u8 = 16;
/// The flags of a frame itself, which outlive its packets.
const KIND: u8 = HEAP | JUMBO;

/// How a packet came to us, as in Click's packet type annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PacketType {
    /// Sent to this host.
    #[default]
    Host = 0,
    /// Link-level broadcast.
    Broadcast = 1,
    /// Link-level multicast.
    Multicast = 2,
    /// Sent to another host, seen in promiscuous mode.
    OtherHost = 3,
    /// Sent by this host.
    Outgoing = 4,
    /// Looped back.
    Loopback = 5,
}

/// A frame's descriptor.
///
/// The count stands apart from the rest, because other threads' clones change it while the packet's owner holds a
/// mutable reference to the rest.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Meta {
    /// Packets that refer to this frame's buffer; its own included.
    refs: AtomicU32,
    rest: Rest,
}

/// All of a descriptor that only its packet touches.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Rest {
    /// Start of the buffer that holds the bytes.
    buf: *mut u8,
    /// When it came, in nanoseconds since the epoch; 0 for unknown.
    timestamp_ns: u64,
    len: u32,
    off: u32,
    // These four make one aligned word, which a new packet sets at once.
    mac: u16,
    net: u16,
    transport: u16,
    device: u16,
    /// Size of the buffer that holds the bytes, in units of 64 bytes.
    capacity_64: u16,
    flags: u8,
    /// The type's bit; none for the host's.
    kind: u8,
    anno: [u8; ANNO_SIZE],
    // From byte 64 on, past half of `anno`: the cold line.
    /// The frame whose buffer holds the bytes: the frame itself, but for clones. In a chain of free frames: the next one.
    owner: *mut Meta,
}

const _: () = assert!(size_of::<Meta>() == 128);
const _: () = assert!(std::mem::offset_of!(Meta, rest) + std::mem::offset_of!(Rest, anno) == 64 - HOT_ANNO);

/// What a new packet sets, from [`Rest::timestamp_ns`] to the end of the line, in words.
#[repr(C)]
struct Begin {
    timestamp_ns: u64,
    /// Length and offset.
    extent: u64,
    /// Of the headers, and the device.
    positions: u64,
    rest: u64,
    anno: [u64; 2],
}

/// The word behind the header positions of an ordinary frame's new packet: its size, no flags, no type, the first annotations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest8(u64);

impl Rest8 {
    /// Of frames of so many bytes.
    #[inline]
    pub(crate) fn of_frames(bytes: usize) -> Rest8 {
        // SAFETY: as many numbers as the word, without padding.
        Rest8(unsafe { std::mem::transmute::<[u16; 4], u64>([(bytes / 64) as u16, 0, 0, 0]) })
    }

    /// Of a new packet in the frame of a descriptor.
    fn of(m: &Rest) -> Rest8 {
        Rest8::of_frames(usize::from(m.capacity_64) * 64)
    }
}

const BEGIN: usize = std::mem::offset_of!(Rest, timestamp_ns);
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Meta, rest) + BEGIN + size_of::<Begin>() == 64);
    assert!(offset_of!(Rest, len) == BEGIN + offset_of!(Begin, extent));
    assert!(offset_of!(Rest, off) == offset_of!(Rest, len) + 4);
    assert!(offset_of!(Rest, mac) == BEGIN + offset_of!(Begin, positions));
    assert!(offset_of!(Rest, device) == offset_of!(Rest, mac) + 6);
    assert!(offset_of!(Rest, capacity_64) == BEGIN + offset_of!(Begin, rest));
    assert!(offset_of!(Rest, flags) == offset_of!(Rest, capacity_64) + 2);
};

impl Meta {
    /// Prepares the descriptor of a frame that was never used.
    ///
    /// # Safety
    /// `meta` points to a descriptor that nobody else knows, `buf` to its buffer of `capacity` bytes.
    pub(crate) unsafe fn init(meta: NonNull<Meta>, buf: *mut u8, capacity: usize, flags: u8) {
        let rest = Rest {
            buf,
            timestamp_ns: 0,
            len: 0,
            off: 0,
            capacity_64: (capacity / 64) as u16,
            mac: UNSET,
            net: UNSET,
            transport: UNSET,
            device: 0,
            flags,
            kind: 0,
            anno: [0; ANNO_SIZE],
            owner: meta.as_ptr(),
        };
        // SAFETY: by contract.
        unsafe { meta.as_ptr().write(Meta { refs: AtomicU32::new(1), rest }) }
    }

    pub(crate) fn set_next(&mut self, next: Option<NonNull<Meta>>) {
        self.rest.owner = next.map_or(std::ptr::null_mut(), NonNull::as_ptr);
    }

    /// Takes a frame out of its chain of free frames, and returns the next one in it.
    ///
    /// It takes the pointer by which the frame goes on, as `owner` must outlive any reference to it.
    ///
    /// # Safety
    /// The chain is the caller's alone.
    pub(crate) unsafe fn unlink(meta: NonNull<Meta>) -> Option<NonNull<Meta>> {
        // SAFETY: by contract.
        NonNull::new(unsafe { std::mem::replace(&mut (*meta.as_ptr()).rest.owner, meta.as_ptr()) })
    }

    #[inline]
    pub(crate) fn is_jumbo(&self) -> bool {
        self.rest.flags & JUMBO != 0
    }
}

/// A packet: sole owner of a frame, or one of several that share its bytes until somebody writes.
///
/// Dropping a packet returns its frame to the pool of the current thread.
#[repr(transparent)]
pub struct Packet(NonNull<Meta>);

// SAFETY: a packet owns its descriptor; a buffer shared with clones is only read, and its reference count is atomic.
unsafe impl Send for Packet {}
// SAFETY: `&Packet` only reads.
unsafe impl Sync for Packet {}

const _: () = assert!(size_of::<Option<Packet>>() == size_of::<usize>());

impl Packet {
    /// A packet of `len` bytes, their content unspecified, after at least `headroom` bytes of headroom.
    /// Lengths beyond an ordinary frame take a jumbo frame, beyond that the heap (a reassembled datagram, say).
    /// `None` when packet memory is exhausted.
    #[inline]
    pub fn alloc(headroom: usize, len: usize) -> Option<Packet> {
        if headroom + len <= memory().frame_size() {
            let mut packet = Packet(pool::take_small()?);
            packet.begin(headroom, len);
            Some(packet)
        } else {
            Self::alloc_large(headroom, len)
        }
    }

    #[cold]
    fn alloc_large(headroom: usize, len: usize) -> Option<Packet> {
        if headroom + len <= JUMBO_SIZE
            && let Some(meta) = pool::take_jumbo()
        {
            return Some(Self::start(meta, headroom, len));
        }
        // 64 KiB of IP datagram, its link header and generous headroom.
        const HEAP_MAX: usize = 1 << 17;
        if headroom + len > HEAP_MAX { None } else { heap(headroom, len) }
    }

    /// A packet that holds a copy of `bytes`, with the usual headroom.
    #[inline]
    pub fn copy_of(bytes: &[u8]) -> Option<Packet> {
        Self::copy_with_headroom(HEADROOM, bytes)
    }

    /// A packet that holds a copy of `bytes` after at least `headroom` bytes of headroom.
    #[inline]
    pub fn copy_with_headroom(headroom: usize, bytes: &[u8]) -> Option<Packet> {
        let mut packet = Self::alloc(headroom, bytes.len())?;
        packet.sole_bytes().copy_from_slice(bytes);
        Some(packet)
    }

    /// Allocates up to `n` packets of `len` bytes, giving each to `each`; returns how many there were.
    #[inline]
    pub fn alloc_bulk(n: usize, headroom: usize, len: usize, mut each: impl FnMut(Packet)) -> usize {
        if headroom + len > memory().frame_size() {
            return (0..n).map_while(|_| Self::alloc(headroom, len)).map(each).count();
        }
        pool::take_small_bulk(n, |meta| {
            let mut packet = Packet(meta);
            packet.begin(headroom, len);
            each(packet);
        })
    }

    /// Starts a packet's life in a free ordinary frame from the pool: a few stores to the first line.
    #[inline(always)]
    fn begin(&mut self, headroom: usize, len: usize) {
        let off = colour(self.0, headroom, len);
        debug_assert!(self.meta().flags & KIND == 0 && std::ptr::eq(self.meta().owner, self.0.as_ptr()));
        let m = self.meta_mut();
        m.timestamp_ns = 0;
        (m.len, m.off) = (len as u32, off as u32);
        (m.mac, m.net, m.transport, m.device) = (UNSET, UNSET, UNSET, 0);
        (m.flags, m.kind) = (0, 0);
        m.anno[..HOT_ANNO].fill(0);
    }

    /// Starts a packet's life in a free frame.
    #[inline]
    fn start(meta: NonNull<Meta>, off: usize, len: usize) -> Packet {
        // SAFETY: a free frame just taken from its pool is ours alone.
        let m = unsafe { &mut (*meta.as_ptr()).rest };
        m.owner = meta.as_ptr();
        m.timestamp_ns = 0;
        m.len = len as u32;
        m.off = off as u32;
        m.mac = UNSET;
        m.net = UNSET;
        m.transport = UNSET;
        m.device = 0;
        m.kind = 0;
        m.flags &= KIND;
        m.anno[..HOT_ANNO].fill(0);
        Packet(meta)
    }

    /// Starts a packet's life in a free ordinary frame from the pool and marks it as [`Packet::arrive`] does. Returns where its
    /// bytes begin. The line is set in words: by fields it would take twice as many stores.
    #[inline(always)]
    pub(crate) fn begin_arrived(
        &mut self,
        headroom: usize,
        len: usize,
        wall_ns: u64,
        rest: Rest8,
    ) -> *mut u8 {
        let off = colour(self.0, headroom, len);
        debug_assert!(self.meta().flags & KIND == 0 && std::ptr::eq(self.meta().owner, self.0.as_ptr()));
        debug_assert!(off < usize::from(UNSET) && Rest8::of(self.meta()) == rest);
        let begin = Begin {
            timestamp_ns: wall_ns,
            // SAFETY: as many numbers without padding as the word.
            extent: unsafe { std::mem::transmute::<[u32; 2], u64>([len as u32, off as u32]) },
            // SAFETY: as above.
            positions: unsafe { std::mem::transmute::<[u16; 4], u64>([off as u16, UNSET, UNSET, 0]) },
            rest: rest.0,
            anno: [0; 2],
        };
        let m = self.meta_mut();
        let first = m.buf.wrapping_add(off);
        // SAFETY: these fields are the rest of the descriptor's first line, as asserted next to `Begin`, and ours.
        unsafe { (&raw mut *m).cast::<u8>().add(BEGIN).cast::<Begin>().write(begin) };
        first
    }

    #[inline]
    fn meta(&self) -> &Rest {
        // SAFETY: a packet owns this part of its descriptor.
        unsafe { &(*self.0.as_ptr()).rest }
    }

    #[inline]
    fn meta_mut(&mut self) -> &mut Rest {
        // SAFETY: as in `meta`; clones of the packet touch only `refs`, which is not part of this.
        unsafe { &mut (*self.0.as_ptr()).rest }
    }

    /// The count of packets that refer to the buffer that holds our bytes.
    #[inline]
    fn refs(&self) -> &AtomicU32 {
        // SAFETY: the owner of our buffer lives while we refer to it.
        unsafe { &*std::ptr::addr_of!((*self.meta().owner).refs) }
    }

    /// Whether no other packet shares the bytes, so that writing copies nothing.
    #[inline]
    pub fn is_sole(&self) -> bool {
        self.meta().flags & SHARED == 0
    }

    /// Length of the packet in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.meta().len as usize
    }

    /// Whether the packet holds no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks for the descriptor's line ahead of its use: it may lie in another core's cache.
    #[inline]
    pub fn prefetch(&self) {
        sync::prefetch::prefetch(self.meta());
    }

    /// Asks for the first line of the bytes, too; reads the descriptor.
    #[inline]
    pub fn prefetch_data(&self) {
        if let Some(first) = self.data().first() {
            sync::prefetch::prefetch(first);
        }
    }

    /// The bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let m = self.meta();
        // SAFETY: `off + len` never exceeds the buffer, and all packets that share the buffer only read it.
        unsafe { std::slice::from_raw_parts(m.buf.add(m.off as usize), m.len as usize) }
    }

    /// The bytes, to be changed; copies them first when another packet shares them.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        if self.meta().flags & SHARED != 0 {
            self.unshare();
        }
        self.sole_bytes()
    }

    /// The bytes of a packet that shares them with nobody.
    #[inline]
    fn sole_bytes(&mut self) -> &mut [u8] {
        let m = self.meta();
        // SAFETY: as in `data`, and no other packet refers to the buffer.
        unsafe { std::slice::from_raw_parts_mut(m.buf.add(m.off as usize), m.len as usize) }
    }

    /// Address of the first byte, for devices.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.data().as_ptr()
    }

    /// Bytes of free room before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.meta().off as usize
    }

    /// Bytes of free room after the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        usize::from(self.meta().capacity_64) * 64 - self.headroom() - self.len()
    }

    /// Removes `n` bytes from the front (Click's `pull`).
    ///
    /// # Panics
    /// When the packet is shorter.
    #[inline]
    pub fn strip(&mut self, n: usize) {
        assert!(n <= self.len(), "strip beyond the packet");
        let m = self.meta_mut();
        m.off += n as u32;
        m.len -= n as u32;
    }

    /// Removes `n` bytes from the end (Click's `take`).
    ///
    /// # Panics
    /// When the packet is shorter.
    #[inline]
    pub fn trim(&mut self, n: usize) {
        assert!(n <= self.len(), "trim beyond the packet");
        self.meta_mut().len -= n as u32;
    }

    /// Gives back `n` bytes of headroom without touching their content, which is what [`Packet::strip`] removed or
    /// is unspecified (Click's `nonunique_push`). Returns whether there was so much headroom; if not, nothing changed.
    #[inline]
    #[must_use]
    pub fn unstrip(&mut self, n: usize) -> bool {
        let m = self.meta_mut();
        if (m.off as usize) < n {
            return false;
        }
        m.off -= n as u32;
        m.len += n as u32;
        true
    }

    /// Puts `n` bytes of unspecified content in front and returns the whole packet's bytes, to be written. Moves the
    /// packet when its headroom is too small; `None`, with the packet unchanged, when memory is exhausted.
    #[inline]
    pub fn push(&mut self, n: usize) -> Option<&mut [u8]> {
        if self.meta().flags & SHARED != 0 {
            self.unshare();
        }
        if self.headroom() < n {
            self.grow(n + HEADROOM, 0)?;
        }
        let ok = self.unstrip(n);
        debug_assert!(ok);
        Some(self.sole_bytes())
    }

    /// Puts `n` bytes of unspecified content at the end and returns the whole packet's bytes, to be written. Moves
    /// the packet when its tailroom is too small; `None`, with the packet unchanged, when memory is exhausted.
    #[inline]
    pub fn put(&mut self, n: usize) -> Option<&mut [u8]> {
        if self.meta().flags & SHARED != 0 {
            self.unshare();
        }
        if self.tailroom() < n {
            let headroom = self.headroom();
            self.grow(headroom, n)?;
        }
        self.meta_mut().len += n as u32;
        Some(self.sole_bytes())
    }

    /// Moves the data, within its buffer or into a larger one, so that there is `headroom` and `tailroom` at least.
    #[cold]
    fn grow(&mut self, headroom: usize, tailroom: usize) -> Option<()> {
        let mut bigger = Packet::alloc(headroom, self.len() + tailroom)?;
        bigger.trim(tailroom);
        bigger.copy_from(self);
        *self = bigger;
        Some(())
    }

    /// Shifts the data so that its first byte's address is `offset` modulo `modulus` (Click's `Align`); the headroom
    /// changes. Returns whether there was room.
    pub fn align(&mut self, modulus: usize, offset: usize) -> bool {
        let at = self.as_ptr() as usize;
        if modulus <= 1 || at % modulus == offset {
            return true;
        }
        let len = self.len();
        let mut moved = match Packet::alloc(self.headroom() + modulus, len + modulus) {
            Some(p) => p,
            None => return false,
        };
        moved.trim(modulus);
        let at = moved.as_ptr() as usize;
        let back = (at % modulus + modulus - offset) % modulus;
        if back > 0 {
            let m = moved.meta_mut();
            m.off -= back as u32;
        }
        moved.copy_from(self);
        *self = moved;
        true
    }

    /// Takes over bytes, header positions and annotations of `other`, which has the same length.
    fn copy_from(&mut self, other: &Packet) {
        self.sole_bytes().copy_from_slice(other.data());
        let front = other.front();
        if front > 0 && self.unstrip(front) {
            let header = other.mac().and_then(|mac| mac.get(..front)).unwrap_or_default();
            self.sole_bytes()[..header.len()].copy_from_slice(header);
            self.strip(front);
        }
        self.copy_meta_from(other);
    }

    /// How many bytes lie from the link header to the data, if it lies in front of them. Copies keep these bytes: elements behind a Strip read the link header.
    fn front(&self) -> usize {
        let m = self.meta();
        if m.mac == UNSET { 0 } else { (m.off as usize).saturating_sub(usize::from(m.mac)) }
    }

    fn copy_meta_from(&mut self, other: &Packet) {
        self.copy_annotations(other);
        let (from, to) = (other.meta(), self.meta().off as i64);
        let shift = to - i64::from(from.off);
        let moved = |at: u16| match u16::try_from(i64::from(at) + shift) {
            Ok(new) if at != UNSET => new,
            _ => UNSET,
        };
        let (mac, net, transport) = (moved(from.mac), moved(from.net), moved(from.transport));
        let m = self.meta_mut();
        (m.mac, m.net, m.transport) = (mac, net, transport);
    }

    /// Copies all annotations, header positions excepted, from `other`.
    pub fn copy_annotations(&mut self, other: &Packet) {
        let from = other.meta();
        let m = self.meta_mut();
        m.kind = from.kind;
        m.device = from.device;
        m.anno[..HOT_ANNO].copy_from_slice(&from.anno[..HOT_ANNO]);
        m.timestamp_ns = from.timestamp_ns;
        m.flags = (m.flags & !followed::WITH_ANNOTATIONS) | (from.flags & followed::WITH_ANNOTATIONS);
        if from.flags & COLD != 0 {
            m.anno[HOT_ANNO..].copy_from_slice(&from.anno[HOT_ANNO..]);
        }
    }

    /// A second packet over the same bytes, with the same annotations; the first writer copies.
    /// `None` when packet memory is exhausted.
    pub fn share(&mut self) -> Option<Packet> {
        let mut clone = Packet::start(pool::take_small()?, self.headroom(), self.len());
        self.refs().fetch_add(1, Ordering::Relaxed);
        self.meta_mut().flags |= SHARED;
        let (owner, buf, capacity_64) = (self.meta().owner, self.meta().buf, self.meta().capacity_64);
        let m = clone.meta_mut();
        m.owner = owner;
        m.buf = buf;
        m.capacity_64 = capacity_64;
        m.flags |= SHARED | FOREIGN;
        clone.copy_meta_from(self);
        Some(clone)
    }

    /// A packet with its own copy of the bytes and the same annotations.
    pub fn duplicate(&self) -> Option<Packet> {
        let mut copy = Packet::alloc(self.headroom().min(HEADROOM), self.len())?;
        copy.copy_from(self);
        Some(copy)
    }

    /// A packet of the same bytes and annotations for another way out: a copy of a short packet, which costs less than the three atomic
    /// operations of sharing, or one that [shares](Packet::share) them.
    #[inline]
    pub fn second(&mut self) -> Option<Packet> {
        match self.len() <= SHORT && self.meta().flags & (SHARED | FOREIGN) == 0 {
            true => self.duplicate(),
            false => self.share(),
        }
    }

    /// Makes this packet the only one that refers to its bytes.
    #[cold]
    fn unshare(&mut self) {
        // Acquire pairs with the release in `drop`: the reads of former clones are over before we write.
        if self.refs().load(Ordering::Acquire) == 1 {
            self.meta_mut().flags &= !SHARED;
            return;
        }
        if self.meta().flags & FOREIGN != 0 && self.len() <= memory().frame_size() {
            self.copy_home();
        } else {
            let (headroom, len) = (self.headroom(), self.len());
            let mut copy = Packet::alloc(headroom, len)
                .or_else(|| heap(headroom, len))
                .expect("the heap holds a copy of a packet");
            copy.copy_from(self);
            *self = copy;
        }
    }

    /// Moves a clone's bytes into its own buffer, which has room for them.
    fn copy_home(&mut self) {
        let memory = memory();
        let own = memory.buffer(self.0);
        let (old_off, len) = (self.headroom(), self.len());
        let off = old_off.min(memory.frame_size() - len);
        let front = Some(self.front()).filter(|front| *front <= off).unwrap_or(0);
        // SAFETY: `own` is the buffer of this clone's frame, which nobody uses while the clone is foreign, and
        // `off + len` fits in it. `front` bytes lie in front of the data in either buffer, at most `old_off` and `off`.
        unsafe {
            std::ptr::copy_nonoverlapping(self.as_ptr().sub(front), own.add(off - front), front + len);
        }
        let owner = self.meta().owner;
        let this = self.0.as_ptr();
        let m = self.meta_mut();
        m.buf = own;
        m.owner = this;
        m.off = off as u32;
        m.capacity_64 = (memory.frame_size() / 64) as u16;
        m.flags &= !(SHARED | FOREIGN);
        for at in [&mut m.mac, &mut m.net, &mut m.transport] {
            let moved = i64::from(*at) + off as i64 - old_off as i64;
            *at = if *at == UNSET { UNSET } else { u16::try_from(moved).unwrap_or(UNSET) };
        }
        // SAFETY: our reference to the owner's buffer ends here.
        unsafe { unref(owner) };
    }

    /// Whether another packet shares the bytes.
    pub fn is_shared(&self) -> bool {
        self.meta().flags & SHARED != 0 && self.refs().load(Ordering::Relaxed) > 1
    }

    /// Index of the ordinary frame that holds the bytes, for a device that maps the region; `None` for other packets.
    #[inline]
    pub fn frame_index(&self) -> Option<usize> {
        let m = self.meta();
        if m.flags & (SHARED | FOREIGN | HEAP | JUMBO) != 0 {
            return None;
        }
        Some(memory().index(self.0))
    }

    /// Gives the frame to a device; [`Packet::from_frame`] takes it back. `None`, and the packet returned, when it
    /// is not the only user of an ordinary frame.
    ///
    /// # Errors
    /// The packet itself.
    #[inline]
    pub fn into_frame(self) -> Result<usize, Packet> {
        match self.frame_index() {
            Some(index) => {
                std::mem::forget(self);
                Ok(index)
            }
            None => Err(self),
        }
    }

    /// Takes a frame back from a device: `len` bytes that begin `offset` bytes after the frame's start.
    ///
    /// # Safety
    /// The frame was given away by [`Packet::into_frame`], and the device refers to it no longer.
    ///
    /// # Panics
    /// When the range is outside the frame.
    #[inline]
    pub unsafe fn from_frame(index: usize, offset: usize, len: usize) -> Packet {
        assert!(offset + len <= memory().frame_size(), "device returned a range outside its frame");
        Self::start(memory().meta(index), offset, len)
    }
}

/// Staggers the first bytes of short packets over cache sets; frames lie 2 KiB apart, so otherwise the headers of a
/// whole batch would share two sets.
#[inline]
fn colour(meta: NonNull<Meta>, headroom: usize, len: usize) -> usize {
    // Two frames make a page; sixteen pages in a row begin at sixteen different lines.
    let shift = ((meta.as_ptr() as usize / size_of::<Meta>()) >> 1 & 15) * 64;
    if len <= 512 && headroom <= 512 { headroom + shift } else { headroom }
}

const HEAP_ALIGN: usize = 64;

#[cold]
fn heap(headroom: usize, len: usize) -> Option<Packet> {
    let capacity = (headroom + len).next_multiple_of(HEAP_ALIGN).max(HEAP_ALIGN);
    let layout = Layout::from_size_align(capacity, HEAP_ALIGN).ok()?;
    // SAFETY: the layout is not empty; the descriptor is written before anybody sees it.
    unsafe {
        let buf = alloc(layout);
        let meta = NonNull::new(alloc(Layout::new::<Meta>()).cast::<Meta>());
        let (Some(meta), false) = (meta, buf.is_null()) else {
            return None;
        };
        Meta::init(meta, buf, capacity, HEAP);
        Some(Packet::start(meta, headroom, len))
    }
}

/// Ends one reference to the buffer of `owner`, and frees the frame with the last.
///
/// # Safety
/// The caller held such a reference and does not use it again.
unsafe fn unref(owner: *mut Meta) {
    // SAFETY: the frame lives while its count is above zero. Release orders our reads of the bytes before the count;
    // the acquire fence of the last reference orders them before the frame's next life.
    unsafe {
        if (*std::ptr::addr_of!((*owner).refs)).fetch_sub(1, Ordering::Release) > 1 {
            return;
        }
        std::sync::atomic::fence(Ordering::Acquire);
        (*owner).refs.store(1, Ordering::Relaxed);
        free(NonNull::new_unchecked(owner));
    }
}

/// Frees a frame that nobody refers to.
///
/// # Safety
/// As it says.
#[inline]
unsafe fn free(meta: NonNull<Meta>) {
    // SAFETY: by contract.
    let m = unsafe { &(*meta.as_ptr()).rest };
    if m.flags & HEAP != 0 {
        // SAFETY: made by `heap` with these layouts.
        unsafe {
            let layout = Layout::from_size_align_unchecked(usize::from(m.capacity_64) * 64, HEAP_ALIGN);
            dealloc(m.buf, layout);
            dealloc(meta.as_ptr().cast(), Layout::new::<Meta>());
        }
        return;
    }
    pool::release(meta);
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        if self.meta().flags & (SHARED | FOREIGN) == 0 {
            // SAFETY: sole packet of the frame.
            unsafe { free(self.0) }
        } else {
            self.drop_shared();
        }
    }
}

impl Packet {
    #[cold]
    fn drop_shared(&mut self) {
        let owner = self.meta().owner;
        if self.meta().flags & FOREIGN != 0 {
            let memory = memory();
            let own = memory.buffer(self.0);
            let this = self.0.as_ptr();
            let m = self.meta_mut();
            m.buf = own;
            m.owner = this;
            m.capacity_64 = (memory.frame_size() / 64) as u16;
            // SAFETY: a clone's frame has no other user; nobody refers to its buffer.
            unsafe { free(self.0) };
        }
        // SAFETY: this packet's reference ends here.
        unsafe { unref(owner) };
    }

    /// How many bytes these packets have, and whether dropping them is just returning ordinary frames.
    #[inline]
    pub(crate) fn bytes_and_plain(packets: &[Packet]) -> (usize, bool) {
        let (mut bytes, mut flags) = (0, 0);
        for m in packets.iter().map(Packet::meta) {
            bytes += m.len as usize;
            flags |= m.flags;
        }
        (bytes, flags & (SHARED | FOREIGN | KIND) == 0)
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes", self.len())?;
        for byte in self.data().iter().take(24) {
            write!(f, " {byte:02x}")?;
        }
        write!(f, "{})", if self.len() > 24 { " ..." } else { "" })
    }
}

#[cfg(test)]
mod tests;
